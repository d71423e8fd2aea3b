"""A package unpacks within bounds, and nothing of it lies outside of its folder."""

import gzip
import io
import os
import shutil
import sys
import tarfile
import zipfile

import pytest

from trainshed.engines.environments import unpack as unpacking
from trainshed.engines.environments.unpack import check_wheel, unpack
from trainshed.model.faults import EngineFault

MIB = 1 << 20


def tar(path, *members, mode="w:gz"):
    """An archive of members: (name, bytes), or a TarInfo as it is."""
    with tarfile.open(path, mode) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                entry = tarfile.TarInfo(member[0])
                entry.size = len(member[1])
                archive.addfile(entry, io.BytesIO(member[1]))
    return path


def link(name, target, kind=tarfile.SYMTYPE):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def of_type(name, kind):
    entry = tarfile.TarInfo(name)
    entry.type = kind
    return entry


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize(
    ("name", "mode"),
    [("p.tar.gz", "w:gz"), ("p.tgz", "w:gz"), ("p.tar.bz2", "w:bz2"), ("p.tar.xz", "w:xz"),
     ("p.tar", "w")],
)  # fmt: skip
def test_an_sdist_is_unpacked_with_its_links(tmp_path, name, mode):
    members = [("p-1/a/x.py", b"x = 1"), link("p-1/y.py", "a/x.py"), link("p-1/a/z", "../a/x.py"),
               link("p-1/hard", "p-1/a/x.py", tarfile.LNKTYPE)]  # fmt: skip
    unpack(tar(tmp_path / name, *members, mode=mode), tmp_path / "out", 2 * MIB)
    for inner in ("a/x.py", "y.py", "a/z", "hard"):
        assert (tmp_path / "out/p-1" / inner).read_bytes() == b"x = 1"


def test_a_zip_is_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr("p-1/a.py", "x")
    unpack(tmp_path / "p.zip", tmp_path / "out", MIB)
    assert (tmp_path / "out/p-1/a.py").read_text() == "x"


def many_zeros(folder):
    return tar(folder / "zeros.tar.gz", ("a", bytes(8 * MIB)))


