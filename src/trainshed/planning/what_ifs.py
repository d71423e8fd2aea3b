"""Predicts the throughput, the time and the cost of one cluster for a job.

A cluster whose links are unknown is predicted with slow and with fast ones (``links``).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from trainshed.model.texts import count_noun
from trainshed.planning.links import HostLinks
from trainshed.planning.measured_hosts import is_same
from trainshed.planning.memory import MemoryUse
from trainshed.planning.mixed_hosts import HostShare, predict_mixed
from trainshed.planning.plan_request import PlanRequest
from trainshed.planning.prices import HourPrice, Machines, PriceList, delay_factor
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.cluster import Cluster
from trainshed.planning.scaling.fitting import timed
from trainshed.planning.scaling.predict import predict
from trainshed.planning.scaling.prediction import (
    Interval,
    NoPrediction,
    Prediction,
    span_predictions,
)
from trainshed.planning.scaling.targets import Recipe
from trainshed.planning.scaling.training import StepBatch

_HOUR_S = 3600.0
MEASURE = "measure: trainshed plan calibrate"
_MEASURE_OR_SIZE = f"{MEASURE}; or --params N or --model NAME, to plan from published jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingWork:
    """The amount of training."""

    samples: float
    global_batch: float
    """The samples of one step, on all accelerators, for which ``samples`` is given."""
    words: str
    """The amount as words, such as ``for 90 epochs``."""
    critical_batch: float = 0.0
    """Larger batches than this need more samples for the same quality; 0 if unknown."""

    def samples_at(self, batch: float) -> float:
        """Return the samples that training with another global batch needs."""
        if not self.critical_batch:
            return self.samples
        recipe = Recipe(samples_at_least=1.0, critical_batch=self.critical_batch)
        return self.samples * recipe.amount(batch) / recipe.amount(self.global_batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """One cluster of a plan."""

    cluster: Cluster
    machines: tuple[Machines, ...]
    """All machines, for prices."""
    links: HostLinks
    """Its hosts with their calibration and links, which other clusters of such hosts share."""
    parts: "tuple[tuple[WhatIf, int], ...]" = ()
    """For hosts of several kinds: the whole job on each kind, and the accelerators of that kind."""
    batch: StepBatch = field(default_factory=StepBatch)
    """The batch of one accelerator in a step."""
    refused: NoPrediction | None = None
    """The reason why the cluster cannot be predicted, if there is one."""
    memory: MemoryUse | None = None
    """The memory of one accelerator, or of a host whose processors train; None if unknown."""
    is_own: bool = False
    """Whether this is the cluster of the job's own file."""
    is_asked: bool = False
    """Whether the user requested this number of accelerators."""
    ends: tuple["WhatIf", ...] = ()
    """The cluster with slow and with fast links, if its links are unknown; else empty."""
    efficiency_max: float = math.inf
    """The highest efficiency to predict."""

    @property
    def calibration(self) -> Calibration | None:
        """The calibration for this kind of host; None if there is none."""
        return self.links.calibration


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOption:
    """The prediction for a cluster: throughput, time and cost."""

    what_if: WhatIf
    answer: Prediction | NoPrediction
    time_s: Interval | None = None
    hour: HourPrice | None = None
    ends: tuple["ClusterOption", ...] = ()
    """The options with slow and with fast links, if the links are unknown; else empty.  The
    intervals span both, and their points are only for sorting."""

    @property
    def cluster(self) -> Cluster:
        """The cluster for which this is the prediction."""
        return self.what_if.cluster

    @property
    def accelerator_hours(self) -> Interval | None:
        """The time of all accelerators; None without a time."""
        return self.time_s and self.time_s.times(self.cluster.accelerators / _HOUR_S)

    @property
    def cost(self) -> Interval | None:
        """The price of the whole job; None without a time or a price."""
        return self.time_s.times(self.hour.amount / _HOUR_S) if self.time_s and self.hour else None

    @property
    def is_measured(self) -> bool:
        """Whether steps were timed on such a cluster, with this batch."""
        calibration, cluster = self.what_if.calibration, self.cluster
        if calibration is None or calibration.is_published:
            return False
        if not is_same(calibration.host, cluster.host):
            return False
        batch = self.what_if.batch.samples
        return any(
            (run.accelerators, run.hosts) == (cluster.accelerators, cluster.hosts)
            and batch in {0.0, run.samples_of(calibration.training)}
            and not (cluster.reducers or self.what_if.parts)
            for run in timed(calibration.runs)
        )

    @property
    def machine_type(self) -> str:
        """The machine type of the training hosts, or several; empty if unknown."""
        parts = len(self.what_if.parts)
        if not parts:
            return self.what_if.machines[0].machine_type
        return " + ".join(
            f"{group.count} x {group.machine_type} with {group.accelerators} {group.accelerator}"
            if group.accelerator
            else f"{group.count} x {group.machine_type}"
            for group in self.what_if.machines[:parts]
        )

    @property
    def prediction(self) -> Prediction | None:
        """The prediction; None if the cluster cannot be predicted."""
        return self.answer if isinstance(self.answer, Prediction) else None

    @property
    def rate_factor(self) -> float:
        """``Prediction.rate_factor``: infinite if only ratios of options are known."""
        return self.prediction.rate_factor if self.prediction else 1.0

    @property
    def shown(self) -> "ClusterOption":
        """The option as users see it: its intervals also hold what is unknown of the whole job.

        Options are compared without that.  If only ratios are known, there is no time and no cost.
        """
        prediction, factor = self.prediction, self.rate_factor
        if factor == 1.0 or prediction is None:
            return self
        if factor == math.inf:
            return replace(self, time_s=None)
        wide = replace(prediction, step_s=prediction.step_s.widen(factor))
        return replace(
            self,
            answer=wide,
            time_s=self.time_s.widen(factor) if self.time_s else None,
        )

    @property
    def spent(self) -> Interval | None:
        """The cost, or the accelerator-hours if the price is unknown."""
        return self.cost or self.accelerator_hours


