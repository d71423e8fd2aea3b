"""The limits on how long a job may wait and run, as its dialect defines them.

The sources are docs/sources/vertex.md 7.1 and 8.

Running time is the total time in RUNNING over all attempts: a restart does not reset it, and
waiting for places between attempts does not count.  Waiting time is the time before the first
RUNNING: a job that has run never ends because it waits.
"""

from dataclasses import dataclass
from typing import Final

from trainshed.model.job import Scheduling
from trainshed.model.roles import Dialect

#: The default limit of running time in both dialects: seven days.
RUNNING_S_DEFAULT: Final = 604_800.0
#: Vertex AI: a job without a limit waits a day for a flexible start, other jobs without end.
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
    """The most time in RUNNING and before it, in seconds; None: no limit."""

    running_s_max: float | None
    waiting_s_max: float | None


def limits_of(
    scheduling: Scheduling, running_s_default: float | None = RUNNING_S_DEFAULT
) -> TimeLimits:
    """Return the time limits of a job.

    A waiting time of zero means no limit; a running time of zero means that none is set.

    ``running_s_default`` is the server's limit for jobs that set none; zero or None: no limit.
    """
    waiting_s = scheduling.waiting_s_max
    if waiting_s is None and scheduling.strategy == FLEX_START:
        waiting_s = FLEX_START_WAITING_S
    return TimeLimits(
        running_s_max=scheduling.running_s_max or running_s_default or None,
        waiting_s_max=waiting_s or None,
    )


def overdue(dialect: Dialect, scheduling: Scheduling, *, has_run: bool, ran_s: float) -> str:
    """Return the message for a job that has exceeded a time limit, with the field that sets it.

    If the limit was the server's default, the message has ``ran_s`` (seconds) instead of the limit,
    because the default may change later.
    """
    if not has_run:
        limit_s = limits_of(scheduling).waiting_s_max or 0.0
        return f"The job waited for longer than the {limit_s:.12g} s of {_WAITING_FIELD[dialect]}."
    field = _RUNNING_FIELD[dialect]
    if scheduling.running_s_max:
        return f"The job ran for longer than the {scheduling.running_s_max:.12g} s of {field}."
    return f"The job ran for {ran_s:.0f} s, the server's limit for jobs that do not set {field}."
