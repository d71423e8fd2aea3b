"""Names below a folder lead nowhere else, whether the kernel resolves them or we do."""

import errno
import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.files import beneath
from trainshed.files.beneath import Beneath, FileKind

WAYS = [
    pytest.param(beneath.by_kernel, id="openat2"),
    pytest.param(beneath.by_parts, id="by parts"),
]


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    if request.param is beneath.by_kernel and beneath._resolve() is not beneath.by_kernel:
        pytest.skip("this kernel, or its guard, has no openat2: use Linux 5.6 or newer")
    monkeypatch.setattr(beneath, "_resolve", lambda: request.param)


@pytest.fixture
def tree(way, tmp_path):  # noqa: ARG001 - names are resolved in one of both ways
    """``a/file`` and links of every kind beside it; ``secret`` outside."""
    (tmp_path / "secret").write_text("outside")
    root = tmp_path / "root"
    (root / "a" / "deep").mkdir(parents=True)
    (root / "a" / "file").write_text("inside")
    (root / "out").symlink_to(tmp_path)
    (root / "up").symlink_to("..")
    (root / "a" / "secret").symlink_to(tmp_path / "secret")
    (root / "a" / "same").symlink_to("file")
    (root / "loop").symlink_to("loop")
    (root / "magic").symlink_to("/proc/self/root")
    with Beneath(root) as opened_root:
        yield opened_root


def number(call):
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number is what is checked
        call()
    return caught.value.errno


def test_what_lies_there_is_read(tree):
    with tree.read("a/file") as file:
        assert file.read() == b"inside"
        assert not os.get_inheritable(file.fileno())
    assert sorted(tree.entries("a")) == [
        ("deep", FileKind.FOLDER),
        ("file", FileKind.FILE),
        ("same", FileKind.OTHER),
        ("secret", FileKind.OTHER),
    ]
    root = root_of(tree)
    assert tree.stat("a/same") == (root / "a/same").lstat()
    assert tree.stat("").st_ino == root.stat().st_ino


def root_of(tree):
    return Path(f"/proc/self/fd/{tree._root}").readlink()


def descriptors():
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.mark.parametrize(
    "name",
    ["out/secret", "up/secret", "a/secret", "a/same", "loop", "magic/etc/passwd", "up/root/a"],
)
def test_a_link_anywhere_is_an_error(tree, name):
    assert number(lambda: tree.read(name)) == errno.ELOOP
    assert number(lambda: tree.open(name, os.O_WRONLY | os.O_CREAT)) == errno.ELOOP


@pytest.mark.parametrize("name", ["out", "up", "out/new", "up/new/er", "a/secret/new"])
def test_no_folder_is_made_behind_a_link(tree, name, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    assert number(lambda: tree.make_folders(name)) == errno.ELOOP
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "name", ["..", "../secret", "a/../../secret", "/etc/passwd", "a//file", "."]
)
def test_a_name_is_no_path(tree, name):
    assert number(lambda: tree.read(name)) == errno.EINVAL


def test_what_is_no_file_is_told_and_makes_nobody_wait(tree):
    root = root_of(tree)
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as sock, ExitStack() as back:
        here = os.open(".", os.O_RDONLY)
        back.callback(os.close, here)
        back.callback(os.fchdir, here)
        os.chdir(root)
        sock.bind("sock")
    assert number(lambda: tree.read("pipe")) == errno.EINVAL
    assert number(lambda: tree.read("a/deep")) == errno.EINVAL
    assert number(lambda: tree.read("sock")) == errno.ENXIO
    assert number(lambda: tree.read("a/none")) == errno.ENOENT
    assert number(lambda: tree.read("a/file/below")) == errno.ENOTDIR
    assert number(lambda: tree.make_folders("a/file/below")) == errno.ENOTDIR


def test_folders_are_made_once(tree):
    for _ in range(2):
        tree.make_folders("a/new/er")
    assert tree.entries("a/new") == [("er", FileKind.FOLDER)]
    tree.make_folders("")


NAMES = st.lists(
    st.sampled_from(["a", "deep", "file", "out", "up", "loop", "magic", "same", "new", "root"]),
    min_size=1,
    max_size=4,
).map("/".join)


@given(st.lists(st.tuples(st.sampled_from(["read", "stat", "make_folders"]), NAMES), max_size=8))
def test_both_ways_agree(tmp_path_factory, calls):
    """On what is found, and on what is refused and why."""
    answers = []
    for resolve in (beneath.by_kernel, beneath.by_parts):
        root = tmp_path_factory.mktemp("both")
        (root / "a" / "deep").mkdir(parents=True)
        (root / "a" / "file").write_text("x")
        for name, to in (("out", "/"), ("up", ".."), ("loop", "loop"), ("a/same", "file")):
            (root / name).symlink_to(to)
        with pytest.MonkeyPatch.context() as patch, Beneath(root) as tree:
            patch.setattr(beneath, "_resolve", lambda way=resolve: way)
            answers.append([answer(tree, *call) for call in calls])
    assert answers[0] == answers[1]


def answer(tree, call, name):
    try:
        opened = getattr(tree, call)(name)
    except OSError as error:
        return error.errno
    if call == "read":
        with opened:
            return opened.read()
    return call == "stat" and opened.st_mode


def test_no_descriptor_is_lost(tree):
    before = descriptors()
    for name in ("a/file/below", "out/secret", "a/none", "a/deep", "loop"):
        number(lambda name=name: tree.read(name))
    assert descriptors() == before
