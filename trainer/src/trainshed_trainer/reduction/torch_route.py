"""Which tensors go to the reducers: those that are faster there, by measurement.

Two hops beat a ring for small tensors, fixed costs beat the reducers in the middle, and links
decide for large ones (docs/sources/reduction.md 0): hence a choice for each class of sizes, and not
one threshold.
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
#: From this size on, reducers are what is wanted: they win ties, and what was not measured.
LARGE = 1 << 20
#: Times that differ by less than this factor are a tie.
TIE = 1.05
#: Seconds that all of it may take, and most pairs of a size.
BUDGET_S = 2.0
PAIRS_MAX = 15

Timed = Callable[[torch.Tensor], None]


class RouteSample(NamedTuple):
    """Seconds that tensors of ``nbytes`` take, through the inner group and through reducers."""

    nbytes: int
    inner: float
    reducers: float


class Route(NamedTuple):
    """``(bytes, whether to reducers)``, ascending: each goes for tensors of up to so many bytes.

    Larger ones than all go to the reducers.
    """

    classes: tuple[tuple[float, bool], ...] = ()

    def to_reducers(self, nbytes: int) -> bool:
        """Whether a tensor of this size goes to the reducers."""
        return next((there for limit, there in self.classes if nbytes <= limit), True)

    def __str__(self) -> str:
        """As the log says it: ``up to 128 KB by gloo or nccl, above by reducers``."""
        words: list[tuple[float, bool]] = []
        for limit, there in [*self.classes, (inf, self.to_reducers(1 << 62))]:
            if words and words[-1][1] == there:
                words.pop()
            words.append((limit, there))
        if len(words) == 1:
            return f"all {_way(words[0][1])}"
        return ", ".join(f"{_limit(limit)} {_way(there)}" for limit, there in words)


def chosen(samples: Sequence[RouteSample]) -> Route:
    """The route by what was measured; each size stands for all up to halfway to the next.

    Beyond the largest that was measured its choice holds, if it was large at all.
    """
    classes: list[tuple[float, bool]] = []
    for sample, following in zip(samples, [*samples[1:], None]):
        limit = sqrt(sample.nbytes * following.nbytes) if following else _beyond(sample)
        classes.append((limit, _wins(sample)))
    return Route(tuple(classes))


def route_setting(environ: Mapping[str, str]) -> str:
    """``measured`` or ``always``; :class:`ReductionError` for anything else."""
    setting = environ.get(contract.TRAINSHED_REDUCTION_ROUTE) or MEASURED
    if setting not in (MEASURED, ALWAYS):
        raise ReductionError(
            f"{contract.TRAINSHED_REDUCTION_ROUTE} is {MEASURED} or {ALWAYS}, not {setting!r}"
        )
    return setting


def measured(
    control: RankChannel,
    inner: Timed,
    reducers: Timed,
    device: torch.device,
    budget: float = BUDGET_S,
) -> Route:
    """Time both ways on all ranks, in turn; every rank gets the same route.

    An all-reduce takes as long as it takes on the slowest rank; of several, the median counts,
    since that is how long they will mostly take.  What does not fit into ``budget`` seconds is
    left out, the largest sizes first.
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
    return chosen(samples)


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
    """Seconds of each of ``ways``, on the rank where it took longest."""
    seconds = []
    for way in ways:
        control.maxima([0.0])  # all begin together
        begun = time.monotonic()
        way(tensor)
        seconds.append(time.monotonic() - begun)
    return control.maxima(seconds)


def _wins(sample: RouteSample) -> bool:
    if sample.nbytes >= LARGE:
        return sample.reducers <= sample.inner * TIE
    return sample.reducers * TIE < sample.inner


def _beyond(sample: RouteSample) -> float:
    return inf if sample.nbytes >= LARGE else float(LARGE - 1)


def _limit(limit: float) -> str:
    return "above" if limit == inf else f"up to {limit / 1024:.0f} KB"


def _way(reducers: bool) -> str:  # noqa: FBT001 - a route's own word
    return "by reducers" if reducers else "by gloo or nccl"
