"""Opens the store of a URL: makes what is missing, and sees that nobody else holds the file."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sqlalchemy import URL, delete, make_url
from sqlalchemy.dialects.postgresql import insert  # SQLite takes its ON CONFLICT word for word
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from trainshed.store.base import StoreBase, StoreFault
from trainshed.store.database import Database, write_engine
from trainshed.store.file_lock import FileLock
from trainshed.store.migrate import migrate
from trainshed.store.sql import SqlStore
from trainshed.store.tables import LEASES, MARKS
from trainshed.store.writer import HOLDING_MARK, as_fault

#: What was tried: other drivers have other ideas of transactions.
_DRIVERS: Final = frozenset({"pysqlite", "psycopg"})

#: How a SQLite file begins that is not empty.
_SQLITE: Final = b"SQLite format 3\0"


def open_store(url: str, clock: Callable[[], int] = time.time_ns) -> StoreBase:
    """The store of a SQLAlchemy URL (``sqlite:///PATH`` or ``postgresql+psycopg://...``).

    ``clock`` gives nanoseconds since 1970.  Raises StoreFault where the database cannot be used.
    """
    parsed = _parsed(url)
    with contextlib.ExitStack() as held:
        alone = parsed.get_backend_name() == "sqlite"
        if alone:
            _claim(parsed, held)
        _prepare(parsed, alone=alone)
        return SqlStore(Database(parsed, clock), held.pop_all())


def _parsed(url: str) -> URL:
    """The parts of a URL; a fault never repeats its text, which may hold a password."""
    accepted = "sqlite:///PATH or postgresql+psycopg://USER@HOST/DATABASE"
    try:
        parsed = make_url(url)
        driver = parsed.get_dialect().driver
    except NoSuchModuleError as error:
        raise StoreFault(
            f"the database URL names no database that we know; write {accepted}"
        ) from error
    except (ArgumentError, ValueError) as error:
        raise StoreFault(f"the database URL cannot be read; write {accepted}") from error
    if driver not in _DRIVERS:
        kind = parsed.drivername
        raise StoreFault(f"a database of {kind} cannot be used; write {accepted}")
    return parsed


def _prepare(url: URL, *, alone: bool) -> None:
    engine = write_engine(url)
    try:
        with engine.begin() as connection:
            migrate(connection)
            row = {"name": HOLDING_MARK, "value": 0}
            connection.execute(insert(MARKS).on_conflict_do_nothing(), row)
            if alone:  # whoever had a lease is dead: the file is ours
                connection.execute(delete(LEASES))
    except DBAPIError as error:
        raise as_fault(error) from error
    finally:
        engine.dispose()


def _claim(url: URL, held: contextlib.ExitStack) -> None:
    if not url.database or url.database == ":memory:":
        raise StoreFault("a SQLite database needs a file: sqlite:///PATH")
    path = Path(url.database)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_ours(path)
        held.enter_context(FileLock(path))
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
    except OSError as error:
        raise StoreFault(f"{error.filename or path} cannot be used: {error.strerror}") from error


def _check_ours(path: Path) -> None:
    """Touch nothing of a file that is no database: neither its mode nor its neighbours."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        if file.read(len(_SQLITE)) not in {b"", _SQLITE}:
            raise StoreFault(f"{path} is not a database of SQLite")
