"""Measures how soon a study finds its best value under each rule of early stopping.

Four workers run the trials of a study, whose trainings are real (``long_trainings``): the network
of examples/tuning, 50 epochs; a network in NumPy, 200 epochs; gradient boosting, 200 stages.  Their
clock is the CPU time of the trainings.  Every strategy gets the same worker seconds: those of
``--trials`` trials that are never stopped.  A strategy that stops trials early has time for more,
up to ``--pool`` trials.

``asha-pauses`` resumes the trials that it has stopped when they become the best of their rungs;
here that costs no time, and every training has a checkpoint at every report.

``same`` gives all strategies the same random points in the same order, so that only the rule
differs; the studies of a seed have the points of one pool, whose trainings run once, in other
orders.  ``own`` lets ours search with its Gaussian process, and Optuna's pruners with its TPE.
A row compares the studies of a strategy with those without a rule, in pairs: the worker seconds and
the trial-steps until a study has the best value that the study without a rule has at its end, as a
share of that study's whole seconds and steps (the median; a study that never gets there counts as
infinite), how many studies got there, and how often the best value at the end is better and worse.
With ``--select BEST`` the best measurement of a trial counts, and not its last one.

    python -m benchmarks early-rungs [--seeds 1] [--orders 4] [--search same,own] [--keep FILE]
"""

import argparse
import heapq
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.harness import Benchmark, Report, at_most, tell
from benchmarks.tuning.halving_strategies import RULES, StoppingStrategy, is_better, strategy
from benchmarks.tuning.long_trainings import TRAININGS, KeptCurves
from benchmarks.tuning.optuna_pruners import PRUNERS
from trainshed.model.study import Algorithm, Selection, StudySpec
from trainshed.model.trials import Values
from trainshed.tuning.ranking import upward
from trainshed.tuning.suggest import suggest

NAMES: Final = (*RULES, *PRUNERS)
WORKERS: Final = 4
ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True, kw_only=True)
class Improvement:
    """A moment at which a study has a new best value."""

    worker_s: float
    steps: int
    value: float


@dataclass(frozen=True, kw_only=True)
class StudyCourse:
    """The course of one study."""

    improvements: Sequence[Improvement]
    worker_s: float
    steps: int
    begun: int
    stopped: int

    @property
    def best(self) -> float:
        """The best value at the end."""
        return self.improvements[-1].value if self.improvements else math.nan


