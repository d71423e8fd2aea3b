"""Makes the plan of a job: the predictions for every cluster, and the recommended ones."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from trainshed.model.texts import count_noun
from trainshed.planning.clusters_asked import (
    clusters,
    matching_reducers,
    with_known_links,
    with_reducers,
)
from trainshed.planning.links import UNKNOWN_LINKS, measure_links
from trainshed.planning.marks import (
    OptionMarks,
    are_comparable,
    best_of,
    faster,
    is_cheaper,
    marks_of,
    meets,
    pays,
)
from trainshed.planning.next_command import measure_command
from trainshed.planning.plan_request import BatchRule, PlanRequest
from trainshed.planning.planned_jobs import PlannedJob
from trainshed.planning.prices import PriceList
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.prediction import NoPrediction
from trainshed.planning.what_ifs import ClusterOption, TrainingWork, WhatIf, weigh

ONLY_RATIOS: Final = "published jobs show how such a training scales, not how long it takes"

_MORE: Final = {"deadline": "a later deadline", "budget": "a larger budget"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    job: PlannedJob
    request: PlanRequest
    work: TrainingWork
    prices: PriceList
    options: tuple[ClusterOption, ...]
    marks: OptionMarks
    own: ClusterOption
    """The option in the first line: the job's own cluster, else the knee."""
    reduced: ClusterOption | None = None
    """The same cluster with reducers, if they make it surely faster."""
    warnings: tuple[str, ...] = ()
    """Warnings on the whole plan, for the first line."""

    @property
    def refused(self) -> NoPrediction | None:
        """The reason why there is no plan; None if there is a plan."""
        requested = [option for option in self.options if option.what_if.is_asked] or self.options
        if any(option.prediction for option in requested):
            return self._unmet()
        answers = (option.answer for option in (self.own, *requested))
        return next((answer for answer in answers if isinstance(answer, NoPrediction)), None)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The machines without a price, without duplicates."""
        machine_sets = (option.what_if.machines for option in self.options if option.prediction)
        return tuple(
            dict.fromkeys(why for machines in machine_sets for why in self.prices.lacking(machines))
        )

    def _unmet(self) -> NoPrediction | None:
        request = self.request
        if not request.has_limits or self.marks.meets:
            return None
        if request.budget < float("inf") and not any(option.cost for option in self.options):
            return NoPrediction(
                field="budget",
                message="; ".join(self.unpriced),
                accepted="--prices FILE, with their prices per hour",
            )
        if any(_may_meet(request, option) for option in self.options):
            return NoPrediction(
                field="network-gbps",
                message="whether a cluster meets it depends on the links between hosts, which were "
                "not measured",
                accepted=measure_links(request.file),
            )
        bounds = {"deadline": request.deadline, "budget": request.budget}
        fields = [field for field, bound in bounds.items() if bound < float("inf")]
        if any(option.rate_factor == float("inf") for option in self.options):
            return NoPrediction(
                field=fields[0],
                message=ONLY_RATIOS,
                accepted=measure_command(request.file),
            )
        words = " and the ".join(fields)
        return NoPrediction(
            field=fields[0],
            message=f"no cluster surely meets the {words} at the pessimistic end of its interval",
            accepted=", ".join([*(_MORE[field] for field in fields), "or other what-ifs"]),
        )

    def notes(self, option: ClusterOption) -> Iterator[str]:
        """Yield remarks on an option."""
        yield from self.marks.of(option)
        if isinstance(option.answer, NoPrediction):
            yield _refusal(option.answer)
            return
        if option.answer.extrapolated or option.is_measured:
            yield "measured" if option.is_measured else "extrapolated"
        if words := "; ".join(self._describe_batch(option)):
            yield words
        if option.what_if.memory and option.what_if.memory.is_tight:
            yield "memory is tight"
        if _is_idle(self.job, option):
            yield self._idle(option)
        elif (base := self._without_reducers(option)) and pays(option, base):
            yield "its reducers are worth their price"
        if option.ends:
            yield UNKNOWN_LINKS
        smaller = self._before(option)
        if smaller and faster(smaller, option):
            yield f"slower than {smaller.cluster.accelerators}"
        elif smaller and not option.ends and not faster(option, smaller):
            yield f"no difference that can be told from {smaller.cluster.accelerators}"

    def _describe_batch(self, option: ClusterOption) -> Iterator[str]:
        batch = option.what_if.batch
        samples = batch.samples * option.cluster.accelerators
        if batch.micro_batches > 1:
            micro = batch.samples / batch.micro_batches
            yield f"{batch.micro_batches} micro batches of {micro:,.12g}"
        if self.request.batch is BatchRule.KEEP_GLOBAL and samples != self.work.global_batch:
            yield f"a step has {samples:,.12g} samples"

    @property
    def fewer(self) -> ClusterOption | None:
        """Return the option with fewer accelerators that is surely faster and cheaper, or None."""
        if not are_comparable(self.options):
            return None
        own, best = self.own, self.reduced or self.own
        candidates = [
            option
            for option in self.options
            if option.cluster.accelerators < own.cluster.accelerators
            and faster(option, best)
            and is_cheaper(option, own)
        ]
        return best_of(candidates, own)

    @property
    def unmarked(self) -> str:
        """The reason why no option is recommended; empty if one is."""
        if not are_comparable(self.options):
            return "published jobs of this size do not show which accelerator is faster"
        idle = [
            option for option in self.options if option.prediction and _is_idle(self.job, option)
        ]
        if not idle or self.marks.fastest:
            return ""
        return self._idle(self.own if self.own in idle else idle[-1])

    def _idle(self, option: ClusterOption) -> str:
        enough = matching_reducers(self.job, option.cluster)
        does = "matches" if enough == 1 else "match"
        return f"{count_noun(enough, 'reducer')} {does} the workers, and more are idle"

    def _without_reducers(self, option: ClusterOption) -> ClusterOption | None:
        if not option.cluster.reducers:
            return None
        plain = option.cluster.without_reducers
        return next((other for other in self.options if other.cluster == plain), None)

    def _before(self, option: ClusterOption) -> ClusterOption | None:
        """Return the next smaller cluster of the same kind; None if there is none."""
        cluster = option.cluster
        smaller = [
            other
            for other in self.options
            if other.prediction
            and other.cluster.host == cluster.host
            and (other.cluster.reducers > 0) == (cluster.reducers > 0)
            and other.cluster.accelerators < cluster.accelerators
        ]
        return max(smaller, key=lambda other: other.cluster.accelerators, default=None)


def _may_meet(request: PlanRequest, option: ClusterOption) -> bool:
    """Return whether an option with unknown links would meet the limits with fast ones."""
    return bool(option.ends) and meets(request, option.ends[1])


def _refusal(answer: NoPrediction) -> str:
    return f"{answer.field}: {answer.message}"


def plan_of(
    job: PlannedJob,
    request: PlanRequest,
    calibrations: Sequence[Calibration],
    work: TrainingWork,
    prices: PriceList,
) -> JobPlan:
    """Predict every cluster of the request and choose the recommended ones."""
    job = with_known_links(job, request, calibrations)
    predict = partial(weigh, request=request, work=work, prices=prices)
    options: list[ClusterOption] = []
    what_ifs = list(clusters(job, request, calibrations))
    requested = {what_if.cluster for what_if in what_ifs}
    for what_if in what_ifs:
        option = predict(what_if)
        options.append(option)
        better = _add_reducers(job, option, predict) if request.reducers is None else None
        if better and better.cluster not in requested:
            options.append(better)
    sound = [option for option in options if not _is_idle(job, option)]
    marks = marks_of(sound, request)
    own = next((option for option in options if option.what_if.is_own), None)
    own = own or marks.knee or options[-1]
    return JobPlan(
        job=job,
        request=request,
        work=work,
        prices=prices,
        options=tuple(options),
        marks=marks,
        own=own,
        reduced=_find_improvement(own, options),
    )


def _find_improvement(own: ClusterOption, options: Sequence[ClusterOption]) -> ClusterOption | None:
    """Return the cluster with reducers, or with more reducers, if it is surely faster."""
    if own.what_if.parts:
        return None
    variants = [
        option
        for option in options
        if option.cluster.reducers > own.cluster.reducers
        and option.cluster.without_reducers == own.cluster.without_reducers
    ]
    return best_of(variants, own)


def _is_idle(job: PlannedJob, option: ClusterOption) -> bool:
    """Whether some of its reducers are idle."""
    return option.cluster.reducers > matching_reducers(job, option.cluster) > 0


def _add_reducers(
    job: PlannedJob, option: ClusterOption, predict: Callable[[WhatIf], ClusterOption]
) -> ClusterOption | None:
    """Return the cluster with reducers, if it is surely faster than without; else None."""
    if not option.prediction:
        return None
    return best_of(map(predict, with_reducers(job, option.what_if)), option)
