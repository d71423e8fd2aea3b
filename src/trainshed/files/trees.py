"""Removes and walks folder trees of any depth that programs have made.

``shutil.rmtree`` and ``os.fwalk`` are recursive and fail at a thousand levels.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Final

from trainshed.files.beneath import NOT_A_FILE, Beneath, FileKind

#: The most passes of a removal: a deeper tree is one that a program extends meanwhile.
_DEPTH_MAX: Final = 1 << 16
_ENTRIES_MAX: Final = 1 << 26
_READ: Final = os.O_RDONLY | os.O_DIRECTORY


def opened_folders(
    root: str | os.PathLike[str], below: str = ""
) -> Iterator[tuple[str, list[str], int]]:
    """Yield each folder of a tree: its path, the names in it that are not folders, its descriptor.

    The tree is ``root``, whose path may have links, or the folder ``below`` it, whose path may not.
    The top of the tree has the path "", and comes last.  Links in the tree are not followed.
    Folders that were removed meanwhile, or whose paths are too long, are skipped.  Raises OSError.
    """
    with _open_tree(root, below) as tree:
        folders = tree.walk("", _ENTRIES_MAX)
        top = next(folders, ("", []))
        for name, files in chain(folders, [top]):
            try:
                descriptor = tree.open(name, _READ)
            except OSError as error:
                if name and error.errno in NOT_A_FILE:
                    continue
                raise
            try:
                yield name, files, descriptor
            finally:
                os.close(descriptor)


@contextmanager
def _open_tree(root: str | os.PathLike[str], below: str) -> Iterator[Beneath]:
    with (
        Beneath(root) as outside,
        outside.folder(below) as top,
        Beneath(f"/proc/self/fd/{top}") as tree,
    ):
        yield tree


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Remove a folder tree; links are removed and not followed.

    Raises OSError if a file cannot be removed, after all other files were removed.
    """
    above, name = os.path.split(os.fspath(path))
    with Beneath(above or ".") as outside:
        with outside.folder(name) as top:
            for _ in range(_DEPTH_MAX):
                if not _remove_level(top):
                    break
        with outside.folder() as folder:
            os.rmdir(name, dir_fd=folder)


def _remove_level(top: int) -> bool:
    """Remove the top level of a tree, and move the content of its folders there.

    Returns False if the tree was empty.
    """
    with Beneath(f"/proc/self/fd/{top}") as tree:
        entries, errors = tree.entries(), []
        for name, kind in entries:
            try:
                if kind is FileKind.FOLDER:
                    _lift(tree, name, top)
                else:
                    os.unlink(name, dir_fd=top)
            except OSError as error:
                errors.append(error)
    if errors and len(errors) == len(entries):
        raise errors[0]
    return bool(entries)


def _open_to_owner(folder: int) -> None:
    """Let the owner of a folder remove its contents, whatever mode a program has set."""
    if stat.S_IMODE(os.fstat(folder).st_mode) & stat.S_IRWXU != stat.S_IRWXU:
        with suppress(OSError):  # another user owns the folder; its removal fails and is reported
            os.chmod(f"/proc/self/fd/{folder}", stat.S_IRWXU)  # noqa: PTH101 - a descriptor


def _lift(tree: Beneath, folder: str, top: int) -> None:
    """Move the folders in a folder to the top of the tree, and remove the folder."""
    with tree.folder(folder) as below:
        _open_to_owner(below)
        for name, kind in tree.entries(folder):
            if kind is FileKind.FOLDER:
                with tree.folder(f"{folder}/{name}") as moved:
                    _open_to_owner(moved)  # a folder without these rights cannot be moved
                os.rename(name, os.urandom(16).hex(), src_dir_fd=below, dst_dir_fd=top)
            else:
                os.unlink(name, dir_fd=below)
    try:
        os.rmdir(folder, dir_fd=top)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:  # a program has added a file: the next pass removes it
            raise
