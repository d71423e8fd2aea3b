"""Writes files atomically: to a temporary file, which is then renamed."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import BinaryIO, Callable

try:
    import fcntl
except ImportError:  # Windows, where leftovers stay until a user deletes them
    fcntl = None  # type: ignore[assignment]

#: The suffix of a temporary file while it is being written.
PARTIAL = ".partial"


def write_whole(
    target: Path,
    writer: Callable[[BinaryIO], object],
    *,
    durable: bool = True,
    allow: Callable[[], object] = lambda: None,
) -> Path:
    """Write a file atomically: readers see the old content or the new content, never a part.

    A ``durable`` file is on the disk, with its name, when this returns; another may be lost when
    the machine fails.  ``allow`` is called right before the rename.  If it or ``writer`` raises,
    the temporary file is removed and the target is unchanged.
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
    except BaseException:  # remove the temporary file after a KeyboardInterrupt, too
        partial.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(target.parent)
    return target


def try_lock(descriptor: int) -> bool:
    """Lock a file for its writer; the kernel releases the lock when the writer's process ends."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process holds the lock, or the file system has no locks
        return False
    return True


def sync_directory(directory: Path) -> None:
    """Sync a directory to the disk, on systems that can open a directory."""
    flag = getattr(os, "O_DIRECTORY", None)
    if flag is None:
        return
    descriptor = os.open(directory, os.O_RDONLY | flag)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
