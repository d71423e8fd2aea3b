"""How long a job may wait and run, in the meaning of its dialect.

The sources are docs/sources/vertex.md 7.1 and 8.

Running time is the time in RUNNING, of all attempts together; a restart does not begin it anew, and
waiting for a place in between does not use it up.  Waiting time is that before the first RUNNING:
once a job has run, it is never ended for waiting.
"""

from dataclasses import dataclass
from typing import Final

from trainshed.model.job import Scheduling
from trainshed.model.roles import Dialect

#: Both dialects: seven days.
RUNNING_S_DEFAULT: Final = 604_800.0
#: Vertex AI: a job that says nothing waits a day for a flexible start, and others without end.
FLEX_START: Final = "FLEX_START"
FLEX_START_WAITING_S: Final = 86_400.0

_RUNNING_FIELD: Final = {
    Dialect.ML_V1: "trainingInput.scheduling.maxRunningTime",
    Dialect.AIPLATFORM_V1: "scheduling.timeout",
}
_WAITING_FIELD: Final = {
    Dialect.ML_V1: "trainingInput.scheduling.maxWaitTime",
    Dialect.AIPLATFORM_V1: "scheduling.maxWaitDuration",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Seconds; no limit if None."""

    running_s_max: float | None
    waiting_s_max: float | None


def limits_of(
    scheduling: Scheduling, running_s_default: float | None = RUNNING_S_DEFAULT
) -> TimeLimits:
    """The limits of a job.  Zero is "no limit" for waiting, and "not said" for running.

    ``running_s_default`` is the server's own; zero or None lets jobs run that say nothing.
    """
    waiting_s = scheduling.waiting_s_max
    if waiting_s is None and scheduling.strategy == FLEX_START:
        waiting_s = FLEX_START_WAITING_S
    return TimeLimits(
        running_s_max=scheduling.running_s_max or running_s_default or None,
        waiting_s_max=waiting_s or None,
    )


def overdue(dialect: Dialect, scheduling: Scheduling, *, has_run: bool, ran_s: float) -> str:
    """Why a job is ended whose time is over, in the caller's own word for the limit.

    ``ran_s`` is named if the limit was the server's: it may have had another one then.
    """
    if not has_run:
        limit_s = limits_of(scheduling).waiting_s_max or 0.0
        return f"The job waited for longer than the {limit_s:g} s of {_WAITING_FIELD[dialect]}."
    field = _RUNNING_FIELD[dialect]
    if scheduling.running_s_max:
        return f"The job ran for longer than the {scheduling.running_s_max:g} s of {field}."
    return f"The job ran for {ran_s:.0f} s, as long as one may here that does not say {field}."
