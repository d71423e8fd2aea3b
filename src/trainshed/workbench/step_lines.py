"""Steps that a trainer tells by what it prints: for trainers that no hook and no library sees.

Lines come in batches: what was written while the machine did something else arrives at once.  So
lines that came together are one reading, and the time since those before is shared among its steps.
"""

import re
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from trainshed.engines.base import OutputSink, Stream
from trainshed.model.faults import UsageFault
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.step_times import KEPT, StepTimes

#: No line is looked at beyond this: a pattern may take long over a long one.
_LINE_MAX: Final = 1000
#: Lines closer than this came together, in seconds.
_TOGETHER_S: Final = 0.001
_NANO: Final = 1e-9
_SHOWN_MAX: Final = 40


def step_pattern(text: str) -> re.Pattern[str]:
    """A pattern with a group ``step``.  Raises UsageFault for any other."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UsageFault(
            f"--step-pattern must be a regular expression, got {text!r}: {error}"
        ) from None
    if "step" not in pattern.groupindex:
        raise UsageFault(
            f"--step-pattern {text!r} has no group named step; such as 'step (?P<step>[0-9]+)'"
        )
    return pattern


class _Reading(NamedTuple):
    """Lines that came together: when the first did, and the step of the last."""

    at_s: float
    step: int


class StepLines:
    """Passes lines on, and records the time of each line of one replica that reports a new step."""

    def __init__(
        self,
        sink: OutputSink,
        pattern: re.Pattern[str] | None,
        task_name: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``task_name`` is the replica that is listened to; None for a pattern: no line tells.

        ``clock`` counts seconds, for lines without a stamp.
        """
        self._sink = sink
        self._pattern = pattern
        self._task_name = task_name
        self._clock = clock
        self._stamp_s: float | None = None
        self._before: _Reading | None = None
        self._now: _Reading | None = None
        self._steps: list[tuple[int, float]] = []
        self._matched = self._numbers = 0
        self._rose = False
        self._word = ""

    def stamp(self, stamp_ns: int) -> None:
        """Take the time of the line that comes next; see ``engines.local.foreground``."""
        self._stamp_s = stamp_ns * _NANO

    def line(self, replica: ReplicaPlan, text: str, stream: Stream) -> None:
        """Take one line of a replica."""
        if self._pattern is not None and replica.task_name == self._task_name:
            match = self._pattern.search(text[:_LINE_MAX])
            if match:
                self._hear(match["step"] or "")
        self._stamp_s = None
        self._sink.line(replica, text, stream)

    def note(self, text: str) -> None:
        """Take one line of the engine."""
        self._sink.note(text)

    def _hear(self, word: str) -> None:
        self._matched += 1
        self._word = word[:_SHOWN_MAX]
        if word.isdecimal():
            self._numbers += 1
            at_s = self._clock() if self._stamp_s is None else self._stamp_s
            self._take(_Reading(at_s, int(word)))

    def _take(self, new: _Reading) -> None:
        now = self._now
        self._rose |= now is not None and new.step > now.step
        if now is None or new.step < now.step:  # the first, or a count that began anew
            self._close()
            self._before, self._now = None, new
        elif new.step > now.step and new.at_s - now.at_s < _TOGETHER_S:
            self._now = now._replace(step=new.step)
        elif new.step > now.step:
            self._close()
            self._before, self._now = now, new

    def _close(self) -> None:
        """No more lines come together with the newest ones."""
        if (step := _between(self._before, self._now)) is not None:
            self._steps.append(step)

    @property
    def times(self) -> StepTimes | None:
        """What was heard; None where nothing was."""
        newest = _between(self._before, self._now)
        steps = [*self._steps, *([newest] if newest else [])]
        if not steps:
            return None
        durations = tuple(seconds for _, seconds in steps)
        return StepTimes(
            steps=sum(count for count, _ in steps),
            first_s=durations[:KEPT],
            first_waits_s=(0.0,) * len(durations[:KEPT]),
            recent_s=durations[-KEPT:],
            recent_waits_s=(0.0,) * len(durations[-KEPT:]),
        )

    @property
    def why_none(self) -> str:
        """Explain why lines have reported no steps: how many matched, and their text."""
        if not self._matched:
            return "no line matches --step-pattern"
        lines = "1 line matches" if self._matched == 1 else f"{self._matched:,} lines match"
        return f"{lines} --step-pattern, and {self._fault}"

    @property
    def _fault(self) -> str:
        if not self._numbers:
            return f"their step is not a whole number, such as {self._word!r}"
        if self._numbers == 1:
            return "one step alone has no time"
        if not self._rose:
            return f"no step is larger than the one before it; the last was {self._word!r}"
        return "they came all at once"


def _between(before: _Reading | None, now: _Reading | None) -> tuple[int, float] | None:
    """Return how many steps are between two readings, and the duration of one step."""
    if before is None or now is None:
        return None
    count = now.step - before.step
    return count, (now.at_s - before.at_s) / count
