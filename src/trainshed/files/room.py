"""Reserves disk space for files that must still be written when logs have filled the disk.

Logs may use all free space; the end of a job, and an order to end it, need a few kilobytes.  So
logs stop before the disk is full, and the necessary files have space that was reserved in advance.
"""

# supervisors import this; pathlib would add a megabyte

import os
from contextlib import suppress
from typing import Final

#: This many bytes stay free, or this part of the disk if it is more, up to a limit.
KEPT_BYTES: Final = 64 << 20
_KEPT_PART: Final = 100
_KEPT_BYTES_MAX: Final = 1 << 30
#: The largest part of a small disk that stays free.
_KEPT_PART_MIN: Final = 4
_PRIVATE_FILE: Final = 0o600


def free_bytes(place: int | str | os.PathLike[str]) -> int:
    """Return the free bytes on the disk of an open file or a path.  Raises OSError."""
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize


def total_bytes(place: int | str | os.PathLike[str]) -> int:
    """Return the size of a disk.  Raises OSError."""
    disk = os.statvfs(place)
    return disk.f_blocks * disk.f_frsize


def missing_bytes(place: int | str | os.PathLike[str]) -> int:
    """Return how many bytes are missing of what logs must leave free.  Raises OSError."""
    disk = os.statvfs(place)
    total = disk.f_blocks * disk.f_frsize
    reserve = min(max(KEPT_BYTES, total // _KEPT_PART), _KEPT_BYTES_MAX, total // _KEPT_PART_MIN)
    return max(0, reserve - disk.f_bavail * disk.f_frsize)


def hold(path: str, size: int, *, create: bool = True) -> None:
    """Reserve bytes of the disk for a file, to be written later; none if the disk is full.

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
    """Release the space for the next writer."""
    with suppress(OSError):
        os.unlink(path)  # noqa: PTH108 - as above
