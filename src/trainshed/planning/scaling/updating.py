"""Updates a calibration by finished jobs: newer runs count more than older ones.

Each job's steps become a run of kind ``job``.  Runs of the same cluster are blended into one, so a
calibration does not grow with the jobs that it has seen.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from trainshed.planning.scaling.calibration import Calibration, Run, RunKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.rates import at_batch

#: The weight of all earlier jobs on a cluster, relative to the newest job.
FORGETTING: Final = 0.7
#: The most runs of jobs in a calibration: pure Python fits them in a tenth of a second.
JOBS_MAX: Final = 12


def add_run(calibration: Calibration, run: Run) -> Calibration:
    """Add a job to a calibration.  Raises ValueError for a run without a step.

    The calibration keeps all short runs, and the runs of the newest jobs.
    """
    if run.kind is not RunKind.JOB or not 0 < run.step_s < math.inf:
        raise ValueError(f"a job's run must have a step's time above 0, got {run.step_s}")
    same_runs = [earlier for earlier in calibration.runs if _is_like(calibration, earlier, run)]
    others = _limit_runs([earlier for earlier in calibration.runs if earlier not in same_runs])
    newest = _blend(same_runs[-1], run) if same_runs else run
    refit = calibrated(calibration.training, calibration.host, [*others, newest])
    return replace(
        refit, trainer_digest=calibration.trainer_digest, date=run.date or calibration.date
    )


def _limit_runs(runs: Sequence[Run]) -> list[Run]:
    """Return all short runs and the newest runs of jobs, with room for one more."""
    jobs = [run for run in runs if run.kind is RunKind.JOB]
    short = [run for run in runs if run.kind is not RunKind.JOB]
    return [*short, *jobs[1 - JOBS_MAX :]]


def _is_like(calibration: Calibration, one: Run, other: Run) -> bool:
    """Whether ``one`` is a job's run on the same cluster and with the same batch as ``other``."""
    places = [
        (run.accelerators, run.hosts, at_batch(calibration.training, run.batch))
        for run in (one, other)
    ]
    return one.kind is RunKind.JOB and places[0] == places[1]


def _blend(old: Run, new: Run) -> Run:
    """Return the mean of two runs by logarithms: twice as fast and half as fast weigh the same.

    If the jobs differ by more than their steps do, the spread is the difference of the jobs.
    """
    share = FORGETTING / (1 + FORGETTING)
    both = old.step_s, new.step_s
    return replace(
        new,
        step_s=_between(old.step_s, new.step_s, share),
        step_s_p10=min(_between(old.step_s_p10, new.step_s_p10, share), *both),
        step_s_p90=max(_between(old.step_s_p90, new.step_s_p90, share), *both),
        # without a limit the weight would become smaller than a file's least value
        wait_share=round(share * old.wait_share + (1 - share) * new.wait_share, 6),
    )


def _between(old: float, new: float, share: float) -> float:
    if min(old, new) <= 0:
        return max(old, new)
    return math.exp(share * math.log(old) + (1 - share) * math.log(new))
