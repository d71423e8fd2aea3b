"""A copy of a tree has its files to the byte, its links as links, and nothing from elsewhere."""

import hashlib
import os
import socket

import pytest

from trainshed.files.beneath import Kind
from trainshed.files.copies import copy_file, copy_tree


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
        found = list(copy_tree(tree, tmp_path / "to"))
    assert found == [("a/b/file", 7, hashlib.sha256(b"content").hexdigest())]
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

    def wanted(name, kind):
        return name != "a/b" or kind is not Kind.FOLDER

    assert list(copy_tree(tree, tmp_path / "to", wanted)) == []
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
