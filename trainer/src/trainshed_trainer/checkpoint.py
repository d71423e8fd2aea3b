"""Checkpoints that are whole or absent, in a few lines for frameworks that have none (R20).

A replica may be killed at any instruction.  A file is therefore written under another name, forced
to the disk and renamed: who reads the directory afterwards sees the old file or the new one.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import BinaryIO, Callable

#: How the name of a file ends while it is being written.
PARTIAL = ".partial"


def save_atomically(path: str | os.PathLike[str], writer: Callable[[BinaryIO], object]) -> Path:
    """Write a file so that it is whole or absent; ``writer`` is given an open binary file.

    Missing parent directories are made.  If ``writer`` raises, nothing is left and nothing is
    replaced.  Returns the path.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        with partial.open("xb") as out:
            writer(out)
            out.flush()
            os.fsync(out.fileno())
        partial.replace(target)
    except BaseException:  # an interrupt leaves no litter either
        partial.unlink(missing_ok=True)
        raise
    _sync_directory(target.parent)
    return target


def latest_checkpoint(directory: str | os.PathLike[str] | None, pattern: str = "*") -> Path | None:
    """Find the newest whole file that matches a glob pattern, or None where there is none.

    The newest has the highest numbers in its name (``step-10`` is newer than ``step-9``); among
    equals, the one written last.  Empty files and those that are still being written are skipped.
    A directory of None or one that does not exist holds nothing.
    """
    if directory is None:
        return None
    ranked = ((_age(path), path) for path in Path(directory).glob(pattern))
    return max(((age, path) for age, path in ranked if age), default=(None, None))[1]


def _age(path: Path) -> tuple[list[int], int] | None:
    """Give what files are ordered by, or None for a file that is torn or no longer there."""
    if path.name.endswith(PARTIAL) or not path.is_file():
        return None
    try:
        status = path.stat()
    except FileNotFoundError:  # cleaned away by a writer that keeps the last few
        return None
    numbers = [int(digits) for digits in re.findall(r"[0-9]+", path.name)]
    return (numbers, status.st_mtime_ns) if status.st_size else None


def _sync_directory(directory: Path) -> None:
    """Force a rename to the disk, where the system lets a directory be opened."""
    flag = getattr(os, "O_DIRECTORY", None)
    if flag is None:
        return
    descriptor = os.open(directory, os.O_RDONLY | flag)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
