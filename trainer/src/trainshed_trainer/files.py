"""Writes files atomically: under another name, then renamed."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import BinaryIO, Callable

try:
    import fcntl
except ImportError:  # Windows, where leftovers stay until a user deletes them
    fcntl = None  # type: ignore[assignment]

#: How the name of a file ends while it is being written.
PARTIAL = ".partial"


def write_whole(
    target: Path,
    writer: Callable[[BinaryIO], object],
    *,
    durable: bool = True,
    allow: Callable[[], object] = lambda: None,
) -> Path:
    """Write a file atomically: readers see the old one or the new one, never half of one.

    A durable one is on the disk when this returns, its name included; what is not durable survives
    the death of every process, but not that of the machine.  If ``writer`` raises, nothing is left
    and nothing is replaced; ``allow`` may raise too, and is called right before the file gets its
    name.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        with partial.open("xb") as out:
            try_lock(out.fileno())
            writer(out)
            out.flush()
            if durable:
                os.fsync(out.fileno())
        allow()
        partial.replace(target)
    except BaseException:  # an interrupt leaves no litter either
        partial.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(target.parent)
    return target


def try_lock(descriptor: int) -> bool:
    """Take the lock that a file's writer holds, which ends with the writer however it dies."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process writes it, or the file system has no locks
        return False
    return True


def sync_directory(directory: Path) -> None:
    """Force a rename to the disk, where the system lets a directory be opened."""
    flag = getattr(os, "O_DIRECTORY", None)
    if flag is None:
        return
    descriptor = os.open(directory, os.O_RDONLY | flag)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
