"""Follows the rows of jobs that have not ended, also over a restart of the server."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainshed.client.collections import pages, path_of
from trainshed.client.faults import Json, Unreachable
from trainshed.client.following import PAUSE_S_MAX, RETURN_S_MAX

if TYPE_CHECKING:
    from trainshed.client.http import Server

_STREAM = path_of("trainshed", "v1", "stream")
_PAGE_SIZE = 5000


@dataclass(slots=True)
class JobChanges:
    """Yields the rows of a project's open jobs, and each row again when it changes.

    ``project`` ``-`` means all projects of the caller.  ``note`` prints messages about the
    connection.
    """

    server: "Server"
    project: str
    note: Callable[[str], None]
    pause: Callable[[float], Any] = time.sleep
    _rows: dict[str, Json] = field(default_factory=dict, init=False)
    _reached_s: float | None = field(default=None, init=False)
    """When the server last sent something, on the monotonic clock; None: never."""

    def rows(self) -> Iterator[Json]:
        """Yield rows without end.  Raises ServerRefusal, and Unreachable after a minute."""
        while True:
            try:
                for name, data in self.server.events(_STREAM, {"topic": f"queue:{self.project}"}):
                    self._reached_s = time.monotonic()
                    yield from self._rows_of(name, data)
            except Unreachable:
                if self._reached_s is None or time.monotonic() > self._reached_s + RETURN_S_MAX:
                    raise
            self.note("the server has ended the stream; trying again")
            self.pause(PAUSE_S_MAX)

    def _rows_of(self, name: str, data: Json) -> Iterator[Json]:
        if name == "away":
            self.note(str(data["message"]))
        elif name in {"ready", "resync"}:
            yield from self._read_again()
        elif name == "queue":
            yield from self._take({str(row["uid"]): row for row in data["jobs"]})

    def _read_again(self) -> Iterator[Json]:
        """Yield the open jobs that are new or have changed, and those that have ended since."""
        path = path_of("trainshed", "v1", "projects", self.project, "jobs")
        query = {"pageSize": _PAGE_SIZE}
        is_open = {"open": "true", **query}
        rows = {str(row["uid"]): row for row in pages(self.server, path, "jobs", is_open)}
        if missing := self._rows.keys() - rows.keys():
            newest = self.server.call("GET", path, None, query)["jobs"]
            rows |= {str(row["uid"]): row for row in newest if str(row["uid"]) in missing}
        yield from self._take(rows)

    def _take(self, rows: Mapping[str, Json]) -> Iterator[Json]:
        for uid, row in reversed(list(rows.items())):
            if self._rows.get(uid) != row:
                yield row
            if "endTime" in row:
                self._rows.pop(uid, None)
            else:
                self._rows[uid] = row
