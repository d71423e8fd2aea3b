"""Reads the events of a watch from a connection that stays open, with limits of time and bytes."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Self

from trainshed.engines.kubernetes.api.errors import ApiAway, parse_status
from trainshed.engines.kubernetes.api.requests import ByteSource

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
BOOKMARK: Final = "BOOKMARK"
_ERROR: Final = "ERROR"
_TYPES: Final = frozenset({ADDED, MODIFIED, DELETED, BOOKMARK})
#: Limit of one event: etcd stores objects of 1.5 MB, and JSON may write a byte as six.
LINE_BYTES_MAX: Final = 10 * 1024 * 1024
#: Seconds for which ``close`` waits for a read in another thread.
_CLOSE_S: Final = 2.0


class WatchStream(Iterator[Mapping[str, Any]]):
    """The events of one watch.  One thread iterates; any thread may close it."""

    def __init__(
        self,
        source: ByteSource,
        whole_s: float,
        on_close: Callable[["WatchStream"], None],
        line_bytes_max: int = LINE_BYTES_MAX,
    ) -> None:
        """``whole_s``: seconds after which the stream ends, whatever the API server sends."""
        self._source = source
        self._ends_s = time.monotonic() + whole_s
        self._on_close = on_close
        self._line_bytes_max = line_bytes_max
        self._lines = _LineBuffer()
        self._is_closed = False
        self._reading = threading.Lock()

    def __next__(self) -> Mapping[str, Any]:
        """Wait for the next event.

        Ends when the API server ends the watch, at the time limit, and after ``close``.  Raises
        ApiRefused for an event ERROR, such as an expired version, and ApiAway for a broken
        connection.
        """
        try:
            event = self._read_event()
        except BaseException:
            self.close()
            raise
        if event is None:
            self.close()
            raise StopIteration
        return event

    def __enter__(self) -> Self:
        """Return this stream."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the stream."""
        self.close()

    def close(self) -> None:
        """End the stream, also a read in another thread, within 2 seconds."""
        self._is_closed = True
        self._source.interrupt()
        if self._reading.acquire(timeout=_CLOSE_S):
            try:
                self._source.close()
            finally:
                self._reading.release()
        self._on_close(self)

    def _read_event(self) -> Mapping[str, Any] | None:
        """Wait for the next event; None: the stream has ended."""
        while not self._is_closed:
            line = self._lines.take()
            if line is not None and line.strip():
                return _parse_event(line)
            if line is None and not self._read_more():
                break
        return None

    def _read_more(self) -> bool:
        """Wait for bytes; return False at the end of the stream."""
        if time.monotonic() >= self._ends_s:
            return False
        try:
            with self._reading:
                chunk = b"" if self._is_closed else self._source.read()
        except ApiAway:
            if self._is_closed or time.monotonic() >= self._ends_s:
                return False
            raise
        self._lines.add(chunk)
        if len(self._lines) > self._line_bytes_max:
            raise ApiAway(f"a watch event must have at most {self._line_bytes_max} bytes, got more")
        return bool(chunk)


class _LineBuffer:
    """Bytes that have arrived, cut into lines."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._searched = 0

    def __len__(self) -> int:
        """Return the number of bytes without a line's end."""
        return self._searched

    def add(self, chunk: bytes) -> None:
        self._bytes += chunk
        if self._bytes.find(b"\n", self._searched) < 0:
            self._searched = len(self._bytes)

    def take(self) -> bytes | None:
        """Remove the first complete line; None: there is none."""
        end = self._bytes.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._bytes)
            return None
        line = bytes(self._bytes[:end])
        del self._bytes[: end + 1]
        self._searched = 0
        return line


def _parse_event(line: bytes) -> Mapping[str, Any]:
    """Read one line of a watch.  Raises ApiRefused for an ERROR, ApiAway for another text."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
        raise ApiAway("the API server sent a line that is no watch event")
    if event.get("type") == _ERROR:
        refusal = parse_status(event["object"])
        raise refusal or ApiAway("the API server ended a watch with an error that it does not name")
    if event.get("type") not in _TYPES:
        raise ApiAway(f"a watch event must be one of {sorted(_TYPES)}, got {event.get('type')!r}")
    return event
