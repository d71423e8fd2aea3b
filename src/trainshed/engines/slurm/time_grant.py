"""Decides how long an attempt may have its nodes, from its own limit and that of the partition.

The server ends an attempt at the job's limit.  The launcher ends it later if no server does, or
before the partition's MaxTime if that is shorter.  Slurm's own limit is the last resort: a program
that Slurm kills gets no notice.
"""

import math
from typing import Final, NamedTuple

from trainshed.engines.slurm.options import SlurmOptions
from trainshed.engines.slurm.parse import Partition

#: Seconds between the end of the running time of an attempt and Slurm's time limit.
SPARE_S: Final = 300.0
#: Seconds after the running time until the launcher ends the attempt, if no server has done so.
_LAUNCHER_S: Final = 240.0
#: The part of a short MaxTime that is kept for the end of an attempt.
_SPARE_SHARE: Final = 0.25


class TimeGrant(NamedTuple):
    """The time of an attempt."""

    minutes: int | None = None
    """Slurm's time limit; None: the default of the cluster."""
    ends_s: float | None = None
    """Seconds after which the launcher ends the attempt; None: never."""
    why: str = ""
    """Why the launcher ends the attempt before the job's own limit; empty: it does not."""


def minutes_of(running_s_max: float, beyond_s: float) -> int:
    """Return the time limit of a job in Slurm, in minutes, rounded up."""
    return math.ceil((running_s_max + beyond_s + SPARE_S) / 60)


def longest_s(minutes_max: int, beyond_s: float) -> int:
    """Return the seconds that an attempt may run in a partition with a MaxTime."""
    seconds = minutes_max * 60.0
    return max(0, int(seconds - min(SPARE_S, seconds * _SPARE_SHARE) - beyond_s))


def grant_time(
    running_s_max: float | None, partition: Partition | None, options: SlurmOptions
) -> TimeGrant:
    """Return the smaller of a job's limit and the partition's MaxTime."""
    minutes_max = partition.minutes_max if partition else None
    if partition is not None and minutes_max is not None:
        longest = longest_s(minutes_max, options.beyond_s)
        if running_s_max is None or running_s_max > longest:
            ends_s = float(longest_s(minutes_max, options.grace_s))
            return TimeGrant(minutes_max, ends_s, _explain(partition.name, minutes_max))
    if running_s_max is None:
        return TimeGrant()
    minutes, ends_s = minutes_of(running_s_max, options.beyond_s), _end_late(running_s_max, options)
    if minutes_max is None or minutes <= minutes_max:
        return TimeGrant(minutes, ends_s)
    return TimeGrant(minutes_max, min(ends_s, float(longest_s(minutes_max, options.grace_s))))


def _end_late(running_s_max: float, options: SlurmOptions) -> float:
    return running_s_max + options.grace_s + _LAUNCHER_S


def _explain(partition: str, minutes_max: int) -> str:
    return (
        f", all that the partition {partition} gives a job ({60 * minutes_max} s by "
        "its MaxTime, or by `time_max_s` of the engine); submit the job again to go on from its "
        "checkpoints, or in a partition with a longer MaxTime; set scheduling.timeout "
        "(maxRunningTime of ml_v1) to learn at submit what a partition gives: without it a job "
        "may run for `running_days_default` of [jobs]"
    )
