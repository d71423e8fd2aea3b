"""Watches: the events of a kind from a version on, as one selector sees them, until a time."""

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from .history import Happening, Record
from .requests import Request, Target
from .selectors import match_fields, match_labels, parse_fields, parse_selector
from .statuses import ApiError, BadRequest
from .store import Store

Body = dict[str, Any]
#: Seconds after which the server ends a watch that names no time.
_LONG_S = 1800.0
#: The bookmark before the end of a watch comes so many seconds earlier.
_BEFORE_END_S = 2.0
_INITIAL_END = "k8s.io/initial-events-end"


class Watch:
    """One watch; ``is_ended`` says that the server or a test ends it."""

    def __init__(
        self,
        store: Store,
        request: Request,
        target: Target,
        *,
        bookmark_s: float,
        is_ended: Callable[[], bool],
    ) -> None:
        self._store = store
        self._kind = target.resource.kind
        self._target = target
        self._labels = parse_selector(request.query.get("labelSelector", ""))
        self._fields = request.query.get("fieldSelector", "")
        parse_fields(self._kind, self._fields)
        self._is_ended = is_ended
        self._has_bookmarks = request.query.get("allowWatchBookmarks") in ("1", "true")
        self._wants_initial = request.query.get("sendInitialEvents") == "true"
        self._bookmark_s = bookmark_s
        wanted_s = request.get_seconds("timeoutSeconds")
        self._end = time.monotonic() + (wanted_s or _LONG_S * random.uniform(1, 2))  # noqa: S311
        self._version, self._initial = self._start(request.query.get("resourceVersion", ""))

    def _start(self, text: str) -> tuple[int, list[Record]]:
        """The version to go on from, and the objects that come first as ADDED."""
        if text and not text.isdigit():
            raise BadRequest(f"Invalid value: {text!r}: resourceVersion is not valid")
        if text in ("", "0") or self._wants_initial:
            records, version = self._store.list_records(self._kind, self._target.namespace or None)
            return version, records
        return int(text), []

    def iterate(self) -> Iterator[Body | None]:
        """Events of the stream; None means that nothing came for a while."""
        for record in self._initial:
            if self._sees(record):
                yield {"type": "ADDED", "object": record.shared}
        if self._wants_initial:
            yield self._make_bookmark({_INITIAL_END: "true"})
        yield from self._follow()

    def _follow(self) -> Iterator[Body | None]:
        next_bookmark = self._plan_bookmark()
        while not self._is_ended():
            try:
                yield from self._read()
            except ApiError as error:
                yield {"type": "ERROR", "object": error.status}
                return
            now = time.monotonic()
            if now >= self._end:
                return
            if now >= next_bookmark:
                next_bookmark = now + self._bookmark_s
                if self._has_bookmarks:
                    yield self._make_bookmark()
            limit = max(min(self._end, next_bookmark) - time.monotonic(), 0.0)
            self._store.history.wait(self._kind, self._version, min(limit, 1.0))
            yield None

    def _plan_bookmark(self) -> float:
        before_end = self._end - _BEFORE_END_S
        return min(time.monotonic() + self._bookmark_s, max(before_end, time.monotonic() + 0.05))

    def _read(self) -> Iterator[Body]:
        happenings, self._version = self._store.history.read(self._kind, self._version)
        for happening in happenings:
            if event := self._see(happening):
                yield event

    def _see(self, happening: Happening) -> Body | None:
        """The event as the selector sees it: entering it is ADDED, leaving it DELETED."""
        record, old = happening.record, happening.old
        is_seen, was_seen = self._sees(record), old is not None and self._sees(old)
        if happening.type == "DELETED":
            return {"type": "DELETED", "object": record.shared} if was_seen or is_seen else None
        if is_seen:
            return {"type": "MODIFIED" if was_seen else "ADDED", "object": record.shared}
        return {"type": "DELETED", "object": record.shared} if was_seen else None

    def _sees(self, record: Record) -> bool:
        metadata = record.shared["metadata"]
        return (
            (not self._target.namespace or metadata.get("namespace") == self._target.namespace)
            and (not self._target.name or metadata["name"] == self._target.name)
            and match_labels(self._labels, record.shared)
            and match_fields(self._kind, self._fields, record.shared)
        )

    def _make_bookmark(self, annotations: dict[str, str] | None = None) -> Body:
        metadata: Body = {"resourceVersion": str(self._version)}
        if annotations:
            metadata["annotations"] = annotations
        resource = self._target.resource
        return {
            "type": "BOOKMARK",
            "object": {
                "apiVersion": resource.get_api_version(self._target.version),
                "kind": resource.kind,
                "metadata": metadata,
            },
        }
