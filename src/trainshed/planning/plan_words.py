"""Formats a plan: one sentence for the job, then the recommended what-ifs.

``16 GPUs: 11.2 times one (9.8 to 12.0), 4.1 h, 212 USD; limited by links between hosts; 8 reducers
would make it 13.0 times for 4 USD more``
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence

from trainshed.model.texts import count_noun
from trainshed.planning.amounts import (
    DURATION_UNITS,
    amount_words,
    figure,
    figure2,
    lasting,
    money,
)
from trainshed.planning.job_plan import JobPlan
from trainshed.planning.links import FAST_GBPS, SLOW_GBPS, measure_links
from trainshed.planning.next_command import measure_command, next_command
from trainshed.planning.scaling.cluster import Cluster
from trainshed.planning.scaling.prediction import Interval, NoPrediction, Prediction
from trainshed.planning.what_ifs import ClusterOption


def noun(cluster: Cluster) -> str:
    """Return the count of accelerators with their kind: ``16 GPUs``."""
    return count_noun(cluster.accelerators, cluster.host.unit)


def unit_noun(plan: JobPlan) -> str:
    """Return what the plan counts: ``GPU``, ``CPU replica``, or ``accelerator`` for several."""
    units = {option.cluster.host.unit for option in plan.options}
    return units.pop() if len(units) == 1 else "accelerator"


def lasting_between(value: Interval, *, has_point: bool = True) -> str:
    """Format an interval of durations, all in one unit: ``4.1 h [3.9 to 4.4]``.

    Without a point: ``3.9 to 4.4 h``.
    """
    unit, name = next(
        ((unit, name) for least, unit, name in DURATION_UNITS if value.point >= least), (1.0, "s")
    )
    low, point, high = (figure2(seconds / unit) for seconds in (value.low, value.point, value.high))
    return f"{point} {name} [{low} to {high}]" if has_point else f"{low} to {high} {name}"


def price_words(plan: JobPlan, option: ClusterOption) -> str:
    """Format the cost of an option; without a price its accelerator-hours, and the reason.

    If only ratios are known, it is the price of an hour.
    """
    option = option.shown
    if option.cost and option.hour:
        return cost_words(option)
    if option.accelerator_hours:
        kind = "CPU" if option.cluster.host.trains_on_cpus else "accelerator"
        why = next(plan.prices.lacking(option.what_if.machines), "no price is known")
        hours = option.accelerator_hours
        return f"{point_or_range(option, hours, figure2)} {kind}-hours ({why})"
    return _hour_words(option)


def _hour_words(option: ClusterOption) -> str:
    hour = option.hour if option.prediction else None
    return f"{money(hour.amount, hour.currency)} an hour" if hour else ""


def cost_words(option: ClusterOption) -> str:
    """Format the cost of an option; without a price its accelerator-hours.

    If only ratios are known, it is the price of an hour.
    """
    option = option.shown
    if option.cost and option.hour:
        return f"{point_or_range(option, option.cost, amount_words)} {option.hour.currency}"
    hours = option.accelerator_hours
    if hours is None:
        return _hour_words(option)
    return f"{point_or_range(option, hours, figure)} h"


def head(plan: JobPlan, *, says_fewer: bool = True) -> str:
    """Describe the job in a sentence; with ``says_fewer``, also a better, smaller cluster."""
    option = plan.own
    name = noun(option.cluster)
    if isinstance(option.answer, NoPrediction):
        answer = option.answer
        command = next_command(answer, plan.request)
        parts = [
            f"no prediction; run: {command}" if command else "no prediction",
            bounds(option),
            f"{answer.field}: {answer.message}",
            f"accepted: {answer.accepted}",
        ]
        return f"{name}: {'; '.join(filter(None, parts))}"
    figures = (_times(option), _how_long(plan, option), price_words(plan, option))
    parts = [": ".join(filter(None, (name, ", ".join(filter(None, figures)))))]
    if option.what_if.calibration and option.what_if.calibration.is_published:
        command = measure_command(plan.request.file)
        parts.append(f"from published jobs like it; measure for samples/s: {command}")
    if option.ends:
        file = plan.request.file
        parts.append(
            f"the links between hosts were not measured, {SLOW_GBPS:g} to {FAST_GBPS:g} Gbit/s are "
            "assumed, and slower links give less; measure them"
            f"{'' if file else ' for --stream-gbps'}: {measure_links(file)}"
        )
    parts.append(f"limited by {limited_by(option)}")
    parts += (*plan.warnings, *option.answer.warnings)
    if plan.fewer:
        parts += [_fewer(plan, plan.fewer)] if says_fewer else []
    elif plan.reduced and plan.reduced.prediction:
        parts.append(_with_reducers(plan.own, plan.reduced, plan.reduced.prediction))
    return "; ".join(parts)


def limited_by(option: ClusterOption) -> str:
    """Return the bottleneck; with unknown links, what it is with slow and with fast ones."""
    if not option.ends:
        return option.prediction.bound_by.value if option.prediction else ""
    slow, fast = (end.prediction.bound_by.value for end in option.ends if end.prediction)
    return slow if slow == fast else f"{slow} or {fast}"


def _times(option: ClusterOption) -> str:
    prediction = option.prediction
    if prediction is None or is_base(option):
        return ""
    base = prediction.base_accelerators
    shown = option.shown.prediction or prediction
    if base == prediction.cluster.accelerators and prediction.rate_factor < math.inf:
        rate = shown.samples_per_s
        return f"{figure(rate.point)} samples/s ({figure(rate.low)} to {figure(rate.high)})"
    times = prediction.speedup.times(1 / base)
    base_words = "one" if base == 1 else f"the {base} that were measured"
    ends = f"{_short(times.low)} to {_short(times.high)}"
    if option.ends:
        return f"{ends} times {base_words}"
    return f"{_short(times.point)} times {base_words} ({ends})"


def is_base(option: ClusterOption) -> bool:
    """Whether an option of which only ratios are known is the one that they compare with."""
    prediction = option.prediction
    return (
        prediction is not None
        and option.rate_factor == math.inf
        and prediction.base_accelerators == option.cluster.accelerators
    )


def _short(value: float) -> str:
    return f"{value:,.1f}" if value >= 1 else f"{value:.2f}"


def _how_long(plan: JobPlan, option: ClusterOption) -> str:
    option = option.shown
    if option.time_s is None:
        return ""
    return f"{point_or_range(option, option.time_s, lasting)} {plan.work.words}".rstrip()


def point_or_range(option: ClusterOption, value: Interval, words: Callable[[float], str]) -> str:
    """Format the point of an option's value; with unknown links its range."""
    return f"{words(value.low)} to {words(value.high)}" if option.ends else words(value.point)


