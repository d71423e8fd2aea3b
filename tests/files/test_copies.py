"""A copy of a tree has its files to the byte, its links as links, and nothing from elsewhere."""

import hashlib
import os
import resource
import socket

import pytest

from trainshed.files.beneath import FileKind
from trainshed.files.copies import Remark, Remarks, copy_file, copy_tree, measure_file


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "from"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").write_bytes(b"content")
    (root / "a" / "b" / "file").chmod(0o640)
    os.utime(root / "a" / "b" / "file", ns=(1, 2))
    (tmp_path / "secret").write_text("secret")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    return root


def test_files_are_copied_with_modes_and_times_links_as_links_and_nothing_else(tree, tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tree / "socket"))
        entries = list(copy_tree(tree, tmp_path / "to"))
    assert entries == [("a/b/file", 7, hashlib.sha256(b"content").hexdigest())]
    copy = tmp_path / "to" / "a" / "b" / "file"
    assert copy.read_bytes() == b"content"
    assert copy.stat().st_mode & 0o777 == 0o640
    assert copy.stat().st_mtime_ns == 2
    assert (tmp_path / "to" / "link").readlink() == tmp_path / "secret"
    assert (tmp_path / "to" / "folder").is_symlink()
    assert {path.name for path in (tmp_path / "to").iterdir()} == {"a", "link", "folder"}


def test_what_is_there_stays_and_what_is_not_wanted_is_left_out(tree, tmp_path):
    (tree / "a" / "other").write_bytes(b"new")
    (tmp_path / "to" / "a").mkdir(parents=True)
    (tmp_path / "to" / "a" / "other").write_bytes(b"old")

    def select(name, kind):
        return name != "a/b" or kind is not FileKind.FOLDER

    assert list(copy_tree(tree, tmp_path / "to", select)) == []
    assert (tmp_path / "to" / "a" / "other").read_bytes() == b"old"
    assert not (tmp_path / "to" / "a" / "b").exists()


def test_a_folder_that_cannot_be_read_is_an_error_and_not_left_out(tree, tmp_path, monkeypatch):
    def refuse(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError):
        list(copy_tree(tree, tmp_path / "to"))


def test_a_file_that_grows_is_copied_as_it_was(tmp_path):
    path = tmp_path / "grows"
    path.write_bytes(b"x" * 10)

    class Growing:
        def write(self, _):
            with path.open("ab") as more:
                more.write(b"y" * 10)

    with path.open("rb") as source:
        assert copy_file(source, Growing()) == (10, hashlib.sha256(b"x" * 10).hexdigest())


def copied(source, target):
    """What a copy has, and the remarks on it: their counts and first names."""
    remarks = Remarks()
    return list(copy_tree(source, target, remarks=remarks)), remarks


