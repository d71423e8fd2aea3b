"""Reserves disk space for files that must be written even when logs have filled the disk.

Logs may use all free space, but the files that end a job need a few kilobytes.  So logs stop before
the disk is full, and space for the necessary files is reserved in advance.
"""

# supervisors import this; pathlib would add a megabyte

import os
from contextlib import suppress
from typing import Final

#: Bytes that logs leave free: so many, or a hundredth of the disk if that is more, up to a limit.
KEPT_BYTES: Final = 64 << 20
_KEPT_PART: Final = 100
_KEPT_BYTES_MAX: Final = 1 << 30
#: On a small disk logs leave at most a fourth of it free.
_KEPT_PART_OF_SMALL: Final = 4
_PRIVATE_FILE: Final = 0o600


def free_bytes(place: int | str | os.PathLike[str]) -> int:
    """Return the free bytes on the disk of a path or open file.  Raises OSError."""
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize


def total_bytes(place: int | str | os.PathLike[str]) -> int:
    """Return the size in bytes of the disk of a path or open file.  Raises OSError."""
    disk = os.statvfs(place)
    return disk.f_blocks * disk.f_frsize


def missing_bytes(place: int | str | os.PathLike[str]) -> int:
    """Return how many bytes fewer are free than logs must leave free, or 0.  Raises OSError."""
    disk = os.statvfs(place)
    total = disk.f_blocks * disk.f_frsize
    reserve = min(
        max(KEPT_BYTES, total // _KEPT_PART), _KEPT_BYTES_MAX, total // _KEPT_PART_OF_SMALL
    )
    return max(0, reserve - disk.f_bavail * disk.f_frsize)


def hold(path: str, size: int, *, create: bool = True) -> None:
    """Reserve ``size`` bytes of disk space for a file; does nothing if that fails.

    Without ``create`` the file must exist.
    """
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    with suppress(OSError):
        descriptor = os.open(path, flags, _PRIVATE_FILE)
        try:
            os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)


def release(path: str) -> None:
    """Delete a file to free its reserved space."""
    with suppress(OSError):
        os.unlink(path)  # noqa: PTH108 - no pathlib, see above
