"""Keeps the objects of one kind current: a list in pages, then a watch, in one thread.

The watches of libraries end or fall silent without an error, so the loop is Trainshed's own.  A
list that fails leaves the objects as they are: no object is gone until the API says so.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from trainshed.engines.kubernetes.api.client import Client
from trainshed.engines.kubernetes.api.errors import ApiAway, ApiRefused, ClientClosed
from trainshed.engines.kubernetes.api.objects import ObjectChange, ObjectStore, share_texts
from trainshed.engines.kubernetes.api.progress import (
    Pacing,
    StepOutcome,
    WatchProgress,
    note_break,
    note_end,
    note_failure,
    note_list,
    note_version,
    plan_pause_s,
    plan_watch_s,
)
from trainshed.engines.kubernetes.api.stream import BOOKMARK, DELETED, WatchStream
from trainshed.engines.processes.heap import release_freed_memory

_LOG = logging.getLogger(__name__)

#: Seconds for which ``close`` waits for the thread.
_CLOSE_S: Final = 2.0
#: Limit of the pages of one list: with the largest page, half a million objects.
_PAGES_MAX: Final = 1000

#: Returns the fields of an object to keep; None: the object is not stored and never reported.
Trim = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
OnChange = Callable[[Sequence[ObjectChange]], None]


class Watcher:
    """The current objects of one path, for all threads."""

    def __init__(  # noqa: PLR0913 - what to watch, and how
        self,
        client: Client,
        path: str,
        selector: str,
        trim: Trim,
        on_change: OnChange,
        *,
        fields: str = "",
        pacing: Pacing = Pacing(),  # noqa: B008 - a constant value
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Watch the objects of a list's path.

        ``selector``: a label selector, ``fields``: a field selector; empty: all objects.
        ``trim`` keeps the fields of an object that the caller reads.  ``on_change`` is called in
        the watcher's thread, never for an object that is equal after ``trim``.
        """
        self._client = client
        self._path = path
        selectors = {"labelSelector": selector, "fieldSelector": fields}
        self._query = {name: text for name, text in selectors.items() if text}
        self._trim = trim
        self._on_change = on_change
        self._pacing = pacing
        self._closing = threading.Event()
        self._now_s = now_s
        self._store = ObjectStore()
        self._versions: dict[str, str] = {}
        self._progress = WatchProgress()
        self._synced = threading.Event()
        self._stream: WatchStream | None = None
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self.away_since_s: float | None = None
        """Time, by the system clock, since when the API gives no usable answer; None: it does."""
        self.reason = ""
        """The last error while the API gives no usable answer; else empty."""

    @property
    def objects(self) -> Mapping[str, Mapping[str, Any]]:
        """The trimmed objects by uid; empty before the first list."""
        return self._store.read()

    @property
    def is_synced(self) -> bool:
        """Whether a list has ever succeeded; before that, an absent object says nothing."""
        return self._synced.is_set()

    @property
    def is_denied(self) -> bool:
        """Whether the API refuses this kind: no permission, or it is not installed."""
        return self._progress.outcome is StepOutcome.DENIED

    def wait_synced(self, timeout_s: float) -> bool:
        """Wait for the first list; return whether there is one."""
        return self._synced.wait(timeout_s)

    def start(self) -> None:
        """Start the thread, unless it runs or the watcher is closed."""
        with self._starting:
            if self._thread is None and not self._closing.is_set():
                name = f"kubernetes-{self._path.rpartition('/')[2]}"
                self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread within about 2 seconds."""
        self._closing.set()
        if (stream := self._stream) is not None:
            stream.close()
        with self._starting:
            thread = self._thread
        if thread is not None:
            thread.join(_CLOSE_S)

    def _loop(self) -> None:
        while not self._closing.is_set():
            self._closing.wait(self.step())

    def step(self) -> float:
        """List, or watch until the watch ends; return the seconds to wait before the next step."""
        watch_s = plan_watch_s(self._progress, self._now_s(), self._pacing)
        try:
            if watch_s is None:
                self._list()
            else:
                self._watch(watch_s)
        except (ApiAway, ApiRefused) as error:
            self._note_error(error)
        except Exception as error:  # noqa: BLE001 - the next try may succeed
            _LOG.exception("cannot read the objects of %s; retrying", self._path)
            self._note_error(ApiAway(f"cannot read the objects of {self._path}: {error!r}"))
        return plan_pause_s(self._progress, random.random(), self._pacing)  # noqa: S311 - no secret

    def _list(self) -> None:
        values: dict[str, Mapping[str, Any]] = {}
        versions: dict[str, str] = {}
        query = {**self._query, "limit": str(self._pacing.page_objects)}
        for _ in range(_PAGES_MAX):
            version, more = self._read_page(query, values, versions)
            if not more:
                break
            query["continue"] = more
        else:
            raise ApiAway(f"a list must have at most {_PAGES_MAX} pages, got more")
        self._progress = note_list(self._progress, version, self._now_s(), len(values))
        self._versions = versions
        changes = self._store.replace(values)
        self._note_answer()
        self._synced.set()
        self._report(changes)
        if len(values) >= self._pacing.page_objects:
            release_freed_memory()

    def _read_page(
        self,
        query: Mapping[str, str],
        values: dict[str, Mapping[str, Any]],
        versions: dict[str, str],
    ) -> tuple[str, str]:
        """Add one page; return the version of the list, and where its next page begins."""
        page = self._client.get(self._path, query)
        metadata, items = page.get("metadata"), page.get("items")
        if not isinstance(metadata, Mapping) or not isinstance(items, list | None):
            raise ApiAway("the API server's answer must be a list, got another object")
        if not metadata.get("resourceVersion"):
            raise ApiAway("a list must have a version, got none")
        current = self._store.read()
        for item in items or ():
            uid, version = item["metadata"]["uid"], item["metadata"].get("resourceVersion", "")
            is_same = bool(version) and self._versions.get(uid) == version
            value = current.get(uid) if is_same else self._cut(item)
            if value is not None:
                values[uid], versions[uid] = value, version
        return metadata["resourceVersion"], metadata.get("continue", "")

    def _watch(self, watch_s: float) -> None:
        version = self._progress.version
        query = {**self._query, "resourceVersion": version, "allowWatchBookmarks": "true"}
        with self._client.stream(self._path, query, watch_s) as stream:
            self._stream = stream
            self._note_answer()
            opened_s = self._now_s()
            try:
                self._read_events(stream)
            except ApiAway as error:
                _LOG.info("watching %s was interrupted: %s; retrying", self._path, str(error))
                self._progress = note_break(self._progress, self._now_s() - opened_s, self._pacing)
            else:
                self._progress = note_end(self._progress, self._now_s() - opened_s, self._pacing)
            finally:
                self._stream = None  # an ended stream would keep its connection open

    def _read_events(self, stream: WatchStream) -> None:
        for event in stream:
            if self._closing.is_set():
                return
            self._apply(event["type"], event["object"])

    def _apply(self, kind: str, value: Mapping[str, Any]) -> None:
        metadata = value.get("metadata")
        if not isinstance(metadata, Mapping):
            raise ApiAway("a watch event must have an object with metadata")
        version = metadata.get("resourceVersion", "")
        if kind != BOOKMARK:
            self._report(self._store_event(kind, metadata.get("uid", ""), version, value))
        self._progress = note_version(self._progress, version)

    def _store_event(
        self, kind: str, uid: str, version: str, value: Mapping[str, Any]
    ) -> list[ObjectChange]:
        trimmed = self._cut(value)
        if kind == DELETED:
            self._versions.pop(uid, None)
            return [] if trimmed is None else self._store.remove(uid, trimmed)
        if trimmed is None:
            self._versions.pop(uid, None)  # the next list reads the object again
            return []
        self._versions[uid] = version
        return self._store.set(uid, trimmed)

    def _cut(self, value: Mapping[str, Any]) -> Mapping[str, Any] | None:
        trimmed = self._trim(value)
        return None if trimmed is None else dict(share_texts(trimmed))

    def _report(self, changes: Sequence[ObjectChange]) -> None:
        if not changes:
            return
        try:
            self._on_change(changes)
        except Exception:  # noqa: BLE001 - the error is the caller's
            _LOG.exception("cannot act on changed objects of %s; continuing", self._path)

    def _note_answer(self) -> None:
        if self.away_since_s is not None:
            _LOG.warning("the API server lists %s again", self._path)
            self.away_since_s, self.reason = None, ""

    def _note_error(self, error: ApiAway | ApiRefused) -> None:
        if isinstance(error, ApiRefused) and error.is_expired:
            _LOG.info("the version of %s has expired; listing anew", self._path)
            self._progress = note_failure(self._progress, StepOutcome.EXPIRED)
            return
        is_denied = isinstance(error, ApiRefused) and error.is_denied
        outcome = StepOutcome.DENIED if is_denied else StepOutcome.FAILED
        self._progress = note_failure(self._progress, outcome)
        self.reason = str(error)
        is_closed = self._closing.is_set() or isinstance(error, ClientClosed)
        if self.away_since_s is None and not is_closed:
            _LOG.warning("cannot list %s: %s; retrying", self._path, self.reason)
            self.away_since_s = time.time()
