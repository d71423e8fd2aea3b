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
from trainshed.store.writer import Perform, Transaction, Writer

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
#: Limits how long a server that hangs in a write holds its locks.
_IDLE_OPTION = "-c idle_in_transaction_session_timeout=10s"
#: SQLite's own default.
_CHECKPOINT_PAGES: Final = 1000
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={_BUSY_MS}", "foreign_keys=ON")
#: LIKE of SQLite otherwise takes A for a, which PostgreSQL does not.
_READER_PRAGMAS = ("case_sensitive_like=ON", "query_only=ON")


class Database:
    """Reads run at once on connections of their own; writes go through the one writer."""

    def __init__(
        self, url: URL, clock: Callable[[], int], file: DatabaseFile | None = None
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
        self._writer = Writer(self._write_engine, clock, self._place, self._check)

    def read(self, look: Callable[[Connection], T]) -> T:
        """Perform a read.  Raises StoreFault if the database cannot be reached."""
        self._check()
        driver = self._read_engine.dialect.loaded_dbapi.Error  # of a connection that is being made
        try:
            return self._look(look)
        except (DBAPIError, driver) as error:
            if not (isinstance(error, DBAPIError) and error.connection_invalidated):
                raise fault_of(error, self._place) from error
        try:  # the pool has let go of all dead connections by now
            return self._look(look)
        except (DBAPIError, driver) as error:
            raise fault_of(error, self._place) from error

    def rows(self, query: Select[Any], **parameters: Any) -> Sequence[Any]:
        """The rows of a query; ``parameters`` is bound in it."""
        return self.read(lambda c: c.execute(query, parameters).all())

    def row(self, query: Select[Any], **parameters: Any) -> Row[Any] | None:
        """The one row of a query that finds one at most."""
        return self.read(lambda c: c.execute(query, parameters).one_or_none())

    def column(self, query: Select[Any], **parameters: Any) -> Sequence[Any]:
        """The first column of the rows of a query."""
        return self.read(lambda c: c.execute(query, parameters).scalars().all())

    def put(self, statement: Executable, **row: Any) -> int:
        """Perform one statement; gives how many rows it has changed."""
        return self._writer.write(lambda tx: tx.connection.execute(statement, row).rowcount)

    def write(self, perform: Callable[[Transaction], T]) -> T:
        """Write something; see ``Writer.write``."""
        return self._writer.write(perform)

    def write_with_others(self, perform: Perform[A, T], item: A, *, marked: bool = False) -> T:
        """Write something together with others of its kind; see there."""
        return self._writer.write_with_others(perform, item, marked=marked)

    def check_room(self) -> None:
        """Check the disk before a write that can wait.  Raises StoreFault when it is nearly full.

        Writes use up the free pages of the file: on a disk that may soon be full they are checked
        again after some jobs.
        """
        if self._file is None or not self._file.check_room() or not self._keeps_room:
            return
        self._added += 1
        if self._added % _ADDED_PER_LOOK == 0 and self._lacks_room(self._file.free_bytes):
            self.keep_room()

    def keep_room(self) -> None:
        """Reserve space for writes that cannot wait, such as the end of a job, on a full disk.

        The space is written and freed again, which leaves free pages in the file.
        """
        if self._file is None:
            return
        self._file.hold_log()
        self.put(_FREE_ROOM)  # of a server that was killed in the midst of this
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

    def _look(self, look: Callable[[Connection], T]) -> T:
        with self._read_engine.connect() as connection:
            return look(connection)


def _needs_no_check() -> None:
    """A server's database is where it is."""


#: So many jobs fit into a part of the free pages on the smallest disk.
_ADDED_PER_LOOK: Final = 8

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
    """The engine of the writer: one connection, whose transactions begin as writing ones.

    ``checkpoint_bytes``: how long SQLite's log may be at most before it is begun anew; 0 leaves
    that to SQLite.
    """
    engine = create_engine(url, pool_size=1, max_overflow=0, **_connecting(url))
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", partial(_prepare_writer, checkpoint_bytes))
        event.listen(engine, "begin", lambda c: c.exec_driver_sql("BEGIN IMMEDIATE"))
        event.listen(engine, "handle_error", _drop_spoilt)
    else:
        event.listen(engine, "connect", _go_by_keys)
    return engine


def _read_engine(url: URL) -> Engine:
    engine = create_engine(
        url,
        pool_size=_READERS,
        max_overflow=-1,
        isolation_level="AUTOCOMMIT",
        **_connecting(url),
    )
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_reader)
        event.listen(engine, "handle_error", _drop_spoilt)
    return engine


def _connecting(url: URL) -> dict[str, Any]:
    """Return connection arguments that detect a lost database.

    A silent host is noticed within a minute; a removed file is not made again without its tables.
    """
    if url.get_backend_name() == "postgresql":
        options = f"{url.query.get('options', '')} {_IDLE_OPTION}".strip()
        arguments = {**_LIBPQ, "options": options, "client_encoding": "utf8"}
        return {"connect_args": arguments}
    return {"creator": lambda: connect(file_of(url), "mode=rw", check_same_thread=False)}


def _drop_spoilt(context: ExceptionContext) -> None:
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


def _go_by_keys(connection: Any, _: Any) -> None:
    """Make PostgreSQL find rows by key; its planner does not know how few they are and scans all.

    For an unavoidable scan it estimates a high cost and would compile the query for seconds.
    """
    for setting in ("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit"):
        connection.execute(f"SET {setting} = off")
    connection.commit()


def _prepare_reader(connection: sqlite3.Connection, _: Any) -> None:
    for pragma in (*_PRAGMAS, *_READER_PRAGMAS):
        connection.execute(f"PRAGMA {pragma}").close()


#: The tested drivers: others may handle transactions differently.
_DRIVERS: Final = frozenset({"pysqlite", "psycopg"})

#: How a SQLite file begins that is not empty.
_SQLITE: Final = b"SQLite format 3\0"


def parsed(url: str) -> URL:
    """Parse a URL.  Faults never repeat its text, which may have a password."""
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
        raise StoreFault(f"a database of {kind} cannot be used; the URL must be {accepted}")
    return parts


def file_of(url: URL) -> Path:
    """The file of a SQLite database.  Raises StoreFault for one in memory."""
    if not url.database or url.database == ":memory:":
        raise StoreFault("a SQLite database needs a file: sqlite:///PATH")
    return Path(url.database)


def check_ours(path: Path) -> None:
    """Check that a file is a SQLite database, before anything of it is changed.

    Raises StoreFault, and OSError where it cannot be read; one that is not there may be made.
    """
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        if file.read(len(_SQLITE)) not in {b"", _SQLITE}:
            raise StoreFault(f"{path} is not a database of SQLite")
