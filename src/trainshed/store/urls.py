"""What a database URL names: one of our databases, and its file where it has one."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from trainshed.store.base import StoreFault

#: What was tried: other drivers have other ideas of transactions.
_DRIVERS: Final = frozenset({"pysqlite", "psycopg"})

#: How a SQLite file begins that is not empty.
_SQLITE: Final = b"SQLite format 3\0"


def parsed(url: str) -> URL:
    """The parts of a URL; a fault never repeats its text, which may hold a password."""
    accepted = "sqlite:///PATH or postgresql+psycopg://USER@HOST/DATABASE"
    try:
        found = make_url(url)
        driver = found.get_dialect().driver
    except NoSuchModuleError as error:
        raise StoreFault(
            f"the database URL names no database that we know; write {accepted}"
        ) from error
    except (ArgumentError, ValueError) as error:
        raise StoreFault(f"the database URL cannot be read; write {accepted}") from error
    if driver not in _DRIVERS:
        kind = found.drivername
        raise StoreFault(f"a database of {kind} cannot be used; write {accepted}")
    return found


def file_of(url: URL) -> Path:
    """The file of a SQLite database.  Raises StoreFault for one in memory."""
    if not url.database or url.database == ":memory:":
        raise StoreFault("a SQLite database needs a file: sqlite:///PATH")
    return Path(url.database)


def connect(path: Path, mode: str, **options: Any) -> sqlite3.Connection:
    """Open a file in one of SQLite's own modes: ``mode=rw`` for one, which never makes a file."""
    uri = f"file:{quote(str(path.absolute()))}?{mode}"
    opened: sqlite3.Connection = sqlite3.connect(uri, uri=True, **options)
    return opened


def check_ours(path: Path) -> None:
    """Touch nothing of a file that is no database: neither its mode nor its neighbours.

    Raises StoreFault, and OSError where it cannot be read; one that is not there may be made.
    """
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        if file.read(len(_SQLITE)) not in {b"", _SQLITE}:
            raise StoreFault(f"{path} is not a database of SQLite")
