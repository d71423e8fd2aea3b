"""A database with many readers, one writer and one clock."""

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    ExceptionContext,
    Executable,
    Row,
    Select,
    bindparam,
    create_engine,
    delete,
    event,
    func,
    insert,
    make_url,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from trainshed.store.base import StoreFault
from trainshed.store.database_file import DatabaseFile, connect
from trainshed.store.faults import fault_of, place_of, spoils_connection
from trainshed.store.names import UidMaker
from trainshed.store.tables import MARKS
from trainshed.store.writer import Perform, StoreListener, Transaction, Writer

A = TypeVar("A")
T = TypeVar("T")

_READERS = 16
_BUSY_MS = 10_000
_LIBPQ = {
    "connect_timeout": 10,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
#: Limit how long a server that hangs in a write holds its locks, and compile no query: PostgreSQL
#: overestimates the cost of queries that read little, and would compile them for 0.1 s.
_SESSION_OPTIONS = "-c idle_in_transaction_session_timeout=10s -c jit=off"
#: SQLite's own default.
_CHECKPOINT_PAGES: Final = 1000
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={_BUSY_MS}", "foreign_keys=ON")
#: Without it LIKE of SQLite ignores case; LIKE of PostgreSQL does not.
_READER_PRAGMAS = ("case_sensitive_like=ON", "query_only=ON")


class Database:
    """Runs reads in parallel, each on its own connection, and writes through one writer."""

    def __init__(
        self,
        url: URL,
        clock: Callable[[], int],
        file: DatabaseFile | None = None,
        listener: StoreListener | None = None,
    ) -> None:
        """Connect; the tables must exist.  ``file`` is the file of a SQLite database."""
        self.clock = clock
        self._file = file
        self._check = file.check if file else _needs_no_check
        self._added, self._keeps_room = 0, False
        self.new_uid = UidMaker(clock)
        self._write_engine = write_engine(url, file.checkpoint_bytes if file else 0)
        self._read_engine = _read_engine(url)
        self._place = place_of(url)
        self._writer = Writer(self._write_engine, clock, self._place, self._check, listener)

    def read(self, query: Callable[[Connection], T]) -> T:
        """Return ``query(connection)``.  Raises StoreFault if the database cannot be used."""
        self._check()
        driver = self._read_engine.dialect.loaded_dbapi.Error  # errors while connecting
        try:
            return self._run(query)
        except (DBAPIError, driver) as error:
            if not (isinstance(error, DBAPIError) and error.connection_invalidated):
                raise fault_of(error, self._place) from error
        try:  # the pool has dropped all dead connections
            return self._run(query)
        except (DBAPIError, driver) as error:
            raise fault_of(error, self._place) from error

    def rows(self, query: Select[Any], **parameters: Any) -> Sequence[Any]:
        """Return the rows of a query; ``parameters`` are bound in it."""
        return self.read(lambda c: c.execute(query, parameters).all())

    def row(self, query: Select[Any], **parameters: Any) -> Row[Any] | None:
        """Return the only row of a query; None if there is no row."""
        return self.read(lambda c: c.execute(query, parameters).one_or_none())

    def column(self, query: Select[Any], **parameters: Any) -> Sequence[Any]:
        """Return the first column of the rows of a query."""
        return self.read(lambda c: c.execute(query, parameters).scalars().all())

    def put(self, statement: Executable, **row: Any) -> int:
        """Execute one statement; return the number of rows that it changed."""
        return self._writer.write(lambda tx: tx.connection.execute(statement, row).rowcount)

    def write(self, perform: Callable[[Transaction], T]) -> T:
        """Run a write; see ``Writer.write``."""
        return self._writer.write(perform)

    def write_with_others(self, perform: Perform[A, T], item: A, *, marked: bool = False) -> T:
        """Write an item in one group with others; see ``Writer.write_with_others``."""
        return self._writer.write_with_others(perform, item, marked=marked)

    def check_room(self) -> None:
        """Check the disk before a write that can wait.  Raises StoreFault if it is nearly full.

        Writes use up the free pages of the file.  If the disk may soon be full, some calls reserve
        new free pages.
        """
        if self._file is None or not self._file.check_room() or not self._keeps_room:
            return
        self._added += 1
        if self._added % _ADDED_PER_CHECK == 0 and self._lacks_room(self._file.free_bytes):
            self.keep_room()

    def keep_room(self) -> None:
        """Reserve space in the file for writes that must succeed on a full disk: ends of jobs.

        Writes a large row and deletes it, which leaves free pages in the file.
        """
        if self._file is None:
            return
        self._file.hold_log()
        self.put(_FREE_ROOM)  # a killed server may have left the row
        reserve_bytes = self._file.free_bytes
        if self._lacks_room(reserve_bytes):
            self.put(_TAKE_ROOM, size=reserve_bytes)
            self.put(_FREE_ROOM)
        self._file.checkpoint()
        self._keeps_room = True

    def _lacks_room(self, reserve_bytes: int) -> bool:
        return self.read(_free_bytes) < reserve_bytes // 2

    def close(self) -> None:
        """Finish queued writes and close every connection."""
        self._writer.close()
        self._read_engine.dispose()
        self._write_engine.dispose()

    def _run(self, query: Callable[[Connection], T]) -> T:
        with self._read_engine.connect() as connection:
            return query(connection)


def _needs_no_check() -> None:
    """Do nothing: the database is not a file that can be removed."""


#: Added jobs between two checks of the free pages; they fit in even on the smallest disk.
_ADDED_PER_CHECK: Final = 8

_ROOM: Final = "room"
_TAKE_ROOM = insert(MARKS).values(name=_ROOM, value=func.zeroblob(bindparam("size")))
_FREE_ROOM = delete(MARKS).where(MARKS.c.name == _ROOM)


def _free_bytes(connection: Connection) -> int:
    pragmas = ("freelist_count", "page_size")
    count, size = (
        connection.exec_driver_sql(f"PRAGMA {pragma}").scalar_one() for pragma in pragmas
    )
    return int(count * size)


def write_engine(url: URL, checkpoint_bytes: int = 0) -> Engine:
    """Return the writer's engine, with one connection whose transactions lock for writing.

    ``checkpoint_bytes``: the size of SQLite's log at which SQLite restarts it; 0 keeps the default
    of SQLite.
    """
    engine = create_engine(url, pool_size=1, max_overflow=0, **_connection_options(url))
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", partial(_prepare_writer, checkpoint_bytes))
        event.listen(engine, "begin", lambda c: c.exec_driver_sql("BEGIN IMMEDIATE"))
        event.listen(engine, "handle_error", _drop_unusable)
    else:
        event.listen(engine, "connect", _prefer_indexes)
    return engine


def _read_engine(url: URL) -> Engine:
    engine = create_engine(
        url,
        pool_size=_READERS,
        max_overflow=-1,
        isolation_level="AUTOCOMMIT",
        **_connection_options(url),
    )
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_reader)
        event.listen(engine, "handle_error", _drop_unusable)
    return engine


