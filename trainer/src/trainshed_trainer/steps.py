"""Records the durations of training steps in memory and writes them to a file once a second.

Trainshed reads the file to plan other clusters.  Recording costs about a microsecond a step and
never raises: a failure to write this file must not end a training.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable

from trainshed_trainer import contract
from trainshed_trainer.files import write_whole

#: The version of the file's format.
VERSION = 1
#: The number of the first steps, and of the last steps, that the file lists one by one.
KEPT = 256
#: Seconds between two writes of the file.
THROTTLE_S = 1.0


class StepTimes:
    """The durations of one process's steps.  Safe to call from several threads."""

    def __init__(self, path: Path) -> None:
        """Write the durations to ``path``."""
        self._path = path
        self._lock = threading.Lock()
        self._processes = _count_processes()
        self._steps = 0
        self._samples = 0.0
        self._last: tuple[float, int | None] | None = None
        self._first_at = self._last_at = 0.0
        self._first: list[tuple[float, float]] = []
        self._recent: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self._micro_batches: deque[int] = deque(maxlen=KEPT)
        self._model: dict[str, Any] = {}
        self._written_at = 0.0
        self.is_hooked = False
        """Whether hooks record the steps; ``progress`` does not record them then."""
        self.watch: Any = None
        """Called at each write with the time and the newest steps as (duration, wait) pairs."""
        self.read_device_bytes: Callable[[], float] = float
        """Returns the most bytes of a device's memory that were in use so far; 0 if unknown."""

    def note(self, step: int | None = None, samples: float = 0.0, waited_s: float = 0.0) -> None:
        """Record the end of a step.  If step numbers jump, the steps between share the time.

        ``samples`` counts this process's samples, 0 if unknown; the replica's other processes train
        on as many.  ``waited_s`` is how long the process waited for input since the last call.
        """
        now = time.monotonic()
        with self._lock:
            self._record(now, step, samples, waited_s)
            is_due = now - self._written_at >= THROTTLE_S
            if is_due:
                self._written_at = now
        if is_due:
            self.write()
            if self.watch:
                self.watch(now, tuple(self._recent))

    def describe(self, **model: Any) -> None:
        """Record the model: ``parameters``, ``largest``, ``gradient_bytes``, ``stack``.

        Also ``device``, ``cpu`` or ``cuda``, and ``state_bytes``: the bytes of parameters,
        gradients and the optimizer's state.
        Hooks call this at the start of each training; the next ``note`` only starts the clock.
        """
        with self._lock:
            self._model.update(model)
            self.is_hooked, self._last = True, None

    def add_micro_batches(self, count: int) -> None:
        """Record the micro batches of a step (gradient accumulation); 0 if unknown."""
        with self._lock:
            self._micro_batches.append(count)

    def leave(self) -> None:
        """Record that hooks were turned off, so that ``progress`` records steps again."""
        with self._lock:
            self.is_hooked, self._last = False, None

    def _record(self, now: float, step: int | None, samples: float, waited_s: float) -> None:
        previous, self._last = self._last, (now, step)
        self._last_at = time.time()
        if previous is None:
            self._first_at = self._first_at or self._last_at
            return
        count = 1 if step is None or previous[1] is None else step - previous[1]
        if count < 1:  # the same step again, or a count that started again
            return
        self._steps += count
        self._samples += samples * self._processes
        duration_and_wait = ((now - previous[0]) / count, waited_s / count)
        if len(self._first) < KEPT:
            self._first.append(duration_and_wait)
        self._recent.append(duration_and_wait)

    def write(self) -> None:
        """Write the file; errors are ignored."""
        with suppress(OSError, TypeError, ValueError):
            with self._lock:
                text = json.dumps(self._render())
            write_whole(self._path, lambda out: out.write(text.encode()), durable=False)

    def _render(self) -> dict[str, Any]:
        counts = sorted(filter(None, self._micro_batches))
        return {
            "version": VERSION,
            "steps": self._steps,
            "samples": self._samples,
            "first_at": self._first_at,
            "last_at": self._last_at,
            "first": [_round_step(step) for step in self._first],
            "recent": [_round_step(step) for step in self._recent],
            "micro_batches": counts[len(counts) // 2] if counts else 0,
            "host_bytes": _peak_host_bytes(),
            "device_bytes": self.read_device_bytes(),
            "model": self._model,
        }


def _round_step(duration_and_wait: tuple[float, float]) -> list[float]:
    return [float(f"{value:.6g}") for value in duration_and_wait]


def _peak_host_bytes() -> float:
    """Return the most memory that this process had in use, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024)


def _count_processes() -> int:
    """Return how many processes torchrun has started for this replica."""
    with suppress(ValueError):
        return max(1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1))
    return 1


_TIMES: dict[str, StepTimes] = {}
_LOCK = threading.Lock()


def step_times() -> StepTimes | None:
    """Return the recorder of this process's steps; None outside of Trainshed.

    Only the first process of a replica records: all processes of a replica have the same steps.
    """
    path = os.environ.get(contract.TRAINSHED_STEPS_FILE)
    if not path or os.environ.get("LOCAL_RANK", "0") != "0":
        return None
    times = _TIMES.get(path)
    if times is None:
        with _LOCK:
            times = _TIMES.get(path)
            if times is None:
                times = _TIMES[path] = StepTimes(Path(path))
                atexit.register(times.write)
    return times