def weigh(
    what_if: WhatIf, request: PlanRequest, work: TrainingWork, prices: PriceList
) -> ClusterOption:
    """Predict one cluster; with unknown links, by an interval that spans slow and fast ones."""
    if what_if.ends:
        return _span([weigh(end, request, work, prices) for end in what_if.ends], what_if)
    answer = _answer(what_if)
    machines = sum(group.count for group in what_if.machines)
    longer = delay_factor(request, machines)
    if longer == math.inf:
        answer = NoPrediction(
            field="spot",
            message=f"{count_noun(machines, 'machine')} would be interrupted before a checkpoint",
            accepted="fewer machines, checkpoints more often, or machines on demand",
        )
    hour = prices.of(what_if.machines)
    if isinstance(answer, NoPrediction):
        return ClusterOption(what_if=what_if, answer=answer, hour=hour)
    batch = answer.batch_per_accelerator * what_if.cluster.accelerators
    time_s = answer.samples_per_s.inverse(work.samples_at(batch)).times(longer)
    return ClusterOption(what_if=what_if, answer=answer, time_s=time_s, hour=hour)


def _span(ends: Sequence[ClusterOption], what_if: WhatIf) -> ClusterOption:
    """Return the option of a cluster from those with slow and with fast links."""
    slow, fast = ends
    if slow.prediction is None or fast.prediction is None:
        refused = slow if slow.prediction is None else fast
        return replace(refused, what_if=what_if)
    return ClusterOption(
        what_if=what_if,
        answer=span_predictions(slow.prediction, fast.prediction, what_if.cluster),
        time_s=slow.time_s.span(fast.time_s) if slow.time_s and fast.time_s else None,
        hour=slow.hour,
        ends=(slow, fast),
    )


def _answer(what_if: WhatIf) -> Prediction | NoPrediction:
    if what_if.parts:
        shares = [
            HostShare(host=part.cluster.host, accelerators=accelerators, answer=_answer(part))
            for part, accelerators in what_if.parts
        ]
        return predict_mixed(what_if.cluster, shares)
    if what_if.refused:
        return what_if.refused
    if what_if.calibration is None:
        return NoPrediction(
            field="calibration",
            message="no step of this training was timed on such hosts",
            accepted=_MEASURE_OR_SIZE,
        )
    batch, estimate = what_if.batch, what_if.links.posterior
    answer = predict(what_if.calibration, what_if.cluster, batch=batch, posterior=estimate)
    if isinstance(answer, NoPrediction) or what_if.efficiency_max == math.inf:
        return answer
    return answer.limit_efficiency(what_if.efficiency_max)