def bounds(option: ClusterOption) -> str:
    """Format the upper bound (a linear gain) if there is no prediction; else empty."""
    answer = option.answer
    if not isinstance(answer, NoPrediction):
        return ""
    if answer.samples_per_s:
        return f"at most {figure(answer.samples_per_s[1])} samples/s"
    n = option.cluster.accelerators
    return f"at most {n:,} times one" if option.what_if.calibration is None and n > 1 else ""


def _fewer(plan: JobPlan, option: ClusterOption) -> str:
    """Describe the option with fewer hosts, which is better than reducers."""
    name = noun(option.cluster)
    if option.shown.time_s is None:
        figures = filter(None, (_times(option), price_words(plan, option)))
        return f"{name} would be faster: {', '.join(figures)}"
    time = lasting(option.time_s.point) if option.time_s else ""
    return f"{name} would take {time}, {price_words(plan, option)}"


def _with_reducers(base: ClusterOption, reduced: ClusterOption, prediction: Prediction) -> str:
    count = reduced.cluster.reducers
    times = prediction.speedup.times(1 / prediction.base_accelerators)
    text = point_or_range(reduced, times, _short)
    words = f"{count_noun(count, 'reducer')} would make it {text} times"
    if not reduced.ends and base.shown.cost and base.cost and reduced.cost and reduced.hour:
        more = reduced.cost.point - base.cost.point
        side = "more" if more > 0 else "less"
        return f"{words} for {money(abs(more), reduced.hour.currency)} {side}"
    return words


