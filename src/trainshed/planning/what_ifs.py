"""Predicts other clusters for a job, and recommends some.

An option is recommended over another only if its interval does not contain the other's point.  A
cluster whose links are unknown is predicted with slow and with fast ones (``links``): it is never
recommended, and another cluster only if it would be with either.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from trainshed.model.texts import count_noun
from trainshed.planning.memory import MemoryUse
from trainshed.planning.mixed_hosts import HostShare, predict_mixed
from trainshed.planning.plan_request import PlanRequest
from trainshed.planning.prices import HourPrice, Interruptions, Machines, PriceList
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.fitting import timed
from trainshed.planning.scaling.posterior import Posterior
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
    parts: "tuple[tuple[WhatIf, int], ...]" = ()
    """For hosts of several kinds: the whole job on each kind, and the accelerators of that kind."""
    calibration: Calibration | None = None
    """The calibration for this kind of host; None if there is none."""
    posterior: Posterior | None = None
    """The posterior of the calibration, which all its clusters share."""
    batch: StepBatch = field(default_factory=StepBatch)
    """The batch of one accelerator in a step."""
    is_divided: bool = False
    """Whether that batch is a part of the job's."""
    refused: NoPrediction | None = None
    """The reason why the cluster cannot be predicted, if there is one."""
    memory: MemoryUse | None = None
    """The memory of one accelerator, or of a host whose processors train; None if unknown."""
    unmeasured: NoPrediction | None = None
    """The reason why no calibration fits its hosts, if there are calibrations."""
    is_own: bool = False
    """Whether this is the cluster of the job's own file."""
    is_asked: bool = False
    """Whether the user requested this number of accelerators."""
    ends: tuple["WhatIf", ...] = ()
    """The cluster with slow and with fast links, if its links are unknown; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOption:
    """The prediction for a cluster: throughput, time and cost."""

    what_if: WhatIf
    answer: Prediction | NoPrediction
    time_s: Interval | None = None
    accelerator_hours: Interval | None = None
    hour: HourPrice | None = None
    cost: Interval | None = None
    ends: tuple["ClusterOption", ...] = ()
    """The options with slow and with fast links, if the links are unknown; else empty.  The
    intervals span both, and their points are only for sorting."""

    @property
    def cluster(self) -> Cluster:
        """The cluster for which this is the prediction."""
        return self.what_if.cluster

    @property
    def is_measured(self) -> bool:
        """Whether steps were timed on such a cluster, with this batch."""
        calibration, cluster = self.what_if.calibration, self.cluster
        if calibration is None or not is_same(calibration.host, cluster.host):
            return False
        usual, batch = calibration.training.batch_per_accelerator, self.what_if.batch.samples
        return any(
            (run.accelerators, run.hosts) == (cluster.accelerators, cluster.hosts)
            and batch in {0.0, run.batch_per_accelerator or usual}
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
    def spent(self) -> Interval | None:
        """The cost, or the accelerator-hours if the price is unknown."""
        return self.cost or self.accelerator_hours


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownMark:
    """A recommendation that depends on unknown links."""

    name: str
    slow: ClusterOption
    """The option that would be recommended with slow links."""
    fast: ClusterOption


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionMarks:
    """The recommended options."""

    fastest: ClusterOption | None = None
    cheapest: ClusterOption | None = None
    knee: ClusterOption | None = None
    """The largest option whose last doubling of price still gains enough throughput."""
    meets: ClusterOption | None = None
    """The cheapest option within deadline and budget; None without limits or such an option."""
    unknown: tuple[UnknownMark, ...] = ()

    def of(self, option: ClusterOption) -> tuple[str, ...]:
        """Return the marks of an option."""
        marks = {"fastest": self.fastest, "cheapest": self.cheapest, "knee": self.knee}
        marks["meets it"] = self.meets
        return tuple(name for name, marked in marks.items() if marked is option)


def weigh(
    what_if: WhatIf, request: PlanRequest, work: TrainingWork, prices: PriceList
) -> ClusterOption:
    """Predict one cluster; with unknown links, by an interval that spans slow and fast ones."""
    if what_if.ends:
        return _span([weigh(end, request, work, prices) for end in what_if.ends], what_if)
    answer = _answer(what_if)
    interruptions = Interruptions.of(request)
    machines = sum(group.count for group in what_if.machines)
    longer = interruptions.times(machines) if interruptions else 1.0
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
    return ClusterOption(
        what_if=what_if,
        answer=answer,
        time_s=time_s,
        accelerator_hours=time_s.times(what_if.cluster.accelerators / _HOUR_S),
        hour=hour,
        cost=time_s.times(hour.amount / _HOUR_S) if hour else None,
    )


def _span(ends: Sequence[ClusterOption], what_if: WhatIf) -> ClusterOption:
    """Return the option of a cluster from those with slow and with fast links."""
    slow, fast = ends
    if slow.prediction is None or fast.prediction is None:
        refused = slow if slow.prediction is None else fast
        return replace(refused, what_if=what_if)
    return ClusterOption(
        what_if=what_if,
        answer=span_predictions(slow.prediction, fast.prediction, what_if.cluster),
        time_s=_span_optional(slow.time_s, fast.time_s),
        accelerator_hours=_span_optional(slow.accelerator_hours, fast.accelerator_hours),
        hour=slow.hour,
        cost=_span_optional(slow.cost, fast.cost),
        ends=(slow, fast),
    )


def _span_optional(one: Interval | None, other: Interval | None) -> Interval | None:
    return one.span(other) if one and other else None


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
        return what_if.unmeasured or NoPrediction(
            field="calibration",
            message="no step of this training was timed on such hosts",
            accepted=MEASURE,
        )
    return predict(
        what_if.calibration,
        what_if.cluster,
        batch=what_if.batch,
        posterior=what_if.posterior,
    )


def marks_of(options: Sequence[ClusterOption], request: PlanRequest) -> OptionMarks:
    """Return the recommended options, and the recommendations that depend on unknown links."""
    without_range = _marks_of([option for option in options if not option.ends], request)
    if not any(option.ends for option in options):
        return without_range
    slow, fast = (_marks_at(options, end, request) for end in (0, 1))
    sure, unknown = {}, []
    for name in ("fastest", "cheapest", "knee"):
        at_slow, at_fast = getattr(slow, name), getattr(fast, name)
        if at_slow is at_fast and (at_slow is None or not at_slow.ends):
            sure[name] = at_slow
        else:
            unknown.append(UnknownMark(name=name, slow=at_slow, fast=at_fast))
    return OptionMarks(**sure, meets=without_range.meets, unknown=tuple(unknown))


def _marks_at(options: Sequence[ClusterOption], end: int, request: PlanRequest) -> OptionMarks:
    """Return the options that would be recommended with slow (0) or with fast links (1)."""
    at_end = [option.ends[end] if option.ends else option for option in options]
    marks = _marks_of(at_end, request)

    def option_of(marked: ClusterOption | None) -> ClusterOption | None:
        pairs = zip(options, at_end, strict=True)
        return next((option for option, same in pairs if same is marked), None)

    return OptionMarks(
        fastest=option_of(marks.fastest),
        cheapest=option_of(marks.cheapest),
        knee=option_of(marks.knee),
    )


def _marks_of(options: Sequence[ClusterOption], request: PlanRequest) -> OptionMarks:
    predicted = [option for option in options if option.prediction]
    comparables = sorted(comparable(predicted), key=_size)
    meeting = [option for option in predicted if request.has_limits and meets(request, option)]
    return OptionMarks(
        fastest=_fastest(
            sorted(predicted, key=_size if len(comparables) == len(predicted) else _machines)
        ),
        cheapest=_cheapest(comparables),
        knee=_knee(comparables, request.worth),
        meets=min(comparable(meeting), key=_spent, default=None),
    )


def meets(request: PlanRequest, option: ClusterOption) -> bool:
    """Return whether an option keeps deadline and budget at its interval's pessimistic end."""
    if option.time_s is None or option.time_s.high > request.deadline:
        return False
    is_free = request.budget == math.inf
    return is_free or bool(option.cost and option.cost.high <= request.budget)


