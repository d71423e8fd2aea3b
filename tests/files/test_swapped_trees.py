"""A tree is copied, restored, given away and removed while a neighbour swaps its names with links:
nothing outside is read, made, opened or given away."""

import contextlib
import errno
import os
import shutil
import time
from functools import partial
from itertools import count

import pytest

from conftest import FULL
from storage.swapper import KNOWN, NOBODY, check_unharmed, check_unread, swapping
from trainshed.engines.bucket_groups import share_bucket
from trainshed.engines.isolation.compose import ProjectUser, give
from trainshed.files import beneath
from trainshed.files.copies import copy_tree
from trainshed.files.trees import opened_folders, remove_tree
from trainshed.storage.folder_files import FolderFiles

pytestmark = [pytest.mark.slow, KNOWN]

SECONDS = 60.0 if FULL else 2.0
#: Whom the tree is given to: the neighbour, who could not swap in a tree of ours.
NEIGHBOUR = (
    ProjectUser(NOBODY, NOBODY) if os.geteuid() == 0 else ProjectUser(os.geteuid(), os.getegid())
)
#: What a call may say of a name that has become a link, or is gone.
REFUSALS = (*beneath.NOT_A_FILE, errno.ENOTEMPTY, errno.EISDIR, errno.EEXIST, None)


@pytest.fixture(params=[beneath.by_kernel, beneath.by_parts], ids=["openat2", "by parts"])
def tree(request, tmp_path, monkeypatch):
    monkeypatch.setattr(beneath, "_resolve", lambda: request.param)
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


def back_up(tree, into):
    shutil.rmtree(into / "backup", ignore_errors=True)
    list(copy_tree(tree, into / "backup"))


def restore(tree, into, numbers):
    """Files of new names come back into a folder, which is a link now and then."""
    source = into / "source"
    shutil.rmtree(source, ignore_errors=True)
    number = next(numbers)
    (source / "folder" / f"new-folder-{number}").mkdir(parents=True, mode=0o707)
    (source / "folder" / f"new-folder-{number}" / "file").write_bytes(b"restored")
    (source / "folder" / f"new-{number}").write_bytes(b"restored")
    (source / "folder" / f"link-{number}").symlink_to("/")
    list(copy_tree(source, tree))


def read(files, path, into):
    (into / "read").write_bytes(files.cat_file(path, 0, 100))


def put(files, path, into):
    (into / "part").write_bytes(b"put")
    files.put_file(str(into / "part"), path)


def walk(tree):
    for _ in opened_folders(tree):
        pass


def calls(tree, into):
    """All that the server does with a tree, and what a bucket of ``file://`` is asked."""
    files, numbers = FolderFiles(str(tree), lambda: None), count()
    yield partial(back_up, tree, into)
    yield partial(restore, tree, into, numbers)
    yield partial(give, str(tree), NEIGHBOUR)
    yield partial(give, str(tree), NEIGHBOUR, "folder")
    yield partial(share_bucket, str(tree), NEIGHBOUR.gid)
    yield partial(walk, tree)
    yield partial(files.ls, "/folder", detail=True)
    for name in ("/file", "/folder/secret"):
        yield partial(files.info, name)
        yield partial(read, files, name, into)
        yield partial(put, files, name, into)
        yield partial(files.cp_file, name, "/folder/copied")
        yield partial(files.rm_file, name)
    yield partial(put, files, "/folder/below/new/deep", into)
    yield partial(remove_tree, tree / "folder" / "below")


def state_of(folder):
    return [
        (path.name, path.stat().st_mode, path.stat().st_uid, path.stat().st_mtime_ns)
        for path in (folder, *sorted(folder.iterdir()))
    ]


def put_right(tree):
    """What the neighbour has left, with no link in the place of a name."""
    for name in ("file", "folder"):
        if (tree / name).is_symlink():
            (tree / name).unlink()
            (tree / f"{name}.link").rename(tree / name)
    (tree / "folder").mkdir(exist_ok=True)
    for name in ("file", "folder/secret"):
        (tree / name).write_bytes(b"mine")


def test_nothing_outside_of_a_tree_is_touched_while_its_names_become_links(tree, tmp_path):
    outside, into = tmp_path / "outside", tmp_path / "into"
    into.mkdir()
    done, end_s = set(), time.monotonic() + SECONDS
    with swapping(tree, outside):
        before = state_of(outside)
        while time.monotonic() < end_s:
            for number, call in enumerate(calls(tree, into)):
                if is_done(call):
                    done.add(number)
                check_unharmed(outside)
                assert state_of(outside) == before, call
    put_right(tree)
    late = [call for number, call in enumerate(calls(tree, into)) if number not in done]
    assert all(is_done(call) for call in late)
    check_unread(into)
    with contextlib.suppress(FileNotFoundError):
        remove_tree(tree)
    assert state_of(outside) == before


def is_done(call):
    try:
        call()
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        return False
    return True
