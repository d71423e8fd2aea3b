"""SQL expressions for a job's running time and its deadline, by step.

Running time is counted in RUNNING only, over all attempts.  A job that has never been RUNNING has a
deadline for its wait, which also covers attempts that fail before RUNNING.  The first RUNNING
removes that deadline; a restarted job waits without one (``lifecycle.deadlines`` says why).
"""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, bindparam, case, cast, func, null

from trainshed.model.status import FINAL, JobState
from trainshed.store.tables import JOBS

NS_PER_S: Final = 1_000_000_000
#: A century in seconds; a longer limit means no limit, so that nanoseconds fit in 64 bits.
FOREVER_S: Final = 100 * 366 * 86_400.0

_NOW: Final = bindparam("now_ns", type_=BigInteger)
_SINCE: Final = JOBS.c.running_since_ns
_RUNNING_NS_MAX: Final = cast(JOBS.c.running_s_max * NS_PER_S, BigInteger)


def _on_running() -> Mapping[str, Any]:
    """Return the columns on entering RUNNING; a step from RUNNING to RUNNING keeps them."""
    new_deadline = case(
        (JOBS.c.running_s_max < FOREVER_S, _NOW + _RUNNING_NS_MAX - JOBS.c.ran_ns), else_=null()
    )
    return {
        "running_since_ns": func.coalesce(_SINCE, _NOW),
        "deadline_ns": case((_SINCE.is_(None), new_deadline), else_=JOBS.c.deadline_ns),
    }


def _on_leaving(most_ns: ColumnElement[int], *, ends: bool) -> Mapping[str, Any]:
    deadline = case((_SINCE.is_(None), JOBS.c.deadline_ns), else_=null())
    return {
        "running_since_ns": null(),
        "ran_ns": _run_time_ns(most_ns),
        "deadline_ns": null() if ends else deadline,
    }


def _run_time_ns(most_ns: ColumnElement[int]) -> ColumnElement[int]:
    """Return a job's run time until ``:now_ns``; a clock that went back does not reduce it."""
    return case(
        (_SINCE + most_ns < _NOW, JOBS.c.ran_ns + most_ns),
        (_SINCE < _NOW, JOBS.c.ran_ns + _NOW - _SINCE),
        else_=JOBS.c.ran_ns,
    )


def on_enter(state: JobState, most_ns: ColumnElement[int]) -> Mapping[str, Any]:
    """Return the time columns of a job that enters a state.

    ``most_ns`` is the largest run time of an attempt that leaves RUNNING; NULL for no limit.
    """
    if state is JobState.RUNNING:
        return _on_running()
    return _on_leaving(most_ns, ends=state in FINAL or state is JobState.CANCELLING)


def most_ns(ran_s_max: float | None) -> int | None:
    """Convert seconds to nanoseconds for ``on_enter``; None and over a century mean no limit."""
    if ran_s_max is None or ran_s_max >= FOREVER_S:
        return None
    return max(0, int(ran_s_max * NS_PER_S))


def deadline_ns(create_ns: int, waiting_s_max: float | None) -> int | None:
    """Return when a new job has used up its waiting time; None for no limit."""
    if waiting_s_max is None or waiting_s_max >= FOREVER_S:
        return None
    return create_ns + int(waiting_s_max * NS_PER_S)
