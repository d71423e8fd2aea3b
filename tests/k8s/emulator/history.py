"""Versions and past events of the store: what a watch reads, and how far back it may read."""

import json
import threading
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .statuses import Expired


class Record:
    """One version of an object.  ``shared`` is never changed; ``load`` makes a copy."""

    __slots__ = ("_bare_text", "shared", "text", "version")

    def __init__(self, version: int, obj: Mapping[str, Any]) -> None:
        self.version = version
        self.text = json.dumps(obj, separators=(",", ":"))
        self.shared: dict[str, Any] = json.loads(self.text)
        self._bare_text = ""

    @property
    def bare_text(self) -> str:
        """JSON without kind and version, as items of lists of core kinds are."""
        if not self._bare_text:
            bare = {k: v for k, v in self.shared.items() if k not in ("apiVersion", "kind")}
            self._bare_text = json.dumps(bare, separators=(",", ":"))
        return self._bare_text

    def load(self) -> dict[str, Any]:
        copy: dict[str, Any] = json.loads(self.text)
        return copy


@dataclass(frozen=True, slots=True)
class Happening:
    """One write: ADDED, MODIFIED or DELETED, the object after it and before it."""

    version: int
    type: str
    record: Record
    old: Record | None = None


class History:
    """The last ``limit`` events of each kind; older ones are gone, and watches of them Expired."""

    def __init__(self, lock: threading.RLock, limit: int) -> None:
        self.limit = limit
        self.version = 0
        self._lock = lock
        self._events: defaultdict[str, deque[Happening]] = defaultdict(deque)
        self._first: defaultdict[str, int] = defaultdict(int)
        self._compacted = 0
        self._changes: dict[str, threading.Condition] = {}

    def take_version(self) -> int:
        self.version += 1
        return self.version

    def add(self, kind: str, happening: Happening) -> None:
        events = self._events[kind]
        events.append(happening)
        while len(events) > self.limit:
            self._first[kind] = events.popleft().version
        self._get_condition(kind).notify_all()

    def compact(self) -> None:
        """Forget all past events: watches that did not read them yet get 410."""
        with self._lock:
            self._compacted = self.version
            for events in self._events.values():
                events.clear()

    def read(self, kind: str, after: int) -> tuple[list[Happening], int]:
        """Events of a kind after a version, and the version up to which they are all.

        Expired means that some of them are gone.
        """
        with self._lock:
            oldest = max(self._first[kind], self._compacted)
            if after < oldest:
                raise Expired(f"too old resource version: {after} ({oldest})")
            events = self._events[kind]
            rows: list[Happening] = []
            for happening in reversed(events):
                if happening.version <= after:
                    break
                rows.append(happening)
            version = max(self.version, after)
        rows.reverse()
        return rows, version

    def wait(self, kind: str, after: int, timeout_s: float) -> None:
        """Return when a kind has an event after a version, on ``wake``, or after the time."""
        condition = self._get_condition(kind)
        with self._lock:
            events = self._events[kind]
            if not events or events[-1].version <= after:
                condition.wait(timeout_s)

    def wake(self) -> None:
        """Let all waiting watches look again: the server stops, or a fault came."""
        with self._lock:
            for condition in self._changes.values():
                condition.notify_all()

    def _get_condition(self, kind: str) -> threading.Condition:
        with self._lock:
            if kind not in self._changes:
                self._changes[kind] = threading.Condition(self._lock)
            return self._changes[kind]
