"""Runs a search of the tuning benchmark, and computes the regrets of many searches."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

import numpy as np

from benchmarks.tuning.peers import Peer, Vizier, peer
from benchmarks.tuning.problems import problem

#: The number of random points whose median is the usual value of a problem.
_USUAL = 300

#: Smaller regrets count as this one.
_LEAST = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Cell:
    """The problem and the mode of a search; ``dimensions`` 0: the problem has a fixed number."""

    dimensions: int
    name: str
    parallel: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The result of one search.

    ``best`` are the best values after each trial, infinite before the first successful trial.
    ``usual`` is the median of random points, and ``floor`` the least value; None: unknown.
    """

    cell: Cell
    peer: str
    best: tuple[float, ...]
    usual: float
    floor: float | None
    thought_s: float
    """The processor time of this process for all suggestions, in seconds."""


def run_search(name: str, cell: Cell, trials: int) -> Run:
    """Run one search; if trials run in parallel, the oldest ends first, then the next begins."""
    target = problem(cell.name, cell.dimensions, cell.seed)
    search = peer(name, target.study, cell.seed)
    began = time.process_time()
    spent = 0.0

    def loss(chosen: object) -> float:
        nonlocal spent
        before = time.process_time()
        value = target.loss(chosen)  # type: ignore[arg-type]  # what the peer has chosen
        spent += time.process_time() - before
        return value

    values = _values(search, loss, trials, cell.parallel)
    if isinstance(search, Vizier):
        search.close()
    worked = np.where(np.isfinite(values), values, math.inf)
    return Run(
        cell=cell,
        peer=name.partition(":")[0],
        best=tuple(np.minimum.accumulate(worked).tolist()),
        usual=_usual(cell.name, cell.dimensions, cell.seed),
        floor=target.floor,
        thought_s=time.process_time() - began - spent,
    )


def _values(
    search: Peer, loss: Callable[[object], float], trials: int, parallel: int
) -> list[float]:
    """Run the trials; return their values in the order in which they ended."""
    running: list[tuple[int, float]] = []
    values: list[float] = []
    for begun in range(trials + parallel):
        if len(running) == parallel or begun >= trials:
            if not running:
                break
            number, value = running.pop(0)
            search.tell(number, value)
            values.append(value)
        if begun < trials:
            number, chosen = search.ask()
            running.append((number, loss(chosen)))
    return values


@lru_cache(maxsize=8)
def _usual(name: str, dimensions: int, seed: int) -> float:
    """Return the median of random points; of fewer points if each is a training."""
    target = problem(name, dimensions, seed)
    search = peer("random", target.study, seed + 1000)
    count = _USUAL if target.floor is not None else 30
    values = [target.loss(search.ask()[1]) for _ in range(count)]
    return float(np.nanmedian(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Regrets:
    """Normalised regrets by peer and cell.

    A regret is (best value - floor) / (median of random points - floor): 0 is the optimum, 1 is a
    usual random point.  If the floor is unknown, the best value of all peers and modes replaces it.
    """

    by_peer: dict[str, dict[Cell, float]]

    def median(self, name: str, cells: Iterable[Cell]) -> float:
        """Return the median regret of a peer in some cells."""
        return median(self.by_peer[name][cell] for cell in cells)

    def magnitude(self, name: str, cells: Iterable[Cell]) -> float:
        """Return the mean of the decimal logarithms of a peer's regrets."""
        values = [self.by_peer[name][cell] for cell in cells]
        return float(np.mean(np.log10(np.maximum(values, _LEAST))))

    def rank(self, name: str, cells: Sequence[Cell]) -> float:
        """Return the mean rank of a peer among all peers, from 1; equal peers share their ranks."""
        places = []
        for cell in cells:
            own = self.by_peer[name][cell]
            all_of_them = [regrets_of_peer[cell] for regrets_of_peer in self.by_peer.values()]
            before = sum(value < own for value in all_of_them)
            equal = sum(value == own for value in all_of_them)
            places.append(before + (equal + 1) / 2)
        return float(np.mean(places))

    def cells(self, keep: Callable[[Cell], bool], names: Iterable[str] = ()) -> list[Cell]:
        """Return the cells that all named peers have searched; without names, all peers."""
        common = set.intersection(*(set(self.by_peer[name]) for name in names or self.by_peer))
        return sorted(cell for cell in common if keep(cell))


def regrets(runs: Sequence[Run], after: int | None = None) -> Regrets:
    """Compute the regrets after all trials, or after ``after`` trials."""
    floors: dict[tuple[str, int], float] = defaultdict(lambda: math.inf)
    for run in runs:
        key = (run.cell.name, run.cell.seed)
        floors[key] = min(floors[key], run.best[-1] if run.floor is None else run.floor)
    by_peer: dict[str, dict[Cell, float]] = defaultdict(dict)
    for run in runs:
        floor = floors[run.cell.name, run.cell.seed]
        best = run.best[-1 if after is None else min(after, len(run.best)) - 1]
        by_peer[run.peer][run.cell] = (best - floor) / (run.usual - floor)
    return Regrets(by_peer=dict(by_peer))