def test_a_copy_says_what_it_left_out_and_what_it_changed(tree, tmp_path):
    (tree / "a" / "runs-as-its-owner").write_bytes(b"program")
    (tree / "a" / "runs-as-its-owner").chmod(0o6755)
    (tree / "a" / "other-name").hardlink_to(tmp_path / "secret")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tree / "a" / "socket"))
        _, remarks = copied(tree, tmp_path / "to")
    assert remarks == {
        Remark.SPECIAL: (2, "pipe"),
        Remark.SET_ID: (1, "a/runs-as-its-owner"),
        Remark.HARD_LINKS: (1, "a/other-name"),
    }
    assert (tmp_path / "to/a/runs-as-its-owner").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "to/a/other-name").read_text() == "secret"
    assert (tmp_path / "to/a/other-name").stat().st_nlink == 1
    assert remarks.sentences()[0] == (
        "pipes, sockets and devices that were left out: 2, the first is pipe"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes: run as root")
def test_a_device_is_left_out_and_not_opened(tmp_path):
    (tmp_path / "from").mkdir()
    try:
        os.mknod(tmp_path / "from" / "device", 0o600 | 0o020000, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("device nodes may not be made here: run the tests outside of a container")
    assert copied(tmp_path / "from", tmp_path / "to") == ([], {Remark.SPECIAL: (1, "device")})


def test_extended_attributes_are_not_copied_and_counted(tree, tmp_path):
    try:
        os.setxattr(tree / "a/b/file", "user.note", b"text")
    except OSError:
        pytest.skip(
            "the file system has no extended attributes: set TMPDIR to a folder on ext4 or xfs"
        )
    _, remarks = copied(tree, tmp_path / "to")
    assert remarks[Remark.ATTRIBUTES] == (1, "a/b/file")
    assert os.listxattr(tmp_path / "to/a/b/file") == []


def test_links_below_the_target_lead_the_copy_nowhere(tree, tmp_path):
    """A restore by root wrote where a link of a job led."""
    outside, target = tmp_path / "outside", tmp_path / "to"
    outside.mkdir()
    target.mkdir()
    (target / "a").symlink_to(outside)
    (target / "link").write_text("a file is here")
    entries, remarks = copied(tree, target)
    assert entries == []
    assert list(outside.iterdir()) == []
    assert (target / "a").is_symlink()
    assert remarks[Remark.IN_THE_WAY] == (2, "a")


def test_a_link_in_the_place_of_a_file_is_neither_written_through_nor_replaced(tree, tmp_path):
    (tmp_path / "to" / "a" / "b").mkdir(parents=True)
    (tmp_path / "to" / "a" / "b" / "file").symlink_to(tmp_path / "secret")
    _, remarks = copied(tree, tmp_path / "to")
    assert (tmp_path / "secret").read_text() == "secret"
    assert (tmp_path / "to" / "a" / "b" / "file").is_symlink()
    assert remarks[Remark.IN_THE_WAY] == (1, "a/b/file")


def test_a_folder_that_becomes_a_link_during_the_copy_keeps_the_mode_of_what_it_leads_to(
    tree, tmp_path
):
    outside, target = tmp_path / "outside", tmp_path / "to"
    outside.mkdir(mode=0o700)
    copying = copy_tree(tree, target)
    next(copying)
    (target / "a").rename(target / "moved")
    (target / "a").symlink_to(outside)
    assert list(copying) == []
    assert outside.stat().st_mode & 0o777 == 0o700
    assert list(outside.iterdir()) == []


def holes_of(path):
    """How many bytes of a file are on no block of the disk."""
    return path.stat().st_size - path.stat().st_blocks * 512


def test_holes_stay_holes_and_cost_no_time(tmp_path):
    """Eight exbibytes of zeros would take a century to read."""
    (tmp_path / "from").mkdir()
    path = tmp_path / "from" / "sparse"
    with path.open("wb") as file:
        file.write(b"head")
        file.seek(1 << 40)
        file.write(b"middle")
        file.truncate(1 << 43)
    ((name, size, digest),), remarks = copied(tmp_path / "from", tmp_path / "to")
    copy = tmp_path / "to" / name
    assert (size, remarks) == (1 << 43, {})
    assert copy.stat().st_size == size
    assert holes_of(copy) > size - (1 << 20)
    with copy.open("rb") as file:
        assert file.read(4) == b"head"
        assert os.pread(file.fileno(), 6, 1 << 40) == b"middle"
        assert measure_file(file, digest) == (size, digest)


def test_a_file_that_is_too_large_for_the_copy_is_a_remark(tmp_path):
    """A program that made a file of many TiB without data kept every backup from its end."""
    source = tmp_path / "from"
    source.mkdir()
    (source / "other").write_bytes(b"content")
    with (source / "huge").open("wb") as file:
        file.truncate(1 << 30)
        file.write(b"data")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    remarks = Remarks()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 29, before[1]))
    try:
        names = [copied.name for copied in copy_tree(source, tmp_path / "to", remarks=remarks)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names == ["other"]
    assert remarks == {Remark.TOO_LARGE: (1, "huge")}
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["other"]


def test_the_digest_of_a_file_with_holes_tells_its_bytes_and_not_its_blocks(tmp_path):
    """Other file systems keep the same bytes in other blocks."""
    sparse, whole, other = tmp_path / "sparse", tmp_path / "whole", tmp_path / "other"
    with sparse.open("wb") as file:
        file.seek(1 << 20)
        file.write(b"data")
    whole.write_bytes(bytes(1 << 20) + b"data")
    other.write_bytes(bytes((1 << 20) - 4096) + b"data" + bytes(4096))
    (tmp_path / "copy").touch()
    with sparse.open("rb") as source, (tmp_path / "copy").open("wb") as target:
        size, digest = copy_file(source, target)
    for path, is_same in ((whole, True), (other, False), (tmp_path / "copy", True)):
        with path.open("rb") as file:
            assert (measure_file(file, digest) == (size, digest)) is is_same


def test_a_file_that_shrinks_while_it_is_copied_is_a_remark(tree, tmp_path, monkeypatch):
    from trainshed.files import copies  # noqa: PLC0415 - its name is used here alone

    real = copies.copy_file

    def shrink(source, target):
        os.truncate(tree / "a/b/file", 3)
        return real(source, target)

    monkeypatch.setattr(copies, "copy_file", shrink)
    entries, remarks = copied(tree, tmp_path / "to")
    assert entries == [("a/b/file", 3, hashlib.sha256(b"con").hexdigest())]
    assert remarks == {Remark.SPECIAL: (1, "pipe"), Remark.CHANGED: (1, "a/b/file")}


def test_a_tree_that_is_too_deep_to_be_named_is_a_remark(tmp_path):
    (tmp_path / "from").mkdir()
    folder = os.open(tmp_path / "from", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("x" * 250, dir_fd=folder)
        folder, above = os.open("x" * 250, os.O_RDONLY, dir_fd=folder), folder
        os.close(above)
    os.close(folder)
    _, remarks = copied(tmp_path / "from", tmp_path / "to")
    assert remarks[Remark.TOO_DEEP][0] == 1
