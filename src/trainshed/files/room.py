"""Room on a disk that those leave alone who could fill it, for those who must still write.

A log takes all there is; the end of a job, and an order to end it, need a few kilobytes.  So logs
stop before the disk is full, and what must be written has room of its own, taken in advance.
"""

# supervisors import this, and pathlib costs them a megabyte

import os
from contextlib import suppress
from typing import Final

#: So many bytes stay free, or so large a part of the disk where that is more, up to a bound.
KEPT_BYTES: Final = 64 << 20
_KEPT_PART: Final = 100
_KEPT_BYTES_MAX: Final = 1 << 30
#: Of a small disk no larger part is kept.
_KEPT_PART_MIN: Final = 4
_PRIVATE_FILE: Final = 0o600


def free_bytes(place: int | str | os.PathLike[str]) -> int:
    """What is free on the disk of an open file, or of a path.  Raises OSError."""
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize


def total_bytes(place: int | str | os.PathLike[str]) -> int:
    """The size of a disk.  Raises OSError."""
    disk = os.statvfs(place)
    return disk.f_blocks * disk.f_frsize


def missing_bytes(place: int | str | os.PathLike[str]) -> int:
    """How much less is free than logs must leave; 0 where there is enough.  Raises OSError."""
    disk = os.statvfs(place)
    total = disk.f_blocks * disk.f_frsize
    reserve = min(max(KEPT_BYTES, total // _KEPT_PART), _KEPT_BYTES_MAX, total // _KEPT_PART_MIN)
    return max(0, reserve - disk.f_bavail * disk.f_frsize)


def hold(path: str, size: int, *, create: bool = True) -> None:
    """Give a file so many bytes of the disk, to be written later; none where the disk is full.

    Without ``create`` the file must exist: a missing one is not made.
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
