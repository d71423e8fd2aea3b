"""Sends spans from a bounded queue, on one thread, to a collector that may be slow or away.

Threads that answer requests only add to the queue; when it is full, new spans are dropped and
counted.  The thread also asks a source for spans that the store still has, such as those of jobs:
these wait in the store while the collector is away, and none of them is lost.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, Protocol

from trainshed.observability.spans import TraceSpan

_LOG = logging.getLogger(__name__)

#: The most spans that wait.
QUEUE_MAX: Final = 2048
#: The most spans of one request to the collector.
BATCH_MAX: Final = 512
#: Seconds between two looks at the queue and the source.
EVERY_S: Final = 1.0
#: The share of a processor that spans from the queue may take, and as much for stored spans.
SHARE: Final = 0.015
#: The longest rest in seconds after stored spans were sent; the next ones wait in the store.
REST_S_MAX: Final = 60.0
#: Seconds between two log lines about the same trouble.
LOG_EVERY_S: Final = 300.0
#: Seconds that ``stop`` waits for the last request to the collector.
END_S: Final = 2.0


class Sent(Enum):
    """What became of a batch."""

    DONE = "DONE"
    AWAY = "AWAY"
    """The collector did not answer, or its answer says to try again."""
    REFUSED = "REFUSED"
    """The collector will never accept this batch."""


class Collector(Protocol):
    """Where spans go."""

    @property
    def name(self) -> str:
        """The address, without credentials."""

    def send(self, spans: Sequence[TraceSpan]) -> Sent:
        """Send spans; takes at most some ten seconds.  Raises nothing."""

    def close(self) -> None:
        """End a request that waits; callable from another thread."""


class SpanSource(Protocol):
    """Spans that are stored elsewhere until they are sent."""

    def next_spans(self) -> Sequence[TraceSpan]:
        """Return the spans that follow those of the last ``note_sent``; empty if none is due."""

    def note_sent(self) -> None:
        """Store that the last ``next_spans`` were sent, or that no collector will accept them."""


class SpanExporter:
    """The queue and its thread."""

    def __init__(
        self,
        make_collector: Callable[[], Collector],
        *,
        queue_max: int = QUEUE_MAX,
        every_s: float = EVERY_S,
        share: float = SHARE,
    ) -> None:
        """``make_collector`` is called on the thread, because it imports OpenTelemetry."""
        self._make_collector = make_collector
        self._collector: Collector | None = None
        self._source: SpanSource | None = None
        self._spans: deque[TraceSpan] = deque()
        self._queue_max = queue_max
        self._every_s = every_s
        self._share = share
        self._dropped = 0
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._logged_at = float("-inf")
        self._stored_at = 0.0
        self._thread = threading.Thread(target=self._run, name="span-exporter", daemon=True)

    @property
    def dropped(self) -> int:
        """The number of spans that were dropped since the start of the process."""
        return self._dropped

    @property
    def is_crowded(self) -> bool:
        """Whether the queue is half full: callers then leave out parts of requests."""
        return len(self._spans) * 2 > self._queue_max

    def add(self, spans: Sequence[TraceSpan]) -> None:
        """Send these spans later, or drop and count them; cheap, callable from any thread."""
        room = self._queue_max - len(self._spans)
        self._spans.extend(spans[: max(0, room)])
        if len(spans) > room:
            self._drop(len(spans) - max(0, room))

    def start(self, source: SpanSource | None = None) -> None:
        """Start the thread.  ``source`` has further spans to send."""
        self._source = source
        self._thread.start()

    def stop(self) -> None:
        """Send what waits, for at most ``END_S`` seconds."""
        self._ending.set()
        if self._thread.ident is None:
            return
        self._thread.join(END_S)
        if self._thread.is_alive() and self._collector is not None:
            self._collector.close()

    def _run(self) -> None:
        try:
            self._collector = collector = self._make_collector()
        except Exception as error:  # noqa: BLE001 - logged; the server goes on without traces
            _LOG.warning("cannot start sending traces: %s", error)
            return
        while True:
            if is_last := self._ending.is_set():
                self._stored_at = 0.0
            self._turn(collector)
            if is_last:
                collector.close()
                return
            self._ending.wait(self._every_s)

    def _turn(self, collector: Collector) -> None:
        """Send what waits in the queue and in the source; log what fails."""
        try:
            self._send_queue(collector)
            self._send_stored(collector)
        except Exception as error:  # noqa: BLE001 - logged; the thread continues
            self._warn(f"sending traces failed: {error!r}; retrying")

    def _send_queue(self, collector: Collector) -> None:
        for _ in range(self._queue_max // BATCH_MAX):
            batch = [self._spans.popleft() for _ in range(min(BATCH_MAX, len(self._spans)))]
            if not batch:
                return
            began = time.thread_time()
            is_lost = self._is_trouble(collector, collector.send(batch))
            self._rest(time.thread_time() - began)
            if is_lost:
                self._drop(len(batch))
                return

    def _send_stored(self, collector: Collector) -> None:
        """Send the next stored spans, if the last ones were long enough ago."""
        source = self._source
        if source is None or time.monotonic() < self._stored_at:
            return
        began = time.thread_time()
        spans = source.next_spans()
        if spans and self._send_all(collector, spans):
            source.note_sent()
        rest_s = min(REST_S_MAX, (time.thread_time() - began) / self._share)
        self._stored_at = time.monotonic() + rest_s

    def _send_all(self, collector: Collector, spans: Sequence[TraceSpan]) -> bool:
        """Send spans in batches; return False if they must be sent again."""
        for start in range(0, len(spans), BATCH_MAX):
            result = collector.send(spans[start : start + BATCH_MAX])
            if self._is_trouble(collector, result) and result is Sent.AWAY:
                return False
        return True

    def _rest(self, took_s: float) -> None:
        """Leave the processor to the threads that answer requests."""
        self._ending.wait(min(self._every_s, took_s / self._share))

    def _is_trouble(self, collector: Collector, result: Sent) -> bool:
        """Return whether a batch did not arrive, and log it."""
        if result is Sent.REFUSED:
            self._warn(f"the collector {collector.name} refused traces; they are dropped")
        elif result is Sent.AWAY:
            self._warn(
                f"cannot send traces to {collector.name}: it does not answer; spans of requests "
                "are dropped meanwhile, spans of jobs are sent later"
            )
        return result is not Sent.DONE

    def _drop(self, count: int) -> None:
        with self._lock:
            self._dropped += count

    def _warn(self, message: str) -> None:
        if time.monotonic() - self._logged_at >= LOG_EVERY_S:
            self._logged_at = time.monotonic()
            _LOG.warning("%s", message)
