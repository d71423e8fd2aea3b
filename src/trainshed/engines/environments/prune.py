"""Limits the size of the cache of environments: removes the least recently used ones.

Each folder has a file next to it.  The text of the file is the folder's size; its modification time
is the last use.  A process that uses the folder holds a shared lock on the file (flock(2)); an
attempt's supervisor holds it until it ends in any way.  A folder with a locked file is not removed.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from trainshed.engines.environments.builder import PROJECTS, UV_CACHE
from trainshed.files.trees import opened_folders, remove_tree

_USED: Final = ".used"
_REMOVED: Final = ".removed"
_CACHE_NAME: Final = re.compile(rf"[0-9a-f]{{40}}|{UV_CACHE}")
#: The unit of ``st_blocks`` in stat(2), whatever the block size of the file system.
_BLOCK_BYTES: Final = 512
_SIZE_CHARACTERS_MAX: Final = 32


class _CacheEntry(NamedTuple):
    """A folder of the cache."""

    used_s: float
    size: int
    folder: Path


def prune(cache: Path, bytes_max: int) -> None:
    """Remove unused environments of a cache and its projects until the rest is within a limit.

    A folder that cannot be removed stays.
    """
    roots = (cache, *(cache / PROJECTS).glob("*"))
    entries = sorted(entry for root in roots for entry in _list_entries(root))
    total = sum(entry.size for entry in entries)
    for entry in entries:
        if total <= bytes_max:
            break
        total -= entry.size if _is_removed(entry.folder) else 0


def use(folder: Path) -> TextIO:
    """Protect a folder from removal as long as a process has the returned file open.

    The folder need not exist yet.
    """
    while True:
        file = _use_file(folder).open("a+")
        fcntl.flock(file, fcntl.LOCK_SH)  # waits at most while an old folder is removed
        if lies_at(file, _use_file(folder)):
            os.utime(file.fileno())
            return file
        file.close()


def measure(folder: Path, file: TextIO) -> int:
    """Measure a folder and write its size to its file; return the size."""
    size = sum(map(_measure_folder, opened_folders(folder))) if folder.is_dir() else 0
    with suppress(OSError):  # the disk is full: the next pruning measures again
        file.seek(0)
        file.truncate()
        file.write(f"{size}\n")
        file.flush()
    return size


def lies_at(file: TextIO, path: Path) -> bool:
    """Return whether ``path`` still names the open file; a removed file's lock protects nothing."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _use_file(folder: Path) -> Path:
    return folder.with_suffix(_USED)


def _measure_folder(opened: tuple[str, list[str], int]) -> int:
    """Return the size of the files in a folder; a file with N names counts 1/N of its size."""
    _, names, folder = opened
    size = 0
    for name in names:
        with suppress(OSError):
            file_stat = os.stat(name, dir_fd=folder, follow_symlinks=False)
            size += file_stat.st_blocks * _BLOCK_BYTES // max(file_stat.st_nlink, 1)
    return size


def _list_entries(root: Path) -> Iterator[_CacheEntry]:
    for folder in root.glob("*"):
        with suppress(OSError):
            if folder.suffix == _REMOVED:
                remove_tree(folder)  # left by a pruning process that was killed
            elif _CACHE_NAME.fullmatch(folder.name):
                yield _measure_entry(folder)


def _measure_entry(folder: Path) -> _CacheEntry:
    """Read the size of a folder without a change of its last use.

    A folder of a release that wrote no sizes counts as last used when it was made.
    """
    with _use_file(folder).open("a+") as file:
        file.seek(0)
        text = file.read(_SIZE_CHARACTERS_MAX).strip()
        used = os.fstat(file.fileno()) if text else folder.stat()
        size = int(text) if text.isdecimal() else measure(folder, file)
        os.utime(file.fileno(), ns=(used.st_atime_ns, used.st_mtime_ns))
        return _CacheEntry(used.st_mtime, size, folder)


def _is_removed(folder: Path) -> bool:
    """Remove an unused folder; return whether it is removed.

    This renames the folder first, so that no job takes a partly removed folder for an environment.
    """
    beside, removed = _use_file(folder), folder.with_suffix(_REMOVED)
    try:
        with beside.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lies_at(file, beside):
                folder.rename(removed)
                remove_tree(removed)
                beside.unlink()
    except FileNotFoundError:  # another process has removed it
        return True
    except OSError:
        return False
    return True
