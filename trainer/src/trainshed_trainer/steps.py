"""How long the steps of a training take: noted in memory, written to a file once a second.

Who reads the file plans other clusters with it.  It costs about a microsecond a step and never
fails: a training must not end for want of this file.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainshed_trainer import contract
from trainshed_trainer.files import write_whole

#: The only version of the file there is.
VERSION = 1
#: So many of the first steps and as many of the last ones are kept one by one.
KEPT = 256
#: The file changes no more often than this, in seconds.
THROTTLE_S = 1.0


class StepTimes:
    """The times of one process's steps.  Safe to call from several threads."""

    def __init__(self, path: Path) -> None:
        """``path`` is where they are written."""
        self._path = path
        self._lock = threading.Lock()
        self._processes = _processes()
        self._steps = 0
        self._samples = 0.0
        self._last: tuple[float, int | None] | None = None
        self._first_at = self._last_at = 0.0
        self._first: list[tuple[float, float]] = []
        self._recent: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self._model: dict[str, Any] = {}
        self._written = 0.0
        self.is_hooked = False
        """Hooks note the steps, so that ``progress`` does not."""
        self.watch: Any = None
        """Called with the time and the newest steps, each with its wait, at each write."""

    def note(self, step: int | None = None, samples: float = 0.0, waited_s: float = 0.0) -> None:
        """Note that a step is over.  Where numbers of steps jump, the time is shared out.

        ``samples`` is what this process trained on, 0 where nobody knows: the others of its replica
        do as much, each on its own accelerator.  ``waited_s`` is how long it waited for its input,
        of the time since the last call.
        """
        now = time.monotonic()
        with self._lock:
            self._take(now, step, samples, waited_s)
            is_due = now - self._written >= THROTTLE_S
            if is_due:
                self._written = now
        if is_due:
            self.write()
            if self.watch:
                self.watch(now, tuple(self._recent))

    def describe(self, **model: Any) -> None:
        """Say what is trained: ``parameters``, ``largest``, ``gradient_bytes``, ``stack``.

        Hooks say so, of each training that they see: what is noted next ends no step.
        """
        with self._lock:
            self._model.update(model)
            self.is_hooked, self._last = True, None

    def leave(self) -> None:
        """Say that hooks note no more steps."""
        with self._lock:
            self.is_hooked, self._last = False, None

    def _take(self, now: float, step: int | None, samples: float, waited_s: float) -> None:
        before, self._last = self._last, (now, step)
        self._last_at = time.time()
        if before is None:
            self._first_at = self._first_at or self._last_at
            return
        count = 1 if step is None or before[1] is None else step - before[1]
        if count < 1:  # the same step again, or a count that began anew
            return
        self._steps += count
        self._samples += samples * self._processes
        one = ((now - before[0]) / count, waited_s / count)
        if len(self._first) < KEPT:
            self._first.append(one)
        self._recent.append(one)

    def write(self) -> None:
        """Write what is known so far, if that can be written."""
        with suppress(OSError, TypeError, ValueError):
            with self._lock:
                text = json.dumps(self._document())
            write_whole(self._path, lambda out: out.write(text.encode()), durable=False)

    def _document(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "steps": self._steps,
            "samples": self._samples,
            "first_at": self._first_at,
            "last_at": self._last_at,
            "first": [_rounded(one) for one in self._first],
            "recent": [_rounded(one) for one in self._recent],
            "model": self._model,
        }


def _rounded(one: tuple[float, float]) -> list[float]:
    return [float(f"{value:.6g}") for value in one]


def _processes() -> int:
    """How many processes torchrun has started for this replica."""
    with suppress(ValueError):
        return max(1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1))
    return 1


_TIMES: dict[str, StepTimes] = {}
_LOCK = threading.Lock()


def step_times() -> StepTimes | None:
    """What notes the steps of this process; None outside of Trainshed.

    Of the processes of one replica the first alone writes: their steps are the same.
    """
    named = os.environ.get(contract.TRAINSHED_STEPS_FILE)
    if not named or os.environ.get("LOCAL_RANK", "0") != "0":
        return None
    times = _TIMES.get(named)
    if times is None:
        with _LOCK:
            times = _TIMES.get(named)
            if times is None:
                times = _TIMES[named] = StepTimes(Path(named))
                atexit.register(times.write)
    return times