def recommendations(plan: JobPlan) -> Iterator[str]:
    """Yield a line for each recommended option."""
    marks = plan.marks
    named = {"fastest": marks.fastest, "cheapest": marks.cheapest, "knee": marks.knee}
    for name, option in named.items():
        if option:
            yield f"{name:<9} {_name_cluster(plan, option)}"
        elif name in marks.unknown:
            yield f"{name:<9} {_depends(marks.unknown[name])}"
    if plan.unmarked:
        yield f"nothing is recommended: {plan.unmarked}"
    if plan.request.has_limits:
        words = _name_cluster(plan, marks.meets) if marks.meets else _refusal(plan.refused)
        yield f"{'meets it':<9} {words} ({_limits(plan)})"


def _depends(options: Sequence[ClusterOption]) -> str:
    """Say which options would be recommended with slow and with fast links."""
    slow, fast = (noun(option.cluster) for option in options)
    words = f"{slow} with {SLOW_GBPS:g} Gbit/s, {fast} with {FAST_GBPS:g} Gbit/s"
    if options[0] is options[1]:
        words = f"{slow}, if they have {SLOW_GBPS:g} to {FAST_GBPS:g} Gbit/s"
    return f"not known without the links between hosts: {words}"


def _limits(plan: JobPlan) -> str:
    request, words = plan.request, []
    if request.deadline < math.inf:
        words.append(f"deadline {lasting(request.deadline)}")
    if request.budget < math.inf:
        currency = next((option.hour.currency for option in plan.options if option.hour), "")
        words.append(f"budget {money(request.budget, currency)}".rstrip())
    return ", ".join(words)


def _refusal(refused: NoPrediction | None) -> str:
    return f"{refused.message}; accepted: {refused.accepted}" if refused else ""


def _name_cluster(plan: JobPlan, option: ClusterOption) -> str:
    cluster = option.cluster
    words = noun(cluster)
    if machine := option.machine_type:
        count = "" if option.what_if.parts else f"{cluster.hosts} x "
        words += f" on {count}{machine}"
    if cluster.reducers:
        words += f" with {count_noun(cluster.reducers, 'reducer')}"
    figures = [_how_long(plan, option), price_words(plan, option)]
    if option.rate_factor == math.inf:
        figures.insert(0, _times(option))
    return f"{words}: {', '.join(filter(None, figures))}"


def remarks(plan: JobPlan) -> Iterator[str]:
    """Yield remarks on the figures and their sources."""
    if not any(option.prediction for option in plan.options):
        return
    yield from (f"Of larger or other clusters: {warning}." for warning in _others_warnings(plan))
    factor = max(option.rate_factor for option in plan.options)
    base = "the smallest count measured" if factor == 1 else f"one {unit_noun(plan)}"
    yield f"In brackets are 80 % intervals; efficiency is against {base}."
    if 1 < factor < math.inf:
        yield (
            f"Published jobs of this model are up to {factor:.2g} times faster or slower, which "
            "the intervals of samples/s, times and costs hold; clusters are compared without that."
        )
    if any(option.ends for option in plan.options):
        yield (
            f"Rows without a point are for links of {SLOW_GBPS:g} to {FAST_GBPS:g} Gbit/s; slower "
            "links give less. Give what is known of them: --stream-gbps with the rate that "
            "iperf3 -c HOST prints between two hosts, --network-gbps with the nominal rate, or "
            "--network-gbps catalog on Google's own machines."
        )
    if plan.unpriced:
        why = "; ".join(plan.unpriced)
        yield f"{why[0].upper()}{why[1:]}: COST has accelerator-hours (h) instead."
    prices = next((option.hour for option in plan.options if option.hour), None)
    if prices:
        dates = f" of {' and '.join(prices.dates)}" if prices.dates else ""
        yield f"Prices{dates}: {'; '.join(prices.sources)}."


def _others_warnings(plan: JobPlan) -> Iterator[str]:
    """Return the warnings on other clusters that the job's own do not have."""
    options = [plan.own, *plan.options]
    kinds: set[str] = set()
    for option in options:
        for warning in option.prediction.warnings if option.prediction else ():
            kind = re.sub(r"\d+", "", warning)
            if kind not in kinds and option is not plan.own:
                yield warning
            kinds.add(kind)


def interval(value: Interval | None, *, has_point: bool = True) -> str:
    """Format an interval: ``1,240 [1,100 to 1,300]``; empty for None.

    Without a point: ``1,100 to 1,300``.
    """
    if value is None:
        return ""
    ends = f"{figure(value.low)} to {figure(value.high)}"
    return f"{figure(value.point)} [{ends}]" if has_point else ends
