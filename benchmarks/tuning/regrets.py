"""Compares searches by their regret: ranks, medians, areas, and intervals of differences.

A regret is (score - floor) / (usual score - floor): 0 is the optimum, 1 a usual random point.  If
the floor is unknown, the best score of all searches replaces it.  For two objectives the regret is
1 - hypervolume / largest hypervolume.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.tuning.problems import problem
from benchmarks.tuning.runs import Cell, Run, data_seed, usual

#: Smaller regrets count as this one; the second value where the floor is unknown.
LEAST: Final = 1e-5
LEAST_UNKNOWN: Final = 1e-3
#: A search without a feasible trial counts as ten times as bad as a usual point.
MOST: Final = 10.0
_RESAMPLES: Final = 2000
#: The share of resamples inside the interval.
_INSIDE: Final = 0.9

Path = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The mean paired difference in log10 regret, its interval, and the number of pairs."""

    mean: float
    low: float
    high: float
    pairs: int


@dataclass(frozen=True, kw_only=True)
class Regrets:
    """The regret after each trial, by peer and cell, within ``LEAST`` and ``MOST``."""

    by_peer: Mapping[str, Mapping[Cell, Path]]

    def where(self, keep: Callable[[Cell], bool]) -> "Regrets":
        """Return those of some cells, without the peers that have none."""
        parts = {
            name: {cell: path for cell, path in paths.items() if keep(cell)}
            for name, paths in self.by_peer.items()
        }
        return Regrets(by_peer={name: paths for name, paths in parts.items() if paths})

    def median(self, peer: str, trials: int) -> float:
        """Return the median regret of a peer after some trials."""
        return float(median(path[trials - 1] for path in self.by_peer[peer].values()))

    def area(self, peer: str) -> float:
        """Return the mean log10 regret over all trials: the area under the best so far."""
        return float(np.mean([np.mean(np.log10(path)) for path in self.by_peer[peer].values()]))

    def pairs(
        self, first: str, second: str, trials: int | None = None
    ) -> list[tuple[float, float]]:
        """Return the regrets of two peers in their common cells, after some or all trials."""
        own, other = self.by_peer[first], self.by_peer[second]
        at = -1 if trials is None else trials - 1
        return [(own[cell][at], other[cell][at]) for cell in sorted(set(own) & set(other))]

    def rank(self, peer: str) -> float:
        """Return the mean rank of a peer at the end, from 1; equal peers share their ranks.

        It is 1 plus the sum, over the other ``ranked`` peers, of the share of common cells in which
        the other is better, so that a peer with missing searches can be compared.
        """
        others = [name for name in self.ranked if name != peer]
        return 1 + sum(_behind(self.pairs(peer, name)) for name in others)

    def list_peers(self, share: float) -> list[str]:
        """Return the peers that searched at least a share of the problems, with any seeds."""
        problems = {name: {cell.problem for cell in paths} for name, paths in self.by_peer.items()}
        count = len(set().union(*problems.values()))
        return [name for name, searched in problems.items() if len(searched) >= share * count]

    @cached_property
    def ranked(self) -> list[str]:
        """Return the peers that searched at least a third of the problems.

        A peer whose searches cost minutes has fewer seeds than the others.
        """
        return self.list_peers(1 / 3)

    @cached_property
    def ranks(self) -> Mapping[str, float]:
        """Return the mean rank of each ranked peer."""
        return {name: self.rank(name) for name in self.ranked}

    def difference(self, first: str, second: str) -> Difference | None:
        """Compare two peers at the end; below 0 the first is better.  None: no common cell."""
        return difference_of(self.pairs(first, second))


def _behind(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the share of pairs in which the second is better; half for equal ones or no pair."""
    if not pairs:
        return 0.5
    return sum((other < own) + 0.5 * (other == own) for own, other in pairs) / len(pairs)


def difference_of(pairs: Sequence[tuple[float, float]]) -> Difference | None:
    """Return the mean difference in log10, with the interval of a bootstrap over the pairs."""
    if not pairs:
        return None
    differences = np.log10([own for own, _ in pairs]) - np.log10([other for _, other in pairs])
    draw = np.random.default_rng(0).integers(0, len(pairs), (_RESAMPLES, len(pairs)))
    means = np.mean(differences[draw], axis=1)
    low, high = np.quantile(means, [(1 - _INSIDE) / 2, (1 + _INSIDE) / 2])
    mean = float(np.mean(differences))
    return Difference(mean=mean, low=float(low), high=float(high), pairs=len(pairs))


def regrets_of(runs: Iterable[Run]) -> Regrets:
    """Compute the regrets of searches; the last one counts if a peer has two of a cell."""
    runs = list(runs)
    lowest: dict[tuple[str, int], float] = {}
    for run in runs:
        key = run.cell.problem, data_seed(run.cell)
        lowest[key] = min(lowest.get(key, math.inf), *run.best)
    by_peer: dict[str, dict[Cell, Path]] = {}
    for run in runs:
        floor = problem(run.cell.problem, run.cell.seed).floor
        least = LEAST_UNKNOWN if floor is None else LEAST
        if floor is None:
            floor = lowest[run.cell.problem, data_seed(run.cell)]
        values = (np.array(run.best) - floor) / (usual(run.cell) - floor)
        by_peer.setdefault(run.peer, {})[run.cell] = np.clip(values, least, MOST)
    return Regrets(by_peer=by_peer)
