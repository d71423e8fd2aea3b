"""A SQLite file is for one process: a lock beside it says whose it is.

SQLite itself would let two servers in, and each would take the other's jobs for orphans.
"""

import fcntl
import os
from pathlib import Path
from typing import Self

from trainshed.store.base import StoreFault


class FileLock:
    """The lock of one database file; the kernel lets go of it when the process ends."""

    def __init__(self, database: Path) -> None:
        """Take the lock.  Raises StoreFault where another process holds it."""
        path = database.with_name(database.name + ".lock")
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise StoreFault(
                f"{database} is in use by another server (process {holder or 'unknown'}); "
                "several servers can share a PostgreSQL database"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Let go."""
        os.close(self._fd)

    def __enter__(self) -> Self:
        """Hold the lock for a block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go at its end."""
        self.close()
