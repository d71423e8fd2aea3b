"""Checks that a SQLite database is still the same file, and that its disk has space.

SQLite continues to write to a removed or replaced file; those writes are lost.  On a full disk
SQLite cannot even store that the job which filled the disk must end.  So the file is checked before
a write is confirmed, and space is reserved for its log and free pages.  When the server stops, the
log's space is kept as a separate file, so that no other program takes it before the next start.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from trainshed.files import room
from trainshed.store.base import StoreFault
from trainshed.store.faults import REPLACED, fault_of, full

#: Reserved for the log: more than SQLite's 1,000 pages and some hundred writes.
LOG_BYTES: Final = 6 << 20
#: Free bytes in the file itself, so that it need not grow.
FREE_BYTES: Final = 2 << 20
#: If less space is free on the disk, the store adds no jobs or rows that can wait.
ADDING_BYTES_MIN: Final = 8 << 20
#: At most one part in so many of the disk is reserved.
_PART: Final = 16
#: Space is reserved only if this many times as much is free.
_SCARCE: Final = 4
#: A job may write as much in a minute; the free space is checked again after that.
_SOON_FULL_BYTES: Final = 4 << 30
#: Bytes that a start needs on a full disk for SQLite's index of its log and small files.
_START_BYTES: Final = 256 << 10
#: The header of a log; one of zeros is an empty log (sqlite.org/fileformat2.html, 4.1).
_HEADER: Final = bytes(32)


class DatabaseFile:
    """A SQLite database, held open so that SQLite keeps its log."""

    def __init__(self, path: Path, place: str, keeper: sqlite3.Connection) -> None:
        """``place`` names the database in faults; ``keeper`` is open; a log must exist."""
        self._path = path
        self._place = place
        self._log = _beside(path, "-wal")
        self._keeper = keeper
        self._first_ids = self._ids()
        self._is_closed = False

    def check(self) -> None:
        """Raise StoreFault if the file or its log was removed or replaced."""
        if self._is_closed:
            raise StoreFault("the store is closed")
        with suppress(FileNotFoundError):
            if self._ids() == self._first_ids:
                return
        raise StoreFault(
            f"{self._place} was removed or replaced while the server uses it: put it back, or stop "
            "the server and use trainshed restore",
            answer=REPLACED,
        )

    def check_room(self) -> bool:
        """Raise StoreFault if only the space reserved for ends of jobs is left.

        Return whether the disk may be full within a minute.
        """
        self.check()
        free = room.free_bytes(self._path.parent)
        if free < _bound_size(self._path.parent, ADDING_BYTES_MIN):
            raise full(self._place, free)
        return free < _SOON_FULL_BYTES

    def hold_log(self) -> None:
        """Reserve the log's space, unless the disk is nearly full.

        Creates no log if SQLite has removed it because the store was closed.
        """
        self.check()
        size = _bound_size(self._path.parent, LOG_BYTES)
        if room.free_bytes(self._path.parent) > 2 * size:
            room.hold(os.fspath(self._log), size, create=False)

    @property
    def free_bytes(self) -> int:
        """The bytes that should be free in the file; 0 if the disk has too little space."""
        size = _bound_size(self._path.parent, FREE_BYTES)
        return size if room.free_bytes(self._path.parent) > _SCARCE * size else 0

    @property
    def checkpoint_bytes(self) -> int:
        """The size in bytes at which SQLite copies the log into the file and restarts the log.

        On a small disk this is less than SQLite's default of 1,000 pages: when the disk is full,
        the log has only its reserved space.
        """
        return _bound_size(self._path.parent, LOG_BYTES) * 2 // 3

    def checkpoint(self) -> None:
        """Copy the log into the file, so that the file's new pages have space on the disk."""
        with suppress(sqlite3.Error):  # SQLite copies the log later
            self._keeper.execute("PRAGMA wal_checkpoint(PASSIVE)").close()

    def close(self) -> None:
        """Close the database; the log's space stays reserved in another file."""
        self._is_closed = True
        spare = _beside(self._path, "-spare")
        with suppress(OSError):
            spare.unlink(missing_ok=True)
            if self._log.stat().st_size >= _bound_size(self._path.parent, LOG_BYTES):
                spare.hardlink_to(self._log)
        self._keeper.close()
        if self._log.exists():  # SQLite kept the log, because it has changes that the file lacks
            spare.unlink(missing_ok=True)

    def _ids(self) -> list[tuple[int, int]]:
        stats = [os.stat(path) for path in (self._path, self._log)]  # noqa: PTH116 - twice a write
        return [(stat.st_dev, stat.st_ino) for stat in stats]


@contextmanager
def held(path: Path, place: str) -> Iterator[DatabaseFile]:
    """Hold an existing database open with a log.  Raises StoreFault."""
    with suppress(OSError):
        _take_spare(path)
    try:
        keeper = connect(path, "mode=rw", isolation_level=None, check_same_thread=False)
        keeper.execute("PRAGMA journal_mode=WAL").close()
        keeper.execute("SELECT count(*) FROM sqlite_master").close()
        file = DatabaseFile(path, place, keeper)
    except sqlite3.Error as error:
        raise fault_of(error, place) from error
    try:
        yield file
    finally:
        file.close()


def connect(path: Path, mode: str, **options: Any) -> sqlite3.Connection:
    """Open a file with a mode of SQLite's URIs, such as ``mode=rw``, which creates no file."""
    uri = f"file:{quote(str(path.absolute()))}?{mode}"
    opened: sqlite3.Connection = sqlite3.connect(uri, uri=True, **options)
    return opened


def _take_spare(path: Path) -> None:
    """Rename the file that the last server reserved to the log, and empty it."""
    spare, log = _beside(path, "-spare"), _beside(path, "-wal")
    if log.exists() or not path.stat().st_size:
        spare.unlink(missing_ok=True)
        return
    with spare.open("r+b") as file:
        file.write(_HEADER)
        if room.free_bytes(path.parent) < _START_BYTES:
            file.truncate(max(0, spare.stat().st_size - _START_BYTES))
    spare.replace(log)


def _bound_size(folder: Path, size: int) -> int:
    return min(size, room.total_bytes(folder) // _PART)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)