def _connection_options(url: URL) -> dict[str, Any]:
    """Return the options of ``create_engine`` that detect a lost database.

    A host that does not answer is detected within a minute; a removed file is not created again.
    """
    if url.get_backend_name() == "postgresql":
        options = f"{url.query.get('options', '')} {_SESSION_OPTIONS}".strip()
        arguments = {**_LIBPQ, "options": options, "client_encoding": "utf8"}
        return {"connect_args": arguments}
    return {"creator": lambda: connect(file_of(url), "mode=rw", check_same_thread=False)}


def _drop_unusable(context: ExceptionContext) -> None:
    """Drop a connection after a fault of the file, because it may cache the fault."""
    if spoils_connection(context.original_exception):
        context.is_disconnect = True


def _prepare_writer(checkpoint_bytes: int, connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # the driver's own BEGIN would come too late
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()
    if checkpoint_bytes:
        ((page_bytes,),) = connection.execute("PRAGMA page_size").fetchall()
        pages = min(_CHECKPOINT_PAGES, checkpoint_bytes // page_bytes)
        connection.execute(f"PRAGMA wal_autocheckpoint={pages}").close()


def _prefer_indexes(connection: Any, _: Any) -> None:
    """Make PostgreSQL use indexes: its planner overestimates the rows and would scan the table."""
    for setting in ("enable_seqscan", "enable_hashjoin", "enable_mergejoin"):
        connection.execute(f"SET {setting} = off")
    connection.commit()


def _prepare_reader(connection: sqlite3.Connection, _: Any) -> None:
    for pragma in (*_PRAGMAS, *_READER_PRAGMAS):
        connection.execute(f"PRAGMA {pragma}").close()


#: The tested drivers: others may handle transactions differently.
_DRIVERS: Final = frozenset({"pysqlite", "psycopg"})

#: The first bytes of a SQLite file that is not empty.
_SQLITE: Final = b"SQLite format 3\0"


def parsed(url: str) -> URL:
    """Parse a database URL.  Raises StoreFault without the URL, which may contain a password."""
    accepted = "sqlite:///PATH or postgresql+psycopg://USER@HOST/DATABASE"
    try:
        parts = make_url(url)
        driver = parts.get_dialect().driver
    except NoSuchModuleError as error:
        raise StoreFault(f"the database URL must be {accepted}") from error
    except (ArgumentError, ValueError) as error:
        raise StoreFault(f"the database URL is malformed; it must be {accepted}") from error
    if driver not in _DRIVERS:
        kind = parts.drivername
        raise StoreFault(f"the database URL must be {accepted}, got the driver {kind}")
    return parts


def file_of(url: URL) -> Path:
    """Return the file of a SQLite database.  Raises StoreFault if it is in memory."""
    if not url.database or url.database == ":memory:":
        raise StoreFault("the database URL must name a file: sqlite:///PATH")
    return Path(url.database)


def check_ours(path: Path) -> None:
    """Raise StoreFault if the file is not a SQLite database; it may be empty or missing.

    Raises OSError if the file cannot be read.
    """
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        if file.read(len(_SQLITE)) not in {b"", _SQLITE}:
            raise StoreFault(f"{path} is not a database of SQLite")