class StudyReplay:
    """A study whose workers take their reports from learning curves."""

    def __init__(self, curves: KeptCurves, strategy: StoppingStrategy, study: StudySpec) -> None:
        """Begin at 0 s, without trials."""
        self._curves, self._strategy, self._study = curves, strategy, study
        self._next: list[tuple[float, int]] = []
        """The moments of the next reports, with their trials."""
        self._reports: dict[int, int] = {}
        self._values: dict[int, Values] = {}
        self._paused: dict[int, Values] = {}
        """The values of stopped trials, which a strategy may resume."""
        self._began: dict[int, float] = {}
        self._stopped = 0
        self._improvements: list[Improvement] = []

    def run(self, worker_s: float | None, trials: int) -> StudyCourse:
        """Run the study for so many worker seconds; None: until so many trials have ended."""
        end, now = math.inf if worker_s is None else worker_s / WORKERS, 0.0
        for _ in range(min(WORKERS, trials)):
            self._begin(0.0)
        while self._next and self._next[0][0] <= end:
            now, number = heapq.heappop(self._next)
            if number in self._values:
                may_begin = worker_s is not None or len(self._reports) < trials
                self._report(now, number, may_begin=may_begin)
        return StudyCourse(
            improvements=tuple(self._improvements),
            worker_s=now * WORKERS,
            steps=sum(self._reports.values()) * self._curves.training.stride,
            begun=len(self._reports),
            stopped=self._stopped,
        )

    def _begin(self, now: float) -> None:
        promoted = self._strategy.promote()
        if promoted is not None:
            self._values[promoted] = self._paused.pop(promoted)
            self._schedule(now, promoted)
            return
        trial = self._strategy.begin()
        if trial is None:
            return
        number, self._values[trial[0]] = trial
        self._reports[number], self._began[number] = 0, now
        self._schedule(now, number)

    def _schedule(self, now: float, number: int) -> None:
        _, seconds = self._curves.point(self._values[number], self._reports[number] + 1)
        heapq.heappush(self._next, (now + seconds, number))

    def _report(self, now: float, number: int, *, may_begin: bool) -> None:
        self._reports[number] += 1
        value = self._value(number)
        step = self._reports[number] * self._curves.training.stride
        stopped = set(self._strategy.report(number, step, now - self._began[number], value))
        if self._reports[number] == self._curves.training.reports:
            self._end(now, number, is_stopped=False)
        elif number not in stopped:
            self._schedule(now, number)
        ended = {number} - self._values.keys()
        for other in stopped & self._values.keys():
            self._end(now, other, is_stopped=True)
            ended.add(other)
        for _ in ended if may_begin else ():
            self._begin(now)

    def _value(self, number: int) -> float:
        return self._curves.point(self._values[number], self._reports[number])[0]

    def _result(self, number: int) -> float:
        """Return the value that counts for a trial: the last one, or the best one so far."""
        if self._study.selection is Selection.LAST:
            return self._value(number)
        ends = range(1, self._reports[number] + 1)
        values = [self._curves.point(self._values[number], end)[0] for end in ends]
        return max(values, key=partial(upward, self._study.metrics[0].goal))

    def _end(self, now: float, number: int, *, is_stopped: bool) -> None:
        value = self._result(number)
        self._strategy.end(number, value, is_stopped=is_stopped)
        self._stopped += is_stopped
        values = self._values.pop(number)
        if is_stopped:
            self._paused[number] = values
            self._next = [entry for entry in self._next if entry[1] != number]
            heapq.heapify(self._next)
        best = self._improvements[-1].value if self._improvements else math.nan
        if is_better(self._study, value, best):
            steps = sum(self._reports.values()) * self._curves.training.stride
            self._improvements.append(Improvement(worker_s=now * WORKERS, steps=steps, value=value))


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPlan:
    """The studies of one training and seed that differ in their strategy alone."""

    names: Sequence[str]
    trials: int
    """The number of trials that the study without a rule ends."""
    pool: int
    """The most trials of a study."""
    order: int
    """The order of the points, or the seed of the search."""
    is_same: bool
    """Whether all strategies get the same points."""
    selection: Selection = Selection.LAST
    """Which measurement of a trial counts, for the search and for the comparison."""


def outcomes(curves: KeptCurves, plan: StudyPlan) -> Mapping[str, StudyCourse]:
    """Run the studies of a plan, with equal worker seconds."""
    study = replace(
        curves.training.study,
        stopping=None,
        trial_count_max=plan.pool,
        trial_count_parallel=WORKERS,
        selection=plan.selection,
    )
    points = points_of(study, curves.seed, plan) if plan.is_same else ()

    def run(name: str, worker_s: float | None) -> StudyCourse:
        chosen = strategy(name, study, points, plan.order, curves.training.reports)
        return StudyReplay(curves, chosen, study).run(worker_s, plan.trials)

    without = run("none", None)
    others = {name: run(name, without.worker_s) for name in plan.names if name != "none"}
    return {"none": without, **others}


def points_of(study: StudySpec, seed: int, plan: StudyPlan) -> Sequence[Values]:
    """Return the points of a seed in the order of a plan."""
    random = replace(study, algorithm=Algorithm.RANDOM_SEARCH)
    pool = suggest(random, (), plan.pool, seed).values
    return [
        pool[index] for index in np.random.default_rng([seed, plan.order]).permutation(len(pool))
    ]


#: A study's spec, the course of a strategy, and the course without a rule.
Pair = tuple[StudySpec, StudyCourse, StudyCourse]


@dataclass(frozen=True, kw_only=True)
class StrategyRow:
    """A strategy, compared with no rule on the same trainings and seeds."""

    search: str
    training: str
    name: str
    time_ratio: float
    step_ratio: float
    reached: int
    studies: int
    won: int
    lost: int
    best: float
    without: float
    begun: float
    stopped: float


def row(
    search: str,
    training: str,
    name: str,
    pairs: Sequence[Pair],
) -> StrategyRow:
    """Compare the outcomes of a strategy with those of no rule."""
    hits = [_hit(study, ours, without.best) for study, ours, without in pairs]
    return StrategyRow(
        search=search,
        training=training,
        name=name,
        time_ratio=statistics.median(
            hit.worker_s / without.worker_s if hit else math.inf
            for hit, (_, _, without) in zip(hits, pairs, strict=True)
        ),
        step_ratio=statistics.median(
            hit.steps / without.steps if hit else math.inf
            for hit, (_, _, without) in zip(hits, pairs, strict=True)
        ),
        reached=sum(hit is not None for hit in hits),
        studies=len(pairs),
        won=sum(is_better(study, ours.best, without.best) for study, ours, without in pairs),
        lost=sum(is_better(study, without.best, ours.best) for study, ours, without in pairs),
        best=statistics.fmean(ours.best for _, ours, _ in pairs),
        without=statistics.fmean(without.best for _, _, without in pairs),
        begun=statistics.fmean(ours.begun for _, ours, _ in pairs),
        stopped=statistics.fmean(ours.stopped for _, ours, _ in pairs),
    )


