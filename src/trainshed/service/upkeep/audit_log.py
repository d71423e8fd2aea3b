"""The audit log: entries wait in memory for a moment, then are written in groups.

A request never waits for it: its entry is put on a list, and one write a second stores the list.  A
killed server loses the entries of the last second; a server that ends normally loses none.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from trainshed.model.audit_log import AuditEntry
from trainshed.service.jobs.since import time_since
from trainshed.store.base import StoreFault
from trainshed.store.opening import Store
from trainshed.wire.native_v1 import Answer, answer_of

#: How long an entry may wait for its write.
EVERY_S: Final = 1.0
#: The most entries that wait; while the database is away, further entries are only counted.
WAITING_MAX: Final = 20_000
#: The longest text of a field.
TEXT_MAX: Final = 500
#: The most entries of one response.
LIST_MAX: Final = 1000

_LOG = logging.getLogger(__name__)


class AuditLog:
    """Takes entries from any thread; after ``start``, a thread of its own writes them."""

    def __init__(
        self, store: Store, every_s: float = EVERY_S, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._store = store
        self._every_s = every_s
        self._clock = clock
        self._waiting: list[AuditEntry] = []
        self._left_out = 0
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit-log", daemon=True)

    def start(self) -> None:
        """Start the thread that writes."""
        self._thread.start()

    def stop(self) -> None:
        """Write the waiting entries, and end."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._try_to_write()

    def add(self, **fields: str) -> None:
        """Add an entry for an answered call; ``fields`` are those of ``AuditEntry`` except time."""
        if max(map(len, fields.values())) > TEXT_MAX:
            fields = {name: text[:TEXT_MAX] for name, text in fields.items()}
        entry = AuditEntry(stamp_ns=self._clock(), **fields)
        with self._lock:
            if len(self._waiting) < WAITING_MAX:
                self._waiting.append(entry)
            else:
                self._left_out += 1

    def write(self) -> None:
        """Write the waiting entries.  Raises StoreFault; they then stay."""
        with self._writing:
            with self._lock:
                entries, self._waiting = self._waiting, []
                left_out, self._left_out = self._left_out, 0
            try:
                self._store.add_audit([*entries, *self._gap(left_out)])
            except StoreFault:
                with self._lock:
                    self._waiting[:0] = entries
                    self._left_out += left_out
                raise

    def _gap(self, count: int) -> list[AuditEntry]:
        """Return an entry that counts the dropped ones."""
        if not count:
            return []
        text = f"{count} entries were left out while the database was away"
        return [AuditEntry(self._clock(), "trainshed", "server", "", "audit log", text, "", "OK")]

    def _run(self) -> None:
        while not self._end.wait(self._every_s):
            self._try_to_write()

    def _try_to_write(self) -> None:
        try:
            self.write()
        except StoreFault as fault:
            _LOG.warning("cannot write the audit log: %s; retrying", fault)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRetention:
    """Keeps the log within an administrator's bounds (settings ``[audit]``)."""

    store: Store
    rows_max: int
    days_max: float

    def tidy(self) -> int:
        """Delete the oldest entries; return how many."""
        before = self.store.moment_before(timedelta(days=self.days_max))
        return self.store.shorten_audit_log(rows_max=self.rows_max, before=before)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedCall(Answer):
    """A change or a refusal."""

    time: str
    caller: str
    credential: str
    """The id of a token or key; empty if the caller was not authenticated."""
    address: str
    method: str
    resource: str
    project: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage(Answer):
    """The newest entries, the oldest of them first."""

    entries: Sequence[AuditedCall]


def listing(store: Store, query: Mapping[str, Any]) -> AuditPage:
    """``GET /trainshed/v1/audit``: the newest entries, the oldest of them first.

    ``query``: ``limit``, ``project``, ``since`` (RFC 3339).  Raises Refusal.
    """
    since = query.get("since")
    entries = store.audit_log(
        limit=min(int(query.get("limit") or LIST_MAX), LIST_MAX),
        project=query.get("project"),
        since=None if since is None else time_since(since),
    )
    return AuditPage(entries=[_answer(entry) for entry in entries])


def _answer(entry: AuditEntry) -> AuditedCall:
    moment = datetime.fromtimestamp(entry.stamp_ns // 1000 / 1e6, UTC)
    return answer_of(AuditedCall, entry, time=moment.isoformat(timespec="microseconds"))