def zeros_in_many(folder):
    return tar(folder / "pieces.tar.gz", *((f"f{n}", bytes(MIB // 2)) for n in range(20)))


def a_sparse_one(folder):
    entry = tarfile.TarInfo("sparse")
    words = {"major": "1", "minor": "0", "realsize": str(1 << 50), "name": "sparse"}
    entry.pax_headers = {f"GNU.sparse.{key}": word for key, word in words.items()}
    data = b"1\n0\n1\n".ljust(512, b"\0") + b"x".ljust(512, b"\0")
    entry.size = len(data)
    with tarfile.open(folder / "sparse.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(entry, io.BytesIO(data))
    return folder / "sparse.tar.gz"


def zeros_in_a_zip(folder):
    with zipfile.ZipFile(folder / "zeros.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(8 * MIB))
    return folder / "zeros.zip"


@pytest.mark.parametrize("make", [many_zeros, zeros_in_many, a_sparse_one, zeros_in_a_zip])
def test_a_small_archive_of_much_is_refused_and_little_is_written(tmp_path, make):
    archive = make(tmp_path)
    with pytest.raises(EngineFault, match=r"unpacks to more than 4194304 bytes \(limits\.package"):
        unpack(archive, tmp_path / "out", 4 * MIB)
    written = sum(path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert written <= 4 * MIB


def test_a_header_that_would_fill_the_memory_is_not_read(tmp_path):
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = tarfile.XHDTYPE, 1 << 33
    with gzip.open(tmp_path / "p.tar.gz", "wb") as packed:
        packed.write(entry.tobuf(tarfile.GNU_FORMAT) + bytes(MIB))
    with pytest.raises(EngineFault, match="has a header of more than a MiB"):
        unpack(tmp_path / "p.tar.gz", tmp_path / "out", None)


@pytest.mark.parametrize("make", [tar, None])
def test_more_files_than_a_package_has_are_refused(tmp_path, monkeypatch, make):
    monkeypatch.setattr(unpacking, "FILES_MAX", 9)
    if make:
        path = tar(tmp_path / "p.tar.gz", *((f"f{n}", b"") for n in range(10)))
    else:
        path = tmp_path / "p.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for number in range(10):
                archive.writestr(f"f{number}", "")
    with pytest.raises(EngineFault, match="has more than 9 files"):
        unpack(path, tmp_path / "out", MIB)


OUTSIDE = [
    [("../evil", b"x")],
    [link("out", "/etc"), ("out/evil", b"x")],
    [link("out", ".."), ("out/evil", b"x")],
    [link("a", "/etc/hostname")],
    [link("a", "../x")],
    [link("d/a", "../../x")],
    [link("a", "b/../../x"), link("b", ".")],
    [link("a", "b/../x"), link("b", ".")],
    [link("inside", "."), ("inside/evil", b"x")],
    [link("inside", "d"), link("hard", "inside/x", tarfile.LNKTYPE)],
    [("d/x", b"x"), link("x", "d/x"), ("x", b"evil")],
    [link("hard", "/etc/hostname", tarfile.LNKTYPE)],
    [link("hard", "not-there", tarfile.LNKTYPE)],
    [of_type("pipe", tarfile.FIFOTYPE)],
    [of_type("disk", tarfile.BLKTYPE)],
]


@pytest.fixture(params=["filter", "no filter"])
def python(request, monkeypatch):
    """Python with PEP 706's filters, and as it was before 3.11.4."""
    if request.param == "no filter":
        if sys.version_info >= (3, 12):
            pytest.skip("every Python from 3.12 on has the filters")
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    elif not hasattr(tarfile, "data_filter"):
        pytest.skip("this Python has no filters")


@pytest.mark.usefixtures("python")
def test_owner_and_mode_are_not_the_archives_to_choose(tmp_path):
    entry = tarfile.TarInfo("x")
    entry.uid, entry.gid, entry.mode = 4242, 4242, 0o6777
    unpack(tar(tmp_path / "p.tar.gz", entry), tmp_path / "out", MIB)
    facts = (tmp_path / "out/x").stat()
    assert (facts.st_uid, facts.st_gid) == (os.geteuid(), os.getegid())
    assert facts.st_mode & 0o7777 == 0o755


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize("members", OUTSIDE)
def test_nothing_leads_out_of_a_package(tmp_path, members):
    (tmp_path / "in").mkdir()
    path = tar(tmp_path / "p.tar.gz", *members)
    with pytest.raises(shutil.ReadError):
        unpack(path, tmp_path / "in/out", MIB)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["in", "p.tar.gz"]
    assert [entry.name for entry in (tmp_path / "in").iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil"])
def test_nothing_leads_out_of_a_zip(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(shutil.ReadError, match="leads out"):
        unpack(tmp_path / "p.zip", tmp_path / "out", MIB)


@pytest.mark.parametrize("name", ["p.tar.gz", "p.tar.bz2", "p.tar.xz", "p.tar", "p.zip", "p.rar"])
@pytest.mark.parametrize("content", [b"", b"no archive", b"\1" * 2000])
def test_what_is_no_archive_is_said(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(shutil.ReadError, match=name):
        unpack(tmp_path / name, tmp_path / "out", MIB)


@pytest.mark.parametrize(("at", "word"), [(6, "encrypted"), (8, "compression")])
def test_a_zip_that_cannot_be_read_is_said(tmp_path, at, word):
    path = tmp_path / "p.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", "text")
    data = bytearray(path.read_bytes())
    for head in (at, data.index(b"PK\1\2") + at + 2):  # of the file, and of the directory
        data[head] = 1
    path.write_bytes(data)
    with pytest.raises(shutil.ReadError, match=word):
        unpack(path, tmp_path / "out", MIB)


def test_a_fault_of_ours_is_no_damaged_archive(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "_check_path", lambda *_: {}["ours"])
    path = tar(tmp_path / "p.tar.gz", ("x", b"x"))
    with pytest.raises(KeyError, match="ours"):
        unpack(path, tmp_path / "out", MIB)


def test_a_wheel_that_unpacks_to_too_much_is_refused(tmp_path):
    wheel = tmp_path / "p-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("p.py", bytes(2 * MIB))
    check_wheel(wheel, 3 * MIB)
    with pytest.raises(EngineFault, match=r"unpacks to more than 1048576 bytes"):
        check_wheel(wheel, MIB)
