"""Times the steps of a trainer by the lines it prints, where neither hook nor library reports them.

Several lines can arrive at once, for example when the machine was busy.  They count as one
reading, and the time since the previous reading is divided equally among its steps.
"""

import re
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from trainshed.engines.base import OutputSink, Stream
from trainshed.model.faults import UsageFault
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.step_times import KEPT, StepTimes

#: Only this many characters of a line are searched: a pattern can be slow on a long line.
_LINE_MAX: Final = 1000
#: Lines with fewer seconds between them are one reading.
_TOGETHER_S: Final = 0.001
_NANO: Final = 1e-9
#: The most characters of a step that a message quotes.
_QUOTED_MAX: Final = 40


def step_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern with a group ``step``.  Raises UsageFault for any other text."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UsageFault(
            f"--step-pattern must be a regular expression, got {text!r}: {error}"
        ) from None
    if "step" not in pattern.groupindex:
        raise UsageFault(
            f"--step-pattern must have a group named step, such as 'step (?P<step>[0-9]+)', "
            f"got {text!r}"
        )
    return pattern


class _Reading(NamedTuple):
    """Lines that arrived at once: the time of the first, and the step of the last."""

    at_s: float
    step: int


class StepLines:
    """Passes all lines on to a sink, and times the steps that one replica prints."""

    def __init__(
        self,
        sink: OutputSink,
        pattern: re.Pattern[str] | None,
        task_name: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``task_name`` names the replica whose lines are searched; None as pattern: no line is.

        ``clock`` returns seconds, for lines without a time stamp.
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
        """Set the time of the next line; see ``engines.local.foreground.Stamped``."""
        self._stamp_s = stamp_ns * _NANO

    def line(self, replica: ReplicaPlan, text: str, stream: Stream) -> None:
        """Search one line of a replica for a step, and pass it on."""
        if self._pattern is not None and replica.task_name == self._task_name:
            match = self._pattern.search(text[:_LINE_MAX])
            if match:
                self._read_step(match["step"] or "")
        self._stamp_s = None
        self._sink.line(replica, text, stream)

    def note(self, text: str) -> None:
        """Pass on one line of the engine."""
        self._sink.note(text)

    def _read_step(self, word: str) -> None:
        self._matched += 1
        self._word = word[:_QUOTED_MAX]
        if word.isdecimal():
            self._numbers += 1
            at_s = self._clock() if self._stamp_s is None else self._stamp_s
            self._add_reading(_Reading(at_s, int(word)))

    def _add_reading(self, new: _Reading) -> None:
        newest = self._now
        self._rose |= newest is not None and new.step > newest.step
        if (
            newest is None or new.step < newest.step
        ):  # the first line, or steps are counted from the start again
            self._close()
            self._before, self._now = None, new
        elif new.step > newest.step and new.at_s - newest.at_s < _TOGETHER_S:
            self._now = newest._replace(step=new.step)
        elif new.step > newest.step:
            self._close()
            self._before, self._now = newest, new

    def _close(self) -> None:
        """Store the steps of the newest reading, which gets no more lines."""
        if (step := _between(self._before, self._now)) is not None:
            self._steps.append(step)

    @property
    def times(self) -> StepTimes | None:
        """The durations of the steps; None if no line gave one."""
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
        """The reason why ``times`` is None, as the end of a sentence."""
        if not self._matched:
            return "no line matches --step-pattern"
        lines = "1 line matches" if self._matched == 1 else f"{self._matched:,} lines match"
        return f"{lines} --step-pattern, and {self._fault}"

    @property
    def _fault(self) -> str:
        if not self._numbers:
            return f"their step is not a whole number, such as {self._word!r}"
        if self._numbers == 1:
            return "one step is not enough to measure a time"
        if not self._rose:
            return f"no step is larger than the one before it; the last was {self._word!r}"
        return "they arrived all at once"


def _between(before: _Reading | None, now: _Reading | None) -> tuple[int, float] | None:
    """Return how many steps are between two readings, and the duration of one step."""
    if before is None or now is None:
        return None
    count = now.step - before.step
    return count, (now.at_s - before.at_s) / count
