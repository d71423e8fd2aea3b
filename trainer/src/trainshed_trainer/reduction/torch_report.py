"""Writes the achieved rate of the reducers to a file for the job's summary, on rank 0.

The rate counts only the time in which an all-reduce was running.  The file also has the rate that
a ring would achieve over the same links.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

from trainshed_trainer.files import write_whole
from trainshed_trainer.reduction.client import Done
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.shares import Rates

#: Seconds between two writings.
INTERVAL_S = 10.0


def say(text: str) -> None:
    """Write a line to the replica's log."""
    sys.stderr.write(f"trainshed reduction: {text}\n")
    sys.stderr.flush()


class Meter:
    """Counts all-reduces, their bytes, and the seconds in which at least one was running."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way = 0
        self._since = 0.0
        self._seconds = 0.0
        self._rounds = 0
        self._bytes = 0

    def count_round(self, nbytes: int, done: Done) -> Done:
        """Start to count an all-reduce; the returned function ends the count and calls ``done``."""
        with self._lock:
            if not self._under_way:
                self._since = self._clock()
            self._under_way += 1

        def ended(error: ReductionError | None) -> None:
            self._end(0 if error else nbytes)
            done(error)

        return ended

    def totals(self) -> tuple[int, int, float]:
        """Return the rounds, bytes and seconds so far."""
        with self._lock:
            running = self._clock() - self._since if self._under_way else 0.0
            return self._rounds, self._bytes, self._seconds + running

    def _end(self, nbytes: int) -> None:
        with self._lock:
            self._under_way -= 1
            if not self._under_way:
                self._seconds += self._clock() - self._since
            if nbytes:
                self._rounds += 1
                self._bytes += nbytes


def document(meter: Meter, rates: Rates, *, world: int, reducers: int) -> dict[str, Any]:
    """Render the content of the file; rates are in Mbit/s."""
    rounds, nbytes, seconds = meter.totals()
    ring = world / (2 * (world - 1)) * rates.worker
    return {
        "version": 1,
        "world": world,
        "reducers": reducers,
        "rounds": rounds,
        "bytes": nbytes,
        "seconds": round(seconds, 6),
        "goodput_mbps": _mbps(nbytes / seconds if seconds else 0.0),
        "worker_link_mbps": _mbps(rates.worker),
        "reducer_link_mbps": [_mbps(rate) for rate in rates.reducers],
        "ring_mbps": _mbps(ring),
    }


class ReportWriter:
    """Writes the file every ten seconds in which something was reduced, and at the end."""

    def __init__(self, path: Path, content: Callable[[], dict[str, Any]]) -> None:
        """Start a thread that writes ``content()`` to ``path``."""
        self._path = path
        self._content = content
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write the file a last time, and end the thread."""
        if not self._closed.is_set():
            self._closed.set()
            self._thread.join()
            self._write()

    def _run(self) -> None:
        written = 0
        while not self._closed.wait(INTERVAL_S):
            rounds = self._content()["rounds"]
            if rounds != written:
                written = rounds
                self._write()

    def _write(self) -> None:
        text = json.dumps(self._content()).encode()
        try:
            write_whole(self._path, lambda out: out.write(text), durable=False)
        except OSError as error:
            say(f"cannot write {self._path}: {error}")


def _mbps(rate: float) -> float:
    return round(rate * 8 / 1e6, 3)
