"""Reads a database without making, changing or claiming anything, also beside its server."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from trainshed.store.base import StoreFault
from trainshed.store.faults import fault_of, place_of
from trainshed.store.migrate import check_version
from trainshed.store.urls import check_ours, connect, file_of, parsed

T = TypeVar("T")

#: Seldom is more than one needed: a server would have to start while the file is read.
_TRIES: Final = 5
_BUSY_S: Final = 10.0


def look(url: str, read: Callable[[Connection], T]) -> T:
    """What ``read`` finds in one unchanging view.  Raises StoreFault, also for other releases."""
    known = parsed(url)
    if known.get_backend_name() == "sqlite":
        return _look_at_file(known, read)
    one_view = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    engine = create_engine(known, poolclass=NullPool, execution_options=one_view)
    return _read(engine, known, read)


def damage_of(connection: Connection) -> Sequence[str]:
    """What a SQLite file finds wrong with itself; nothing for other databases."""
    if connection.dialect.name != "sqlite":
        return ()
    pages = connection.exec_driver_sql("PRAGMA quick_check").scalars().all()
    strays = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    return [
        *(text for text in pages if text != "ok"),
        *(f"row {row[1]} of {row[0]} belongs to no row of {row[2]}" for row in strays),
    ]


def _look_at_file(url: URL, read: Callable[[Connection], T]) -> T:
    path = file_of(url)
    for _ in range(_TRIES):
        before = _stamp(path)
        at_rest = not _log_of(path).exists()
        found = _read(_reader(path, at_rest=at_rest), url, read)
        if not at_rest or (_stamp(path) == before and not _log_of(path).exists()):
            return found
    raise StoreFault(f"{place_of(url)} changed whenever it was looked at")


def _reader(path: Path, *, at_rest: bool) -> Engine:
    """A file that nobody has open is read as it lies: SQLite would make its log beside it."""
    mode = "immutable=1" if at_rest else "mode=ro"

    def begin() -> sqlite3.Connection:
        connection = connect(path, mode, timeout=_BUSY_S, isolation_level=None)
        for pragma in ("query_only=ON", "case_sensitive_like=ON"):
            connection.execute(f"PRAGMA {pragma}").close()
        connection.execute("BEGIN").close()  # one view for all that follows
        return connection

    return create_engine("sqlite://", creator=begin, poolclass=NullPool)


def _read(engine: Engine, url: URL, read: Callable[[Connection], T]) -> T:
    try:
        with engine.connect() as connection:
            check_version(connection)
            return read(connection)
    except (DBAPIError, sqlite3.Error) as error:
        raise fault_of(error, place_of(url)) from error
    finally:
        engine.dispose()


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _stamp(path: Path) -> tuple[Any, ...]:
    try:
        check_ours(path)
        stat = os.stat(path)  # noqa: PTH116 - beside open files, by name
    except OSError as error:
        raise StoreFault(f"{path} cannot be read: {error.strerror}") from error
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
