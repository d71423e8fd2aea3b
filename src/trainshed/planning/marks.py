"""Recommends clusters: the fastest, the cheapest, and the last that is worth its price.

An option is recommended over another only if its interval does not contain the other's point.  A
cluster whose links are unknown is never recommended, and another cluster only if it would be with
slow and with fast links.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from trainshed.planning.plan_request import PlanRequest
from trainshed.planning.what_ifs import ClusterOption

#: The largest power of two that counts: a larger one of clusters of nearly one price overflows.
_POWER_MAX: Final = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionMarks:
    """The recommended options."""

    fastest: ClusterOption | None = None
    cheapest: ClusterOption | None = None
    knee: ClusterOption | None = None
    """The largest option whose last doubling of price still gains enough throughput."""
    meets: ClusterOption | None = None
    """The cheapest option within deadline and budget; None without limits or such an option."""
    unknown: Mapping[str, Sequence[ClusterOption]] = field(default_factory=dict)
    """For recommendations that depend on unknown links: the options with slow and fast ones."""

    def of(self, option: ClusterOption) -> tuple[str, ...]:
        """Return the marks of an option."""
        marks = {"fastest": self.fastest, "cheapest": self.cheapest, "knee": self.knee}
        marks["meets it"] = self.meets
        return tuple(name for name, marked in marks.items() if marked is option)


def marks_of(options: Sequence[ClusterOption], request: PlanRequest) -> OptionMarks:
    """Return the recommended options, and the recommendations that depend on unknown links."""
    if not are_comparable(options):
        return OptionMarks()
    with_links = [option for option in options if not option.ends]
    slow, fast = (_marks_at(options, end, request) for end in (0, 1))
    sure = {
        name: option
        for name, option in slow.items()
        if option is fast[name] and not (option and option.ends)
    }
    unknown = {
        name: tuple(filter(None, (option, fast[name])))
        for name, option in slow.items()
        if name not in sure
    }
    return OptionMarks(**sure, meets=_find_meeting(with_links, request), unknown=unknown)


def are_comparable(options: Sequence[ClusterOption]) -> bool:
    """Return whether the times of options are: ratios hold for one kind of accelerator only."""
    predicted = [option for option in options if option.prediction]
    is_relative = any(option.rate_factor == math.inf for option in predicted)
    return not is_relative or len({option.cluster.host.accelerator for option in predicted}) <= 1


def _marks_at(
    options: Sequence[ClusterOption], end: int, request: PlanRequest
) -> dict[str, ClusterOption | None]:
    """Return by name the options that would be recommended with slow (0) or with fast links (1)."""
    at_end = [option.ends[end] if option.ends else option for option in options]
    origins = {id(same): option for option, same in zip(options, at_end, strict=True)}
    predicted = [option for option in at_end if option.prediction]
    comparables = sorted(comparable(predicted), key=_size)
    is_priced = len(comparables) == len(predicted)
    marks = {
        "fastest": _fastest(sorted(predicted, key=_size if is_priced else _machines)),
        "cheapest": _cheapest(comparables),
        "knee": _knee(comparables, request.worth),
    }
    return {name: marked and origins[id(marked)] for name, marked in marks.items()}


def _find_meeting(options: Sequence[ClusterOption], request: PlanRequest) -> ClusterOption | None:
    """Return the cheapest option that keeps the limits; None without limits."""
    meeting = [option for option in options if request.has_limits and meets(request, option)]
    return min(comparable(meeting), key=_spent, default=None)


def meets(request: PlanRequest, option: ClusterOption) -> bool:
    """Return whether an option keeps deadline and budget at its interval's pessimistic end."""
    option = option.shown
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
    return math.pow(2, min(gained / doublings, _POWER_MAX)) - 1


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
