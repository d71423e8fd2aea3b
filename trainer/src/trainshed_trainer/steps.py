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
#: The largest step number that counts; a program may pass any number.
NUMBER_MAX = 10**15
#: A step that takes more than this many times the median has stalled.
STALL_FACTOR = 10.0


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
        self._first_at = self._last_at = self._first_now = 0.0
        self._first_number: int | None = None
        self._last_number: int | None = None
        self._checkpoint_number: int | None = None
        self._checkpoint_at = 0.0
        self._numbered = 0
        self._is_counted = True  # until the program reports a number
        self._stalled_s = self._saving_s = self._saved_since_s = self._typical_s = 0.0
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
                self._typical_s = _median(self._recent)
        if is_due:
            self.write()
            if self.watch:
                self.watch(now, tuple(self._recent))

    def number(self, step: int, *, counted: bool = False) -> None:
        """Record the job's own number of the newest step, which continues after a restart.

        A number below the last one begins again.  One of the program replaces ``counted`` ones.
        """
        if not 0 <= step <= NUMBER_MAX or (counted and not self._is_counted):
            return
        if not counted:
            self.forget_counts()
        with self._lock:
            self._is_counted = counted
            if self._first_number is None:
                self._first_number = self._last_number = step
            self._numbered += max(0, step - (self._last_number or 0))
            self._last_number = step

    def forget_counts(self) -> None:
        """Drop the numbers that a hook has counted."""
        with self._lock:
            if self._is_counted:
                self._first_number = self._last_number = None
                self._numbered = 0

    def add_saving(self, seconds: float) -> None:
        """Record how long the process has saved checkpoints since the last step was noted."""
        if 0 < seconds < NUMBER_MAX:
            with self._lock:
                self._saving_s += seconds
                self._saved_since_s += seconds

    def saved(self, step: int) -> None:
        """Record that a checkpoint of a step is complete, and write the file."""
        with suppress(Exception):  # as everywhere here: nothing ends a training
            if step <= NUMBER_MAX:
                self._checkpoint_number, self._checkpoint_at = step, time.time()
                self.write()

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
        saving_s, self._saved_since_s = self._saved_since_s, 0.0
        if not self._first_at:
            self._first_at, self._first_now = time.time(), now
        self._last_at = self._first_at + now - self._first_now  # even if the clock was set
        if previous is None:
            return
        count = 1 if step is None or previous[1] is None else step - previous[1]
        if not 1 <= count <= NUMBER_MAX:  # the same step, a count that began again, or nonsense
            return
        self._steps += count
        self._samples += samples * self._processes
        duration_and_wait = ((now - previous[0]) / count, waited_s / count)
        self._add_stall(now - previous[0] - saving_s, count)
        if len(self._first) < KEPT:
            self._first.append(duration_and_wait)
        self._recent.append(duration_and_wait)

    def _add_stall(self, seconds: float, count: int) -> None:
        """Count the time of steps that took much longer than the median."""
        typical_s = self._typical_s * count
        if typical_s and seconds > STALL_FACTOR * typical_s:
            self._stalled_s += seconds - typical_s

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
            "first_step": self._first_number,
            "last_step": self._last_number,
            "numbered": self._numbered,
            "counted": self._is_counted and self._first_number is not None,
            "checkpoint_step": self._checkpoint_number,
            "checkpoint_at": self._checkpoint_at,
            "stalled_s": self._stalled_s,
            "saving_s": self._saving_s,
            "first": [_round_step(step) for step in self._first],
            "recent": [_round_step(step) for step in self._recent],
            "micro_batches": counts[len(counts) // 2] if counts else 0,
            "host_bytes": _peak_host_bytes(),
            "device_bytes": self.read_device_bytes(),
            "model": self._model,
        }


def _round_step(duration_and_wait: tuple[float, float]) -> list[float]:
    return [float(f"{value:.6g}") for value in duration_and_wait]


def _median(recent: deque[tuple[float, float]]) -> float:
    """Return the median duration of steps; 0 without a step."""
    durations = sorted(duration for duration, _ in recent)
    return durations[len(durations) // 2] if durations else 0.0


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
