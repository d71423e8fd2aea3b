"""Commits the writes of many callers together, in one thread.

A durable commit needs a disk flush, which is slow.  So writes that arrive during a flush wait, and
the next flush commits all of them.  Writes of one kind are also performed by the same statements.
If a write of a batch fails, the batch is rolled back and each write is performed alone, so that
only the caller of the failed write gets an error.  Savepoints would need two more statements for
every write.
"""

import queue
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from sqlalchemy import Connection, Engine, bindparam, update
from sqlalchemy.exc import DBAPIError

from trainshed.observability.spans import REQUEST_TRACE, AttributeValue
from trainshed.store.base import AlreadyThere, StaleEtag, StoreFault
from trainshed.store.faults import fault_of, is_of_database
from trainshed.store.records.steps import CommittedChange
from trainshed.store.tables import MARKS

A = TypeVar("A")
T = TypeVar("T")

#: Errors that a write raises before it changes anything; they do not fail the batch.
Refused = AlreadyThere | StaleEtag | KeyError

HOLDING_MARK = "holding"
_BATCH_MAX = 256
#: Callers that wrote together write again at about the same time, and a commit is expensive, so the
#: writer waits for so many seconds for the other callers.
_GATHER_S = 0.003
_TRIES = 5
#: Codes of PostgreSQL for a serialization failure and a deadlock; a retry can succeed.
_RETRIABLE = frozenset({"40001", "40P01"})
_TAKE_MARK = (
    update(MARKS)
    .where(MARKS.c.name == bindparam("mark_name"))
    .values(value=MARKS.c.value + 1)
    .returning(MARKS.c.value)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The argument of a write: an open connection, the time, and a mark (0 unless requested)."""

    connection: Connection
    now_ns: int
    mark: int
    changes: list[CommittedChange] = field(default_factory=list)
    """The changes of jobs, reported to the listener after the commit."""


class StoreListener(Protocol):
    """Gets commits, in the writer's thread; its methods return at once."""

    def committed(self, seconds: float, writes: int, changes: Sequence[CommittedChange]) -> None:
        """Note a commit of ``writes`` writes, whose transaction took ``seconds``."""

    def failed(self, kind: str) -> None:
        """Note a write that was not stored: ``away`` for a fault of the database, ``error``."""


class NoListener:
    """Listens to nothing."""

    def committed(self, seconds: float, writes: int, changes: Sequence[CommittedChange]) -> None:
        """Do nothing."""

    def failed(self, kind: str) -> None:
        """Do nothing."""


#: Performs several writes of one kind; returns for each a result or an error of ``Refused``.
Perform = Callable[[Transaction, Sequence[A]], Sequence[T | Refused]]


@dataclass(eq=False, slots=True, kw_only=True)
class _Write:
    perform: Perform[Any, Any]
    item: Any
    marked: bool
    together: Hashable
    done: "Future[Any]" = field(default_factory=Future)
    commit_writes: int = 0
    """The writes of the commit that had this one."""


class Writer:
    """The queue of writes and the thread that performs them."""

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], int],
        place: str,
        check: Callable[[], None] = lambda: None,
        listener: StoreListener | None = None,
    ) -> None:
        """Start the thread; ``close`` ends it.  ``place`` names the database in faults.

        ``check`` raises StoreFault if the database file was removed or replaced.
        """
        self._engine = engine
        self._place = place
        self._described: dict[str, AttributeValue] = {"db.system.name": engine.dialect.name}
        self._check = check
        self._listener = listener or NoListener()
        self._clock = clock
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._open = True
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def write(self, perform: Callable[[Transaction], T]) -> T:
        """Perform a write and return its result after the commit.

        ``perform`` may be called again after a rollback.  Raises StoreFault and the errors of
        ``perform``, which must raise an error of ``Refused`` before it writes anything.
        """

        def one(tx: Transaction, _: Sequence[None]) -> Sequence[T | Refused]:
            try:
                return (perform(tx),)
            except (AlreadyThere, StaleEtag, KeyError) as refused:
                return (refused,)

        write = _Write(perform=one, item=None, marked=False, together=object())
        return cast("T", self._submit(write))

    def write_with_others(self, perform: Perform[A, T], item: A, *, marked: bool = False) -> T:
        """Perform a write together with other items of the same ``perform``; return its result.

        ``marked`` writes get a mark, and only one server at a time performs them.
        """
        write = _Write(perform=perform, item=item, marked=marked, together=perform)
        return cast("T", self._submit(write))

    def close(self) -> None:
        """Finish queued writes, then end the thread."""
        with self._closing:
            self._open = False
            self._queue.put(None)
        self._thread.join()

    def _submit(self, item: _Write) -> Any:
        with self._closing:
            if not self._open:
                raise StoreFault("the store is closed")
            self._queue.put(item)
        if (trace := REQUEST_TRACE.get()) is None:
            return item.done.result()
        began_ns = time.time_ns()
        try:
            return item.done.result()
        finally:
            writes = {"trainshed.commit.writes": item.commit_writes}
            trace.add_child("store.commit", began_ns, time.time_ns(), self._described | writes)

    def _run(self) -> None:
        size = 0
        while batch := self._next_batch(were_several=size > 1):
            self._commit(batch)
            size = len(batch)
            del batch  # free its memory while waiting for the next batch

    def _next_batch(self, *, were_several: bool) -> Sequence[_Write]:
        """Wait for writes and return them; empty when the store is closed."""
        batch: list[_Write] = []
        item = self._queue.get()
        if were_several:
            time.sleep(_GATHER_S)
        while item is not None:
            batch.append(item)
            if len(batch) == _BATCH_MAX or self._queue.empty():
                return batch
            item = self._queue.get()
        if batch:
            self._queue.put(None)
        return batch

    def _commit(self, batch: Sequence[_Write]) -> None:
        """Perform a batch, and give each caller its result or error."""
        try:
            outcomes = self._perform_with_retry(batch)
        except StoreFault as fault:
            outcomes = [fault] * len(batch)
        except Exception as error:  # noqa: BLE001 - raised in the thread of its caller
            outcomes = self._one_by_one(batch, error)
        for item, outcome in zip(batch, outcomes, strict=True):
            item.commit_writes = len(batch)
            if isinstance(outcome, Exception):
                self._note_failure(outcome)
                item.done.set_exception(outcome)
            else:
                item.done.set_result(outcome)

    def _note_failure(self, outcome: Exception) -> None:
        if not isinstance(outcome, Refused):
            self._listener.failed("away" if isinstance(outcome, StoreFault) else "error")

    def _perform_with_retry(self, batch: Sequence[_Write]) -> list[Any]:
        """Perform a batch, once more on a new connection if the old connection is dead."""
        try:
            return self._perform(batch)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
        return self._perform(batch)

    def _one_by_one(self, batch: Sequence[_Write], error: Exception) -> list[Any]:
        """Perform each write alone; a fault of the whole database fails all of them."""
        if is_of_database(error):
            return [fault_of(error, self._place)] * len(batch)
        return [self._alone(item) for item in batch]

    def _perform(self, batch: Sequence[_Write]) -> list[Any]:
        """Perform a batch in one transaction and commit it; return the results."""
        self._check()
        began = time.perf_counter()
        with self._engine.connect() as connection:
            mark = 0
            if any(item.marked for item in batch):
                mark = connection.execute(_TAKE_MARK, {"mark_name": HOLDING_MARK}).scalar_one()
            tx = Transaction(connection=connection, now_ns=self._clock(), mark=mark)
            outcomes = _in_groups(tx, batch)
            try:
                connection.commit()
            except DBAPIError as error:
                # the database may have stored the write: a second try could store it twice
                fault = fault_of(error, self._place)
                answer = fault.answer
                raise StoreFault(
                    f"a write was not confirmed and may have been stored: {fault}", answer=answer
                ) from error
        self._listener.committed(time.perf_counter() - began, len(batch), tx.changes)
        self._check()
        return outcomes

    def _alone(self, item: _Write) -> Any:
        """Perform one write in its own transaction; return its result or its error."""
        for tries_left in reversed(range(_TRIES)):
            try:
                return self._perform([item])[0]
            except DBAPIError as error:
                if not (tries_left and _can_retry(error)):
                    return fault_of(error, self._place)
            except self._engine.dialect.loaded_dbapi.Error as error:  # while connecting
                return fault_of(error, self._place)
            except Exception as error:  # noqa: BLE001 - raised in the caller
                return error
        raise AssertionError("the last try returns")


def _in_groups(tx: Transaction, batch: Sequence[_Write]) -> list[Any]:
    """Call each ``perform`` once with all its items; return the results in batch order."""
    groups: dict[Hashable, list[int]] = {}
    for index, item in enumerate(batch):
        groups.setdefault(item.together, []).append(index)
    outcomes: list[Any] = [None] * len(batch)
    for indexes in groups.values():
        results = batch[indexes[0]].perform(tx, [batch[index].item for index in indexes])
        for index, outcome in zip(indexes, results, strict=True):
            outcomes[index] = outcome
    return outcomes


def _can_retry(error: DBAPIError) -> bool:
    return error.connection_invalidated or getattr(error.orig, "sqlstate", "") in _RETRIABLE
