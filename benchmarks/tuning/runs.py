"""Runs one search of the tuning benchmark, and finds the usual score of its problem."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from benchmarks.tuning.peers import Chosen, Ours, Peer, is_own
from benchmarks.tuning.pipes import PipePeer
from benchmarks.tuning.problems import problem
from benchmarks.tuning.scores import Measured, report_of, scores, usual_score
from benchmarks.tuning.trainings import DIVISIONS
from trainshed.tuning.random_search import random_point
from trainshed.tuning.space import space_of

#: The number of random points whose median is the usual score; fewer if each is a training.
_USUAL: Final = 300
_USUAL_TRAININGS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Cell:
    """The problem and the mode of a search."""

    problem: str
    parallel: int
    trials: int
    """The number of trials, which searches know: some fill the space first, by their budget."""
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The result of one search: the score after each trial, and its costs."""

    peer: str
    version: str
    cell: Cell
    best: tuple[float, ...]
    cpu_s: float
    """The processor time of all suggestions."""
    memory_mb: float | None = None
    """The peak memory of the peer's process; None: it ran in this process."""


def run_search(name: str, cell: Cell, *, through_pipe: bool = False) -> Run:
    """Run one search; if trials run in parallel, the oldest ends first, then the next begins.

    ``through_pipe``: our own searches too run as a program, whose memory is measured.
    """
    target = problem(cell.problem, cell.seed)
    study = replace(target.study, trial_count_max=cell.trials, trial_count_parallel=cell.parallel)
    search: Ours | PipePeer
    if is_own(name) and not through_pipe:
        search = Ours(study, cell.seed, name)
    else:
        search = PipePeer(name, study, cell.seed, noisy=target.noise > 0)
    try:
        measured = [*_measured(search, cell)]
        costs = search if isinstance(search, Ours) else search.end()
    finally:
        if not isinstance(search, Ours):
            search.close()
    return Run(
        peer=name,
        version=costs.version,
        cell=cell,
        best=tuple(map(rounded, scores(target, measured))),
        cpu_s=costs.cpu_s,
        memory_mb=None if isinstance(costs, Ours) else costs.memory_mb,
    )


def _measured(search: Peer, cell: Cell) -> Iterator[Measured]:
    """Run the trials; yield their values in the order in which they end."""
    target = problem(cell.problem, cell.seed)
    running: list[tuple[int, Measured]] = []

    def end_oldest() -> Measured:
        number, values = running.pop(0)
        search.tell(number, values.reported)
        return values

    for begun in range(cell.trials):
        if len(running) == cell.parallel:
            yield end_oldest()
        number, chosen = search.ask()
        running.append((number, report_of(target, target.measure(chosen), cell.seed, begun)))
    while running:
        yield end_oldest()


def rounded(score: float) -> float:
    """Return a score with the five digits that are recorded."""
    return float(f"{score:.5g}")


def usual(cell: Cell) -> float:
    """Return the score of a usual random point of a problem."""
    return _usual(cell.problem, data_seed(cell))


@cache
def _usual(name: str, seed: int) -> float:
    target = problem(name, seed)
    if target.reference is not None:
        return 0.0
    space = space_of(target.study)
    draw = random.Random(seed + 1000)  # noqa: S311  # to be repeated
    count = _USUAL if target.floor is not None else _USUAL_TRAININGS
    points: Iterator[Chosen] = (dict(random_point(space, draw)) for _ in range(count))
    exact = map(target.measure, points)
    return usual_score(target, [Measured(exact=values, reported=values) for values in exact])


def data_seed(cell: Cell) -> int:
    """Return the seed of the problem: trainings have few different data sets."""
    is_training = problem(cell.problem, cell.seed).floor is None
    return cell.seed % DIVISIONS if is_training else cell.seed
