"""Converts errors of database drivers to StoreFaults that name the database.

Also says whether an error concerns the whole database.  Then every write of a group would fail, and
the writer does not try each write alone.
"""

import sqlite3
from collections.abc import Mapping
from typing import Final

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from trainshed.store.base import StoreFault

#: Messages for callers of the API, for faults that do not end by waiting.
FULL: Final = (
    "The disk of the server's database is full: nothing can be added until its administrator frees "
    "space; jobs can be cancelled"
)
REPLACED: Final = (
    "The server's database was removed or replaced: nothing can be stored until its administrator "
    "restores it"
)

_NO_SPACE: Final = "cannot grow: no space is left on its disk"

#: By the error's primary code, the lowest byte (sqlite.org/rescode.html).
_OF_FILES: Final[Mapping[int, str]] = {
    sqlite3.SQLITE_BUSY: "is locked by another program",
    sqlite3.SQLITE_LOCKED: "is locked by another program",
    sqlite3.SQLITE_FULL: _NO_SPACE,
    sqlite3.SQLITE_READONLY: "is read-only, or its folder or disk is read-only",
    sqlite3.SQLITE_PERM: "may not be used by this user",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_IOERR: "cannot be read or written",
    sqlite3.SQLITE_CORRUPT: "is damaged; stop the server and restore a copy of it",
    sqlite3.SQLITE_NOTADB: "is damaged, or is not a database of SQLite",
}
#: After these errors a connection may have cached damaged content of the file.
_SPOILS: Final = frozenset(
    {
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
    }
)
#: PostgreSQL, by class or whole code (its manual, appendix A).
_OF_SERVERS: Final[Mapping[str, str]] = {
    "25006": "is read-only and takes no writes",
    "53100": _NO_SPACE,
    "53": "has no space left",
    "55P03": "is locked by another program",
    "57P": "is being stopped or started",
    "58": "cannot read or write its files",
    "XX001": "is damaged",
    "XX002": "is damaged",
    "28": "refuses this user; check the user and password in the URL of the database",
    "3D": "does not exist",
    "08": "does not answer",
}


def place_of(url: URL) -> str:
    """Return the name of a database for messages, without user and password."""
    if url.get_backend_name() == "sqlite":
        return f"the database {url.database}"
    host = url.host or url.query.get("host") or "this machine"
    return f"the database {url.database} on {host}"


def fault_of(error: Exception, place: str) -> StoreFault:
    """Convert a driver's error to a StoreFault."""
    raw = _raw(error)
    description = _describe(raw)
    reason = str(raw).strip().partition("\n")[0]
    text = (
        f"{place} {description} ({reason})" if description else f"{place} cannot be used: {reason}"
    )
    fault = StoreFault(text, answer=FULL if description == _NO_SPACE else "")
    fault.__cause__ = error
    return fault


def full(place: str, free_bytes: int) -> StoreFault:
    """Return the fault of a database whose disk has only the space reserved for ends of jobs."""
    return StoreFault(f"{place} {_NO_SPACE} ({free_bytes >> 10} KiB are free)", answer=FULL)


def is_of_database(error: Exception) -> bool:
    """Whether the error concerns the database as a whole, not one write."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    return bool(_describe(_raw(error)))


def spoils_connection(error: BaseException) -> bool:
    """Whether the error makes its connection unusable."""
    return isinstance(error, sqlite3.Error) and _primary(error) in _SPOILS


def _raw(error: Exception) -> BaseException:
    return error.orig or error if isinstance(error, DBAPIError) else error


def _describe(raw: BaseException) -> str:
    if isinstance(raw, sqlite3.Error):
        return _OF_FILES.get(_primary(raw), "")
    state = getattr(raw, "sqlstate", None) or ""
    if not state:
        return _describe_lost_server(raw)
    return next((_OF_SERVERS[state[:n]] for n in (5, 3, 2) if state[:n] in _OF_SERVERS), "")


def _describe_lost_server(raw: BaseException) -> str:
    """Describe an error that has no SQLSTATE because the server cannot be reached."""
    return _OF_SERVERS["08"] if type(raw).__name__ == "OperationalError" else ""


def _primary(raw: sqlite3.Error) -> int:
    code: int = getattr(raw, "sqlite_errorcode", 0)
    return code & 0xFF
