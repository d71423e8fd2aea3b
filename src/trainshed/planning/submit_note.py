"""Makes the planner's note on a submitted job, if there is something to improve.

A note never refuses a job.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from trainshed.planning.job_plan import JobPlan, plan_of
from trainshed.planning.marks import at_both_ends
from trainshed.planning.plan_request import PlanRequest
from trainshed.planning.plan_words import head, limited_by, noun
from trainshed.planning.planned_jobs import PlannedJob
from trainshed.planning.prices import PriceList
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.input_bound import InputBound, find_input_bound
from trainshed.planning.scaling.prediction import Binding, Prediction
from trainshed.planning.what_ifs import ClusterOption, TrainingWork

#: Jobs with a lower efficiency get a note.
LOW_EFFICIENCY: Final = 0.5
#: Another cluster is named if it costs this many times less and takes hardly longer.
CHEAPER: Final = 2.0
LONGER: Final = 1.1
_STEPS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitNote:
    """The note as text and as numbers."""

    message: str
    """A sentence or several, with full stops."""
    numbers: Mapping[str, object] = field(default_factory=dict)


def submit_note(
    calibration: Calibration, job: PlannedJob, prices: PriceList, *, says_unknown: bool = False
) -> SubmitNote | None:
    """Return the note on a job; None if there is nothing to improve.

    The note leaves out the gain of reducers, which ``reduction_forecast`` reports.  With
    ``says_unknown`` it also says that unknown links decide whether the job scales badly: a caller
    that gave a calibration would read silence as an answer.
    """
    if job.layout is None:
        return None
    plan = _plan(calibration, job, prices)
    prediction = plan.own.prediction
    if prediction is None or not plan.own.what_if.is_own:
        return None
    sentences = list(_list_sentences(calibration, plan, prediction))
    efficiency = _efficiency(plan)
    if says_unknown and min(efficiency) < LOW_EFFICIENCY <= max(efficiency):
        sentences.insert(0, f"{head(plan)}.")
    if not sentences:
        return None
    return SubmitNote(message=" ".join(sentences), numbers=_numbers(plan, prediction))


def predict_step_s(calibration: Calibration, job: PlannedJob, prices: PriceList) -> float | None:
    """Return the predicted seconds of a step of a job; None if nothing can be predicted."""
    if job.layout is None:
        return None
    own = _plan(calibration, job, prices).own
    return own.prediction.step_s.point if own.prediction and own.what_if.is_own else None


def _plan(calibration: Calibration, job: PlannedJob, prices: PriceList) -> JobPlan:
    batch = job.accelerators * calibration.training.batch_per_accelerator
    work = TrainingWork(samples=_STEPS * batch, global_batch=batch, words="for 1,000 of its steps")
    plan = plan_of(job, PlanRequest(), [calibration], work, prices)
    return replace(plan, reduced=None) if job.reducers.count else plan


def _list_sentences(
    calibration: Calibration, plan: JobPlan, prediction: Prediction
) -> Iterator[str]:
    efficiency = _efficiency(plan)
    bound, cheap = input_bound(calibration, prediction), cheaper(plan)
    if max(efficiency) < LOW_EFFICIENCY:
        share = f"{' to '.join(f'{100 * end:.0f}' for end in efficiency)} % efficiency"
        yield f"{head(plan, says_fewer=not cheap)}. That is {share}."
    if bound:
        yield f"It is predicted to wait for its input: {bound.evidence}; {bound.help} would help."
    if cheap:
        yield _cheaper_words(cheap)


def _efficiency(plan: JobPlan) -> tuple[float, ...]:
    """Return the job's efficiency; with unknown links that with slow and that with fast ones."""
    options = plan.own.ends or (plan.own,)
    return tuple(o.prediction.efficiency.point for o in options if o.prediction)


def input_bound(calibration: Calibration, prediction: Prediction) -> InputBound | None:
    """Return the evidence that a predicted step waits for its input; None if there is none."""
    input_s = dict(prediction.parts_s).get(Binding.INPUT, 0.0)
    waited = max((run.wait_share for run in calibration.runs[-1:]), default=0.0)
    return find_input_bound(prediction.step_s.point, input_s=input_s, wait_share=waited)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cheaper:
    """Another cluster, compared with a job's own for the same samples."""

    option: ClusterOption
    longer: float
    """The time of ``option`` over the time of the job's own cluster."""
    less: float
    """The cost of the job's own cluster over the cost of ``option``."""


def cheaper(plan: JobPlan) -> Cheaper | None:
    """Return the cheapest cluster that surely costs far less and takes hardly longer."""
    candidates = [candidate for option in plan.options if (candidate := _compare(plan.own, option))]
    return max(candidates, key=lambda candidate: candidate.less, default=None)


def _compare(own: ClusterOption, other: ClusterOption) -> Cheaper | None:
    """Compare with any links; None if the other is not worth a word with one of them."""
    less, longer = math.inf, 0.0
    for one, two in at_both_ends(own, other):
        if not (one.time_s and two.time_s and one.spent and two.spent):
            return None
        is_one_unit = (one.cost is None) == (two.cost is None)
        if not is_one_unit or two.spent.high >= one.spent.point:
            return None
        less = min(less, one.spent.point / two.spent.point)
        longer = max(longer, two.time_s.point / one.time_s.point)
    is_worth_it = less > CHEAPER and longer <= LONGER
    return Cheaper(option=other, longer=longer, less=less) if is_worth_it else None


def _cheaper_words(cheap: Cheaper) -> str:
    cluster, more = cheap.option.cluster, round(100 * (cheap.longer - 1))
    time = f"take {more} % longer" if more > 0 else "take no longer"
    return (
        f"{noun(cluster)} would {time} for the same samples, and cost {cheap.less:.1f} times less."
    )


def _numbers(plan: JobPlan, prediction: Prediction) -> dict[str, object]:
    """Return the note as numbers, for programs."""
    cheap, value = cheaper(plan), prediction.efficiency
    return {
        "accelerators": prediction.cluster.accelerators,
        "hosts": prediction.cluster.hosts,
        "efficiency": [value.low, value.point, value.high],
        "limited_by": limited_by(plan.own),
        "cheaper_accelerators": cheap.option.cluster.accelerators if cheap else None,
    }