def comparable(options: Sequence[ClusterOption]) -> Sequence[ClusterOption]:
    """Return the options with a cost if any has one: money and hours are not compared."""
    return [option for option in options if option.cost] or options


def faster(one: ClusterOption, other: ClusterOption) -> bool:
    """Whether ``one`` is surely faster than ``other``, with any links."""
    return all(
        a.time_s is not None and b.time_s is not None and a.time_s.high < b.time_s.point
        for a, b in at_both_ends(one, other)
    )


def at_both_ends(
    one: ClusterOption, other: ClusterOption
) -> Iterator[tuple[ClusterOption, ClusterOption]]:
    """Yield two options with slow and then with fast links; with known links only once."""
    if not (one.ends or other.ends):
        yield one, other
        return
    for end in (0, 1):
        yield one.ends[end] if one.ends else one, other.ends[end] if other.ends else other


def is_cheaper(one: ClusterOption, other: ClusterOption) -> bool:
    """Whether ``one`` spends less with any links, both in money or both in hours."""
    both = one.spent and other.spent and (one.cost is None) == (other.cost is None)
    return bool(both) and all(_spent(a) < _spent(b) for a, b in at_both_ends(one, other))


def _size(option: ClusterOption) -> tuple[float, float]:
    amount = option.hour.amount if option.hour else float(option.cluster.accelerators)
    return amount, option.cluster.reducers + option.cluster.servers