def _hit(study: StudySpec, ours: StudyCourse, value: float) -> Improvement | None:
    """Return the first moment at which a study has a value, or a better one."""
    return next((one for one in ours.improvements if not is_better(study, value, one.value)), None)


def lines_of(rows: Sequence[StrategyRow]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield (
        f"{'search':6} {'training':9} {'strategy':12} {'time':>6} {'steps':>6} {'reached':>8} "
        f"{'better':>6} {'worse':>6} {'best':>8} {'without':>8} {'begun':>6} {'stopped':>8}"
    )
    for one in rows:
        yield (
            f"{one.search:6} {one.training:9} {one.name:12} {one.time_ratio:6.2f} "
            f"{one.step_ratio:6.2f} {one.reached:4}/{one.studies:<3} {one.won:6} {one.lost:6} "
            f"{one.best:8.4f} {one.without:8.4f} {one.begun:6.1f} {one.stopped:8.1f}"
        )


def measure(args: argparse.Namespace) -> Report:
    """Run the studies of all searches, trainings and seeds."""
    os.environ.update(ONE_THREAD)
    rows = [row for search in args.search for row in _rows(search, args)]
    return Report(
        goals=[
            at_most(
                f"{one.search}: {one.name}, time to the best value without a rule",
                one.time_ratio,
                1.0,
                "of that study's",
                f"{one.reached} of {one.studies} studies got there",
            )
            for one in rows
            if one.training == "all" and one.name in {"asha", "asha-pauses"}
        ],
        lines=list(lines_of(rows)),
        data={"rows": [asdict(one) for one in rows]},
    )


def _rows(search: str, args: argparse.Namespace) -> Sequence[StrategyRow]:
    """Run all studies of one search; return a row for each training and strategy."""
    pairs: dict[tuple[str, str], list[Pair]] = {}
    for name, seed in product(args.trainings, range(args.first_seed, args.first_seed + args.seeds)):
        training = TRAININGS[name]()
        curves = KeptCurves(name=name, seed=seed, training=training, file=args.keep)
        for order in range(args.orders):
            plan = StudyPlan(
                names=args.strategies,
                trials=args.trials,
                pool=args.pool,
                order=order,
                is_same=search == "same",
                selection=Selection(args.select),
            )
            ran = outcomes(curves, plan)
            curves.store()
            for strategy_name, outcome in ran.items():
                pair = (training.study, outcome, ran["none"])
                pairs.setdefault((name, strategy_name), []).append(pair)
                pairs.setdefault(("all", strategy_name), []).append(pair)
            tell(f"{search}: {name}, seed {seed}, order {order}")
    rows = [row(search, training, name, some) for (training, name), some in pairs.items()]
    return sorted(rows, key=lambda one: (one.training == "all", one.training))


def words_of(accepted: Sequence[str], text: str) -> list[str]:
    """Parse words, separated by commas."""
    words = text.split(",")
    if unknown := set(words) - set(accepted):
        raise argparse.ArgumentTypeError(
            f"must be some of {', '.join(accepted)}, got {', '.join(sorted(unknown))}"
        )
    return words


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options beside the sizes."""
    lists = {"search": ("same", "own"), "trainings": tuple(TRAININGS), "strategies": NAMES}
    for name, accepted in lists.items():
        parser.add_argument(
            f"--{name}",
            type=partial(words_of, accepted),
            default=list(accepted),
            help=", ".join(accepted),
        )
    parser.add_argument(
        "--select",
        choices=[selection.value for selection in Selection],
        default=Selection.LAST.value,
        help="the measurement that counts for a trial; default: %(default)s",
    )
    parser.add_argument("--keep", type=Path, help="a file with learning curves, read and extended")


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={
        "seeds": (1, 1),
        "first-seed": (0, 0),
        "orders": (4, 1),
        "trials": (10, 2),
        "pool": (48, 4),
    },
    add_options=add_options,
)
