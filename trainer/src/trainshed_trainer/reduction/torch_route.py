"""Selects the sizes of tensors that go to the reducers, by measurement.

Two hops are faster than a ring for small tensors, fixed costs make reducers slower for medium ones,
and the links decide for large ones (docs/sources/reduction.md 0).  Therefore each class of sizes
has its own choice; one threshold would not be enough.
"""

from __future__ import annotations

import time
from math import inf, sqrt
from statistics import median
from typing import Callable, Mapping, NamedTuple, Sequence

import torch

from trainshed_trainer import contract
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.torch_inner import RankChannel

MEASURED = "measured"
ALWAYS = "always"

#: The sizes that are tried, in bytes.
SIZES = (4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20)
#: From this size on, reducers are preferred: in ties, and for sizes that were not measured.
LARGE = 1 << 20
#: Times that differ by less than this factor are a tie.
TIE = 1.05
#: Seconds for all measurements, and the most pairs of measurements for a size.
BUDGET_S = 2.0
PAIRS_MAX = 15

Timed = Callable[[torch.Tensor], None]


class RouteSample(NamedTuple):
    """The seconds for tensors of ``nbytes``, through the inner group and through reducers."""

    nbytes: int
    inner: float
    reducers: float


class Route(NamedTuple):
    """Ascending ``(bytes, whether to reducers)``; each applies to tensors of up to these bytes.

    Larger tensors go to the reducers.
    """

    classes: tuple[tuple[float, bool], ...] = ()

    def to_reducers(self, nbytes: int) -> bool:
        """Return whether a tensor of this size goes to the reducers."""
        return next((by_reducers for limit, by_reducers in self.classes if nbytes <= limit), True)

    def __str__(self) -> str:
        """Return the text for the log: ``up to 128 KB by gloo or nccl, above by reducers``."""
        words: list[tuple[float, bool]] = []
        for limit, by_reducers in [*self.classes, (inf, self.to_reducers(1 << 62))]:
            if words and words[-1][1] == by_reducers:
                words.pop()
            words.append((limit, by_reducers))
        if len(words) == 1:
            return f"all {_describe_way(words[0][1])}"
        return ", ".join(
            f"{_describe_limit(limit)} {_describe_way(by_reducers)}" for limit, by_reducers in words
        )


def choose_route(samples: Sequence[RouteSample]) -> Route:
    """Make the route from samples; a sample applies to sizes up to halfway to the next sample.

    The choice of the largest sample also applies to larger sizes if that sample is ``LARGE``.
    """
    classes: list[tuple[float, bool]] = []
    for sample, following in zip(samples, [*samples[1:], None]):
        limit = sqrt(sample.nbytes * following.nbytes) if following else _last_limit(sample)
        classes.append((limit, _prefers_reducers(sample)))
    return Route(tuple(classes))


def route_setting(environ: Mapping[str, str]) -> str:
    """Read ``measured`` or ``always``; :class:`ReductionError` for any other value."""
    setting = environ.get(contract.TRAINSHED_REDUCTION_ROUTE) or MEASURED
    if setting not in (MEASURED, ALWAYS):
        raise ReductionError(
            f"{contract.TRAINSHED_REDUCTION_ROUTE} must be {MEASURED} or {ALWAYS}, got {setting!r}"
        )
    return setting


def measure_route(
    control: RankChannel,
    inner: Timed,
    reducers: Timed,
    device: torch.device,
    budget: float = BUDGET_S,
) -> Route:
    """Time both routes on all ranks, alternately; every rank gets the same result.

    The time of an all-reduce is that of the slowest rank; of several all-reduces, the median
    counts.  Sizes that do not fit into ``budget`` seconds are left out, the largest first.
    """
    began, samples = time.monotonic(), []
    for place, size in enumerate(SIZES):
        tensor = torch.zeros(size // 4, device=device)
        warm_up = sum(_slowest(control, tensor, (inner, reducers)))
        left = budget - control.maxima([time.monotonic() - began])[0]
        pairs = min(PAIRS_MAX, int(left / (len(SIZES) - place) / max(warm_up, 1e-6)))
        if pairs < 1:
            break
        samples.append(_sample(control, tensor, inner, reducers, pairs))
    return choose_route(samples)


def _sample(
    control: RankChannel, tensor: torch.Tensor, inner: Timed, reducers: Timed, pairs: int
) -> RouteSample:
    inner_s, reducers_s = [], []
    for pair in range(pairs):
        if pair % 2:
            second, first = _slowest(control, tensor, (reducers, inner))
        else:
            first, second = _slowest(control, tensor, (inner, reducers))
        inner_s.append(first)
        reducers_s.append(second)
    size = tensor.numel() * tensor.element_size()
    return RouteSample(size, median(inner_s), median(reducers_s))


def _slowest(control: RankChannel, tensor: torch.Tensor, ways: Sequence[Timed]) -> list[float]:
    """Return the seconds of each of ``ways`` on its slowest rank."""
    seconds = []
    for way in ways:
        control.maxima([0.0])  # all begin together
        begun = time.monotonic()
        way(tensor)
        seconds.append(time.monotonic() - begun)
    return control.maxima(seconds)


def _prefers_reducers(sample: RouteSample) -> bool:
    if sample.nbytes >= LARGE:
        return sample.reducers <= sample.inner * TIE
    return sample.reducers * TIE < sample.inner


def _last_limit(sample: RouteSample) -> float:
    return inf if sample.nbytes >= LARGE else float(LARGE - 1)


def _describe_limit(limit: float) -> str:
    return "above" if limit == inf else f"up to {limit / 1024:.0f} KB"


def _describe_way(reducers: bool) -> str:  # noqa: FBT001 - a route's own word
    return "by reducers" if reducers else "by gloo or nccl"
