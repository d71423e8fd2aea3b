"""Steps that a trainer tells by what it prints: for trainers that no hook and no library sees."""

import re
import time
from collections.abc import Callable
from typing import Final

from trainshed.engines.base import OutputSink, Stream
from trainshed.model.faults import UsageFault
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.step_times import KEPT, StepTimes

#: No line is looked at beyond this: a pattern may take long over a long one.
_LINE_MAX: Final = 1000


def step_pattern(text: str) -> re.Pattern[str]:
    """A pattern with a group ``step``.  Raises UsageFault for any other."""
    try:
        found = re.compile(text)
    except re.error as error:
        raise UsageFault(f"--step-pattern {text!r} is no regular expression: {error}") from None
    if "step" not in found.groupindex:
        raise UsageFault(
            f"--step-pattern {text!r} has no group named step; such as 'step (?P<step>[0-9]+)'"
        )
    return found


class StepLines:
    """Passes lines on, and notes when those of one replica tell of a new step."""

    def __init__(
        self,
        sink: OutputSink,
        pattern: re.Pattern[str],
        task_name: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``task_name`` is the replica that is listened to; ``clock`` counts seconds."""
        self._sink = sink
        self._pattern = pattern
        self._task_name = task_name
        self._clock = clock
        self._last: tuple[float, int] | None = None
        self._steps: list[tuple[int, float]] = []

    def line(self, replica: ReplicaPlan, text: str, stream: Stream) -> None:
        """Take one line of a replica."""
        if replica.task_name == self._task_name:
            found = self._pattern.search(text[:_LINE_MAX])
            if found and found["step"] and found["step"].isdecimal():
                self._take(int(found["step"]))
        self._sink.line(replica, text, stream)

    def note(self, text: str) -> None:
        """Take one line of the engine."""
        self._sink.note(text)

    def _take(self, step: int) -> None:
        now = self._clock()
        if self._last is not None and step > self._last[1]:
            count = step - self._last[1]
            self._steps.append((count, (now - self._last[0]) / count))
        self._last = (now, step)

    @property
    def times(self) -> StepTimes | None:
        """What was heard; None where nothing was."""
        if not self._steps:
            return None
        each = tuple(seconds for _, seconds in self._steps)
        return StepTimes(
            steps=sum(count for count, _ in self._steps),
            first_s=each[:KEPT],
            first_waits_s=(0.0,) * len(each[:KEPT]),
            recent_s=each[-KEPT:],
            recent_waits_s=(0.0,) * len(each[-KEPT:]),
        )
