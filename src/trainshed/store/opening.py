"""Opens the store of a URL: makes missing tables, and locks a SQLite file for this server."""

import contextlib
import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import URL, Connection, delete, text
from sqlalchemy.exc import DBAPIError

from trainshed.model.bounded import BoundedDict
from trainshed.store import clock_jumps, codec, database_file
from trainshed.store.audit_log import StoredAuditLog
from trainshed.store.base import StoreFault
from trainshed.store.clock_jumps import ClockJump
from trainshed.store.database import Database, check_ours, file_of, parsed, write_engine
from trainshed.store.database_file import DatabaseFile
from trainshed.store.faults import fault_of, place_of
from trainshed.store.fleet import StoredNodes
from trainshed.store.grants import REMEMBERED_MAX, Grants, Places
from trainshed.store.job_rows import StoredJobRows
from trainshed.store.job_traces import StoredJobTraces
from trainshed.store.jobs import Forgetting, StoredJobs
from trainshed.store.machine_usage import StoredMachineUsage
from trainshed.store.marks import StoredMarks
from trainshed.store.migrate import check_exists, migrate
from trainshed.store.models import Models
from trainshed.store.open_job_counts import StoredOpenJobCounts
from trainshed.store.outcomes import Outcomes
from trainshed.store.pipelines import Pipelines
from trainshed.store.sign_ins import StoredSignIns
from trainshed.store.steady_clock import SteadyClock, has_live_servers, resume
from trainshed.store.steps import Steps
from trainshed.store.story import Story
from trainshed.store.studies import StoredStudies
from trainshed.store.tables import LEASES, MARKS
from trainshed.store.upsert import insert
from trainshed.store.usage import StoredUsage
from trainshed.store.work import StoredLeases, Work
from trainshed.store.writer import HOLDING_MARK, StoreListener

_NS_PER_S = 1_000_000_000
_NS_PER_DAY = 86_400 * _NS_PER_S

_LOG = logging.getLogger(__name__)


def open_store(
    url: str,
    clock: Callable[[], int] | None = None,
    *,
    existing: bool = False,
    listener: StoreListener | None = None,
) -> "Store":
    """Open the store of a SQLAlchemy URL (``sqlite:///PATH`` or ``postgresql+psycopg://...``).

    ``clock`` returns nanoseconds since 1970; the default does not jump when the wall clock is set
    (``store.steady_clock``).  With ``existing`` the database must already have tables; otherwise
    they are created.  ``listener`` gets commits.  Raises StoreFault if the database cannot
    be used.
    """
    clock = clock or SteadyClock()
    address = parsed(url)
    with contextlib.ExitStack() as held:
        alone = address.get_backend_name() == "sqlite"
        if alone and existing:
            _check_file_exists(file_of(address))
        file = _claim(file_of(address), place_of(address), held) if alone else None
        _prepare(address, clock, alone=alone, existing=existing)
        return Store(Database(address, clock, file, listener), held.pop_all())


def _prepare(url: URL, clock: Callable[[], int], *, alone: bool, existing: bool) -> None:
    """Migrate the tables, and correct stored times after a clock jump.  Raises StoreFault."""
    engine = write_engine(url)
    try:
        with engine.begin() as connection:
            _check_encoding(connection, url)
            if existing:
                check_exists(connection)
            migrate(connection)
            row = {"name": HOLDING_MARK, "value": 0}
            connection.execute(insert(MARKS).on_conflict_do_nothing(), row)
        has_others = not alone and has_live_servers(engine, clock)
        with engine.begin() as connection:
            jump = resume(connection, clock, has_others=has_others)
            if alone:  # the servers of all leases are dead: the file is locked by this one
                connection.execute(delete(LEASES))
    except (DBAPIError, engine.dialect.loaded_dbapi.Error) as error:
        raise fault_of(error, place_of(url)) from error
    finally:
        engine.dispose()
    if jump is not None:
        _LOG.warning(
            "the clock has moved by %+.1f days since a server last used the database: limits of "
            "jobs, retention and leases do not count that time",
            jump.by_ns / _NS_PER_DAY,
        )


def _check_file_exists(path: Path) -> None:
    if not path.exists():
        raise StoreFault(f"the database {path} does not exist")


def _check_encoding(connection: Connection, url: URL) -> None:
    """Raise StoreFault if a PostgreSQL database is not in UTF-8: names and logs are Unicode."""
    if connection.dialect.name != "postgresql":
        return
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise StoreFault(
            f"{place_of(url)} must have the encoding UTF8, got {encoding}; create a new "
            f"database with: createdb -E UTF8 -T template0 {url.database}_utf8"
        )


def _claim(path: Path, place: str, held: contextlib.ExitStack) -> DatabaseFile:
    """Lock a SQLite file, create it if missing, and hold it open.  Raises StoreFault."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        check_ours(path)
        held.enter_context(file_lock(path))
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
        return held.enter_context(database_file.held(path, place))
    except OSError as error:
        raise StoreFault(f"{error.filename or path} cannot be used: {error.strerror}") from error


class Store(
    StoredJobs,
    StoredJobRows,
    StoredMarks,
    StoredJobTraces,
    Steps,
    Story,
    StoredStudies,
    Work,
    StoredLeases,
    StoredNodes,
    Forgetting,
    Pipelines,
    Models,
    Places,
    Grants,
    StoredSignIns,
    StoredAuditLog,
    Outcomes,
    StoredOpenJobCounts,
    StoredUsage,
    StoredMachineUsage,
):
    """The store on one database."""

    def __init__(self, db: Database, held: contextlib.ExitStack) -> None:
        """Use a database with tables; ``close`` also closes ``held``, the locks on its file."""
        self._db = db
        self._held = held
        self._known_buckets = BoundedDict(REMEMBERED_MAX)
        self._known_projects = BoundedDict(REMEMBERED_MAX)
        self._known_owners = BoundedDict(REMEMBERED_MAX)
        self._clock_sets: Sequence[ClockJump] | None = None

    def now(self) -> datetime:
        """Return the store's time, which does not jump when the wall clock is set."""
        return codec.to_time(self._db.clock())

    def moment_before(self, span: timedelta) -> datetime:
        """Return the time ``span`` before now, not counting jumps of the clock."""
        jumps = self._db.read(clock_jumps.read)
        span_ns = int(span.total_seconds() * _NS_PER_S)
        return codec.to_time(clock_jumps.moment_before(self._db.clock(), span_ns, jumps))

    def clock_sets(self) -> Sequence[ClockJump]:
        """Return when the clock was set forward by more than a day: before a server's start."""
        if self._clock_sets is None:
            self._clock_sets = self._db.read(clock_jumps.read_set)
        return self._clock_sets

    def clock_skew_s(self) -> float:
        """Return by how many seconds the wall clock is ahead of the store's time."""
        clock = self._db.clock
        return clock.skew_s() if isinstance(clock, SteadyClock) else 0.0

    def keep_room(self) -> None:
        """Reserve disk space for writes that end jobs; the caller repeats this at intervals."""
        self._db.keep_room()

    def close(self) -> None:
        """Finish queued writes, then close the database."""
        self._db.close()
        self._held.close()


@contextlib.contextmanager
def file_lock(database: Path) -> Iterator[None]:
    """Lock a database file; the kernel releases the lock when the process ends.

    SQLite itself allows two servers, but each would take over the other's jobs.
    Raises StoreFault if another process holds the lock.
    """
    path = database.with_name(database.name + ".lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            raise StoreFault(
                f"{database} is in use by another server (process {holder or 'unknown'}); "
                "stop it, or use a PostgreSQL database, which several servers can share"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
