"""What programs have made is removed, however deep, and nothing that it leads to."""

import os

import pytest

from trainshed.files.acting import acting_as
from trainshed.files.trees import opened_folders, remove_tree
from trainshed.storage.object_files import NameRefused
from trainshed.storage.objects import NewObject, Objects
from trainshed.storage.uploads import part


def deepen(folder, levels, name="a"):
    """Folders in folders, with a file in each; deeper than any path may be long."""
    before = os.open(".", os.O_RDONLY)
    os.chdir(folder)
    try:
        for _ in range(levels):
            os.mkdir(name)  # noqa: PTH102 - a path would be too long
            os.chdir(name)
    finally:
        os.fchdir(before)
        os.close(before)


def test_a_tree_that_is_deeper_than_the_stack_is_removed(tmp_path):
    top = tmp_path / "top"
    (top / "b" / "c").mkdir(parents=True)
    (top / "b" / "file").write_text("")
    deepen(top / "b", 3000)
    remove_tree(top)
    assert list(tmp_path.iterdir()) == []


def test_what_is_put_in_while_a_tree_is_removed_goes_with_it(tmp_path, monkeypatch):
    top, late, remove = tmp_path / "top", tmp_path / "top" / "a" / "late", os.rmdir
    (top / "a").mkdir(parents=True)

    def put_in_first(name, *, dir_fd=None):
        monkeypatch.setattr(os, "rmdir", remove)
        late.write_text("")
        remove(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", put_in_first)
    remove_tree(top)
    assert not top.exists()


def test_a_tree_that_is_deeper_than_the_stack_is_walked_and_its_root_comes_last(tmp_path):
    deepen(tmp_path, 1500)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    folders = [(name, files) for name, files, _ in opened_folders(tmp_path)]
    assert len(folders) == 1501
    assert folders[0] == ("a", [])
    assert folders[-1] == ("", ["link"])
    remove_tree(tmp_path / "a")  # pytest could not


def test_what_links_lead_to_stays(tmp_path):
    top, outside = tmp_path / "top", tmp_path / "outside"
    (top / "in").mkdir(parents=True)
    outside.mkdir()
    (outside / "kept").write_text("")
    (top / "folder").symlink_to(outside)
    (top / "in" / "file").symlink_to(outside / "kept")
    os.mkfifo(top / "in" / "pipe")
    remove_tree(top)
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (outside / "kept").exists()
    (tmp_path / "link").symlink_to(outside)
    with pytest.raises(OSError, match="symbolic links"):
        remove_tree(tmp_path / "link")
    with pytest.raises(FileNotFoundError):
        remove_tree(top)


def test_a_bucket_with_a_bottomless_folder_is_refused_and_deleted_in_order(tmp_path):
    objects = Objects(data_dir=tmp_path)
    objects.buckets.make("bkt")
    deepen(objects.buckets.path("bkt"), 3000)
    with part(tmp_path) as (path, _), pytest.raises(NameRefused, match="too deep"):
        objects.commit(NewObject(bucket="bkt", name="a", file=path))
    objects.buckets.drop("bkt")
    assert not objects.buckets.has("bkt")


def test_a_top_that_has_become_a_link_is_not_walked(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "top").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        next(opened_folders(tmp_path, "top"))
    assert [name for name, *_ in opened_folders(tmp_path / "top")] == [""]


def test_folders_that_their_owner_has_closed_are_removed(tmp_path, monkeypatch):
    """Without root a job is the server's user: its closed folder stayed for ever."""
    closed = tmp_path / "top" / "closed"
    (closed / "below").mkdir(parents=True)
    (closed / "file").touch()
    (closed / "below").chmod(0)
    closed.chmod(0o500)
    user = 65534 if os.geteuid() == 0 else None
    for path in (tmp_path, tmp_path / "top", closed, closed / "below", closed / "file"):
        os.chown(path, *(2 * [-1 if user is None else user]))
    monkeypatch.chdir(tmp_path)  # the folders above are closed to that user
    with acting_as(user):
        remove_tree("top")
    assert list(tmp_path.iterdir()) == []


def test_one_entry_that_cannot_be_removed_keeps_no_other(tmp_path, monkeypatch):
    unlink = os.unlink

    def refuse(name, *, dir_fd):
        if name == "a":
            raise PermissionError(1, "Operation not permitted")
        unlink(name, dir_fd=dir_fd)

    (tmp_path / "top").mkdir()
    for name in "abc":
        (tmp_path / "top" / name).touch()
    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(PermissionError):
        remove_tree(tmp_path / "top")
    monkeypatch.undo()
    assert [path.name for path in (tmp_path / "top").iterdir()] == ["a"]
