"""Converts the times of attempts to the store's clock of now, after clocks were set.

Events have the times of the store, which goes on when the machine's clock is set, but starts anew
at the machine's clock after it was set by more than a day.  Programs and supervisors have the
machine's times.  Without the conversion the jump of a clock would count as held time, with its
price.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from trainshed.planning.attempt_steps import StepsMade
from trainshed.planning.goodput import AttemptTimes, JobTimes
from trainshed.store.clock_jumps import ClockJump, on_clock_of_now

#: Two clocks of one machine are read at different times.
_TOLERANCE_S: Final = 2.0
#: The fields of jobs and attempts that are moments, in seconds since 1970.
_MOMENTS: Final = frozenset(
    {
        "accepted_s",
        "ended_s",
        "first_step_s",
        "last_step_s",
        "placed_s",
        "running_s",
        "stop_s",
    }
)
_NS_PER_S: Final = 1e9


def subtract_clock_sets(times: JobTimes, jumps: Sequence[ClockJump]) -> JobTimes:
    """Return the times as the clock of now would have shown them; ``jumps`` are sorted."""
    if not jumps:
        return times

    def move(time_s: float) -> float:
        if not math.isfinite(time_s):  # a hang that goes on
            return time_s
        return on_clock_of_now(round(time_s * _NS_PER_S), jumps) / _NS_PER_S

    attempts = tuple(
        replace(
            attempt,
            **_move_all(attempt, move),
            hangs=tuple((move(begin), move(end)) for begin, end in attempt.hangs),
        )
        for attempt in times.attempts
    )
    return replace(times, **_move_all(times, move), attempts=attempts)


def _move_all(times: Any, move: Callable[[float], float]) -> dict[str, Any]:
    values = {field.name: getattr(times, field.name) for field in fields(times)}
    return {name: move(at) for name, at in values.items() if name in _MOMENTS and at is not None}


def add_steps(
    attempt: AttemptTimes, made: StepsMade | None, skew_s: float, end_s: float
) -> AttemptTimes:
    """Return an attempt with its steps, on the store's clock.

    ``skew_s``: by how much the machine's clock was ahead at ``end_s``.  It may have been set after
    the first step: then the times of the steps need no conversion, and are within the attempt.
    """
    if made is None:
        return attempt
    is_within = (
        attempt.placed_s - _TOLERANCE_S <= made.first_s and made.last_s <= end_s + _TOLERANCE_S
    )
    if not is_within:
        made = replace(made, first_s=made.first_s - skew_s, last_s=made.last_s - skew_s)
    return made.add_to(attempt)