def _machines(option: ClusterOption) -> tuple[float, float]:
    cluster = option.cluster
    return float(cluster.accelerators), cluster.reducers + cluster.servers


def _spent(option: ClusterOption) -> float:
    return option.spent.point if option.spent else math.inf


def _fastest(options: Sequence[ClusterOption]) -> ClusterOption | None:
    """Return the smallest option such that no larger one is surely faster."""
    fastest = None
    for option in options:
        if fastest is None or faster(option, fastest):
            fastest = option
    return fastest


def _cheapest(options: Sequence[ClusterOption]) -> ClusterOption | None:
    """Return the cheapest option; of equal ones the fastest."""
    least = min(options, key=_spent, default=None)
    if least is None or least.spent is None:
        return least
    high = least.spent.high
    equals = [option for option in options if _spent(option) <= least.spent.point * (1 + 1e-9)]
    return min(equals, key=lambda option: option.time_s.point if option.time_s else high)


def _knee(options: Sequence[ClusterOption], worth: float) -> ClusterOption | None:
    """Return the largest option that gains ``worth`` or more for each doubling of price."""
    knee = None
    for option in options:
        if knee is None or (faster(option, knee) and _returns(knee, option) >= worth):
            knee = option
    return knee


def _returns(smaller: ClusterOption, larger: ClusterOption) -> float:
    """Return the gain of throughput for each doubling of price, 0.5 for 50 %."""
    if smaller.time_s is None or larger.time_s is None:
        return 0.0
    doublings = math.log2(_size(larger)[0] / _size(smaller)[0])
    gained = math.log2(smaller.time_s.point / larger.time_s.point)
    if doublings <= 0:
        return math.inf if gained > 0 else 0.0
    return math.pow(2, gained / doublings) - 1


def best_of(variants: Iterable[ClusterOption], base: ClusterOption) -> ClusterOption | None:
    """Return the cheapest variant of a cluster, if it is surely faster."""
    better = [variant for variant in variants if faster(variant, base)]
    return min(better, key=_spent, default=None)


def pays(variant: ClusterOption, base: ClusterOption) -> bool:
    """Return whether the variant costs less for the whole job; False if a price is unknown."""
    return all(
        a.cost is not None and b.cost is not None and a.cost.point < b.cost.point
        for a, b in at_both_ends(variant, base)
    )


def on_host(calibrations: Sequence[Calibration], host: HostKind) -> Calibration | None:
    """Return the calibration that fits a kind of host; None without one.

    Without a calibration of that kind of host, one of another host with the same accelerator fits:
    ``predict`` then takes the links from the data sheet of ``host``.
    """
    same = (calibration for calibration in calibrations if is_same(calibration.host, host))
    same_accelerator = (
        calibration
        for calibration in calibrations
        if calibration.host.accelerator == host.accelerator != "CPU"
    )
    return next(same, None) or next(same_accelerator, None)


def called(host: HostKind) -> str:
    """Return the name of a kind of host, such as ``NVIDIA_TESLA_V100 of n1-standard-32``."""
    words = (host.accelerator or "CPU", host.machine_type)
    return " of ".join(word for word in words if word)


def is_same(measured: HostKind, host: HostKind) -> bool:
    """Return whether ``host`` is of the measured kind; an unnamed machine type fits any."""
    if measured.accelerator != host.accelerator:
        return False
    if measured.machine_type not in {"", host.machine_type}:
        return False
    return host.accelerator == "CPU" or measured.per_host == host.per_host
