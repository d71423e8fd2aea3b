"""Keeps a cache of environments within a bound: what was unused for the longest goes first.

Beside each folder lies a file: its text is the folder's size, its time the last use.  Whoever reads
the folder shares the file's lock as long as it may: an attempt's supervisor has it until its end
(flock(2): the kernel frees it, however that ended).  What is locked stays.
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
_KEPT: Final = re.compile(rf"[0-9a-f]{{40}}|{UV_CACHE}")
#: stat(2): blocks are counted in these, whatever the file system has.
_BLOCK_BYTES: Final = 512
_SIZE_CHARACTERS_MAX: Final = 32


class _Kept(NamedTuple):
    """A folder of the cache."""

    used_s: float
    size: int
    folder: Path


def prune(cache: Path, bytes_max: int) -> None:
    """Remove unused environments until the rest is within a bound.

    Looked at are a cache and those of its projects.  What cannot be removed stays.
    """
    roots = (cache, *(cache / PROJECTS).glob("*"))
    entries = sorted(entry for root in roots for entry in _list_entries(root))
    total = sum(entry.size for entry in entries)
    for entry in entries:
        if total <= bytes_max:
            break
        total -= entry.size if _is_removed(entry.folder) else 0


def use(folder: Path) -> TextIO:
    """A folder stays as long as this file is open somewhere; it need not be there yet."""
    while True:
        file = _use_file(folder).open("a+")
        fcntl.flock(file, fcntl.LOCK_SH)  # waits at most while what it was is removed
        if lies_at(file, _use_file(folder)):
            os.utime(file.fileno())
            return file
        file.close()


def measure(folder: Path, file: TextIO) -> int:
    """Write down the size of a folder in its file."""
    size = sum(map(_bytes_in, opened_folders(folder))) if folder.is_dir() else 0
    with suppress(OSError):  # the disk is full: it is measured again when that matters
        file.seek(0)
        file.truncate()
        file.write(f"{size}\n")
        file.flush()
    return size


def lies_at(file: TextIO, path: Path) -> bool:
    """Whether an open file is the one at a path: one that was removed locks nothing."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _use_file(folder: Path) -> Path:
    return folder.with_suffix(_USED)


def _bytes_in(opened: tuple[str, list[str], int]) -> int:
    """What a file has that has other names elsewhere counts here in part."""
    _, names, folder = opened
    size = 0
    for name in names:
        with suppress(OSError):
            file_stat = os.stat(name, dir_fd=folder, follow_symlinks=False)
            size += file_stat.st_blocks * _BLOCK_BYTES // max(file_stat.st_nlink, 1)
    return size


def _list_entries(root: Path) -> Iterator[_Kept]:
    for folder in root.glob("*"):
        with suppress(OSError):
            if folder.suffix == _REMOVED:
                remove_tree(folder)  # left by a pruning process that was killed
            elif _KEPT.fullmatch(folder.name):
                yield _measure_entry(folder)


def _measure_entry(folder: Path) -> _Kept:
    """Which is no use of it.  One from before sizes were written was last used when it was made."""
    with _use_file(folder).open("a+") as file:
        file.seek(0)
        text = file.read(_SIZE_CHARACTERS_MAX).strip()
        used = os.fstat(file.fileno()) if text else folder.stat()
        size = int(text) if text.isdecimal() else measure(folder, file)
        os.utime(file.fileno(), ns=(used.st_atime_ns, used.st_mtime_ns))
        return _Kept(used.st_mtime, size, folder)


def _is_removed(folder: Path) -> bool:
    """Whether it is gone.  Under another name first: what is half removed is no environment."""
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
