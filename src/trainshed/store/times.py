"""SQL expressions for a job's running time and its deadline, by step.

Running time is counted in RUNNING only, over all attempts.  A job that has not run yet has a
deadline for its wait, which outlives every attempt that never came to run; the first RUNNING takes
it away for good, and while a restarted job waits it has none (``lifecycle.deadlines`` says why).
"""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, bindparam, case, cast, func, null

from trainshed.model.status import FINAL, JobState
from trainshed.store.tables import JOBS

NS_PER_S: Final = 1_000_000_000
#: A century; a longer limit is no limit, so that nanoseconds fit a number.
FOREVER_S: Final = 100 * 366 * 86_400.0

_NOW: Final = bindparam("now_ns", type_=BigInteger)
_SINCE: Final = JOBS.c.running_since_ns
_RUNNING_NS_MAX: Final = cast(JOBS.c.running_s_max * NS_PER_S, BigInteger)


def _on_running() -> Mapping[str, Any]:
    """A step from RUNNING to RUNNING changes none of it."""
    fresh = case(
        (JOBS.c.running_s_max < FOREVER_S, _NOW + _RUNNING_NS_MAX - JOBS.c.ran_ns), else_=null()
    )
    return {
        "running_since_ns": func.coalesce(_SINCE, _NOW),
        "deadline_ns": case((_SINCE.is_(None), fresh), else_=JOBS.c.deadline_ns),
    }


def _on_leaving(most_ns: ColumnElement[int], *, ends: bool) -> Mapping[str, Any]:
    deadline = case((_SINCE.is_(None), JOBS.c.deadline_ns), else_=null())
    return {
        "running_since_ns": null(),
        "ran_ns": _ran_ns(most_ns),
        "deadline_ns": null() if ends else deadline,
    }


def _ran_ns(most_ns: ColumnElement[int]) -> ColumnElement[int]:
    """How long a job has run up to ``:now_ns``; a clock that went back takes nothing away."""
    return case(
        (_SINCE + most_ns < _NOW, JOBS.c.ran_ns + most_ns),
        (_SINCE < _NOW, JOBS.c.ran_ns + _NOW - _SINCE),
        else_=JOBS.c.ran_ns,
    )


def on_enter(state: JobState, most_ns: ColumnElement[int]) -> Mapping[str, Any]:
    """Return the time columns that a job gets when it enters a state.

    ``most_ns`` is the most that the attempt that leaves RUNNING has run; NULL: until now.
    """
    if state is JobState.RUNNING:
        return _on_running()
    return _on_leaving(most_ns, ends=state in FINAL or state is JobState.CANCELLING)


def most_ns(ran_s_max: float | None) -> int | None:
    """Convert seconds to the argument of ``on_enter``; None, or a very large number: no limit."""
    if ran_s_max is None or ran_s_max >= FOREVER_S:
        return None
    return max(0, int(ran_s_max * NS_PER_S))


def deadline_ns(create_ns: int, waiting_s_max: float | None) -> int | None:
    """When a new job has waited for as long as it may; never if None."""
    if waiting_s_max is None or waiting_s_max >= FOREVER_S:
        return None
    return create_ns + int(waiting_s_max * NS_PER_S)
