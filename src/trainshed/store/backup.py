"""Copies a SQLite database while its server writes to it, and restores a copy."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

from trainshed.store.audit import read_snapshot
from trainshed.store.base import StoreFault
from trainshed.store.database import file_of, parsed
from trainshed.store.faults import place_of
from trainshed.store.opening import file_lock

#: The suffixes of files beside a database that belong to it.
BESIDE: Final = ("-wal", "-shm", "-spare", "-journal")
_AWAY: Final = ".before-restore"


def database_path(url: str) -> Path:
    """Return the file of a SQLite database.  Raises StoreFault for any other database."""
    address = parsed(url)
    if address.get_backend_name() != "sqlite":
        raise StoreFault(
            f"{place_of(address)} is a PostgreSQL database, and this command copies SQLite only. "
            f"Back it up with: pg_dump --format=custom --file=trainshed.dump {address.database}; "
            "restore it with pg_restore. Copy the data directory with tar"
        )
    return file_of(address)


def copy_database(url: str, target: Path) -> None:
    """Copy a database, as of one moment, to the new file ``target``.  Raises StoreFault."""
    database_path(url)
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with contextlib.closing(sqlite3.connect(target)) as copy:
        read_snapshot(url, lambda connection: _copy_database(connection, copy))
        copy.execute("PRAGMA journal_mode=WAL").close()


def _copy_database(connection: Connection, copy: sqlite3.Connection) -> None:
    source = connection.connection.driver_connection
    if not isinstance(source, sqlite3.Connection):
        raise TypeError("the source must be a SQLite database")
    source.backup(copy)


@contextlib.contextmanager
def database_away(path: Path) -> Iterator[Path | None]:
    """Lock a database and move it aside with all its files.

    Yields its new path; None if there is no database.  Raises StoreFault while a server uses it.
    """
    with file_lock(path):
        files = [name for name in (path, *_beside(path)) if name.exists()]
        number = next(n for n in range(1, 1 << 20) if not _aside(path, n).exists())
        away = _aside(path, number)
        for file in reversed(files):  # the database last: the other files are useless without it
            file.rename(away.with_name(away.name + file.name.removeprefix(path.name)))
        yield away if path in files else None


def _beside(path: Path) -> list[Path]:
    return [path.with_name(path.name + end) for end in BESIDE]


def _aside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}{_AWAY}-{number}")
