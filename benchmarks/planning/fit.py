"""Fits the planner's defaults and priors to published curves, all questions at once, with NumPy.

The parameters are those for which the answers to the questions of the goals miss least
(``step_arrays``).  They are found by trying each a step up and down from several fixed starts, and
are the means of what these searches end with: what is left out of the curves cannot matter.
"""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from statistics import geometric_mean
from typing import Any

import numpy as np

from benchmarks.planning.answers import from_nothing
from benchmarks.planning.questions import GOALS, Question
from benchmarks.planning.rows import Curve
from benchmarks.planning.step_arrays import (
    Array,
    Flat,
    answers,
    arrays_of,
    solve,
    spreads,
    start_of,
)
from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.parameters import SCHEMA, Parameters, parameters_from
from trainshed.planning.scaling.reach import Extrapolation
from trainshed.planning.scaling.training import Training

#: The start values of every fit.  ``sums``, ``servers``, ``overlap_fast``, ``overlap_slow``,
#: ``sync_input``, ``sync_first``, ``stragglers`` and ``latency_s`` are those of
#: docs/sources/planner.md 3; the other values are guesses.
START: Mapping[str, Mapping[str, float]] = {
    "defaults": {
        "inside_nvlink": 0.7,
        "inside_pcie": 0.7,
        "memory": 4.0,
        "network_tcp": 0.9,
        "network_rdma": 0.3,
        "network_dcn": 0.6,
        "crowding": 0.5,
        "sums": 0.066,
        "servers": 0.26,
        "overlap_fast": 1.6,
        "overlap_slow": 1.25,
        "sync_nvlink": 0.03,
        "sync_pcie": 0.06,
        "sync_input": 0.03,
        "sync_halves": 0.04,
        "sync_sparse": 0.35,
        "sync_first": 0.39,
        "stragglers": 0.014,
        "latency_s": 0.0003,
        "inside_latency_s": 0.0002,
        "flat": 0.3,
        "fixed_share": 0.1,
        "fixed_s": 0.003,
    },
    "priors": {
        "compute_s": 2.0,
        "inside": 0.75,
        "network": 1.5,
        "sync": 0.35,
        "stragglers": 0.8,
        "overlap": 0.25,
        "latency": 1.0,
        "fixed_share": 0.7,
        "fixed_part": 3.0,
        "noise": 0.008,
        "drift_inside": 0.03,
        "drift_hosts": 0.03,
    },
    "unprinted": {"step_s": 0.2, "power": 0.5},
}
FIRST: Mapping[str, float] = {
    f"{table}.{name}": value for table, names in START.items() for name, value in names.items()
}
#: Parameters that few rows or none determine; they are not fitted.
_FIXED = frozenset(
    {
        *(f"defaults.{name}" for name in ("sums", "servers", "network_dcn")),
        *("defaults.overlap_slow", "defaults.latency_s"),
        *(f"priors.{name}" for name in ("compute_s", "latency", "fixed_part")),
    }
)
_FREE = tuple(name for name in FIRST if name not in _FIXED)
_AT_MOST_ONE = frozenset(f"defaults.{n}" for n in ("network_tcp", "flat", "sync_first", "crowding"))
PASSES = (2.0, 1.5, 1.3, 1.15)
_LAST_PASSES = (1.1, 1.05, 1.1, 1.05)
#: A search ends if a whole pass gains less; a try is kept if it gains more than the second.
_GAIN, _BETTER = 0.03, 2e-3
#: Rounds of the unknowns in each try, from where the last accepted parameters left them.
_ROUNDS = (1, 3)
#: Averaged around the median and around the 90th percentile, since single rows move each.
_QUANTILES = (0.42, 0.46, 0.5, 0.54, 0.58, 0.86, 0.88, 0.9, 0.92, 0.94)
#: How much a parameter is drawn to its start, by the square of the logarithm.
_PULL = 0.1
#: The starts of a fit: START, and others whose values are moved at random by this deviation.
_STARTS, _MOVED = 4, 0.2

#: The verified figure of ``papers.toml``: ResNet-50, 90 % from 8 to 256 P100, 50 Gbit/s a host.
#: In no table, and in every fit: a rate between those of the tables' hosts.
EXAMPLE = Curve(
    name="one hour",
    family="papers",
    system="p100-50g",
    training=Training(
        model="resnet50",
        parameters=25.56e6,
        gradient_bytes=4 * 25.56e6,
        batch_per_accelerator=32,
        data="synthetic",
    ),
    host=HostKind(per_host=8, inside_bytes=80e9, network="rdma", network_gbps=50),
    points=(
        Run(kind=RunKind.JOB, accelerators=8, batch_per_accelerator=32, step_s=0.232),
        Run(
            kind=RunKind.JOB,
            accelerators=256,
            hosts=32,
            batch_per_accelerator=32,
            step_s=0.232 / 0.9,
        ),
    ),
    unprinted=False,
)
EXAMPLE_ASKED = Question(goal="example", curve=0, observed=(0,), targets=(1,))
_EXAMPLE_WITHIN, _EXAMPLE_WEIGHT = 0.05, 50.0

#: A little more than 80 of 100 of the rows at hand: those of a system never seen lie further off.
_ENDS = (0.065, 0.925)
_ENOUGH, _LEAST, _SETTLED = 30, 0.1, 16

Tables = dict[str, Any]
#: How far parameters miss, the parameters, and the unknowns of every question.
Now = tuple[float, Flat, Array]


def fit(
    curves: Sequence[Curve], questions: Sequence[Question], passes: Sequence[float] = PASSES
) -> Parameters:
    """The parameters for which the questions are answered best."""
    return as_parameters(tables_of(curves, questions, passes))


def tables_of(
    curves: Sequence[Curve], questions: Sequence[Question], passes: Sequence[float] = PASSES
) -> Tables:
    """The same by table of the file; ``passes``: by which factors parameters are tried."""
    flat = search(curves, questions, passes)
    tables = as_tables(flat)
    return {
        **tables,
        "reach": {**reach_in(curves, questions, flat), **reach_from_nothing(curves, tables)},
        "errors": errors_in(curves, questions, flat),
    }


def search(
    curves: Sequence[Curve], questions: Sequence[Question], passes: Sequence[float] = PASSES
) -> Flat:
    """The geometric means of what searches from several starts find.

    Each search ends in a valley of its own, and which of them misses least says little about rows
    that are left out; their mean depends less on the starts than any of them.
    """
    searches = Search(curves, questions)
    ends = [searches.run(start, passes) for start in starts()]
    return {name: geometric_mean(end[name] for end in ends) for name in FIRST}


def starts() -> Iterator[Flat]:
    """The start values of every fit, and the same moved at random."""
    yield dict(FIRST)
    for seed in range(1, _STARTS):
        moved = random.Random(seed)  # noqa: S311 - no secret
        factors = {name: math.exp(moved.gauss(0, _MOVED)) for name in _FREE}
        yield {name: _limit(name, value * factors.get(name, 1)) for name, value in FIRST.items()}


def _limit(name: str, value: float) -> float:
    return min(1.0, value) if name in _AT_MOST_ONE else value


def as_parameters(tables: Tables, date: str = "") -> Parameters:
    """As the planner reads them."""
    return parameters_from({"schema": SCHEMA, "date": date, **tables})


def as_tables(flat: Flat) -> Tables:
    """By table of the file."""
    return {
        table: {name: flat[f"{table}.{name}"] for name in names} for table, names in START.items()
    }


def errors_in(
    curves: Sequence[Curve], questions: Sequence[Question], flat: Flat
) -> dict[str, list[float]]:
    """By goal: median and 90th percentile, per cent, of rows that are in the fit."""
    arrays = arrays_of(curves, questions)
    missed = answers(arrays, flat, solve(arrays, flat, start_of(arrays), _SETTLED))
    wrong = 100 * np.abs(np.expm1(missed))
    goals = np.array([question.goal for question in questions])
    targets = arrays.targets > 0
    return {
        goal: np.quantile(wrong[(goals == goal)[:, None] & targets], (0.5, 0.9)).tolist()
        for goal in sorted(set(goals.tolist()))
    }


def reach_in(
    curves: Sequence[Curve], questions: Sequence[Question], flat: Flat
) -> dict[str, list[float]]:
    """By kind of question: between which spreads the measured steps lie."""
    arrays = arrays_of(curves, questions)
    unknowns = solve(arrays, flat, start_of(arrays), _SETTLED)
    spreads_off = answers(arrays, flat, unknowns) / spreads(arrays, flat, unknowns)
    spreads_by_kind: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for row, question in enumerate(questions):
        system = curves[question.curve].system
        for i in question.targets:
            spreads_by_kind[question.reach(curves, i)].append((system, float(spreads_off[row, i])))
    return {
        kind: _ends(missed)
        for kind, missed in sorted(spreads_by_kind.items())
        if len(missed) >= _ENOUGH
    }


def _ends(missed: Sequence[tuple[str, float]]) -> list[float]:
    """Between which spreads the steps lie, by system and step.

    A system with four times the rows weighs twice as much: new rows are of other systems.
    """
    rows = Counter(system for system, _ in missed)
    missed = sorted(missed, key=itemgetter(1))
    weights = np.array([1 / math.sqrt(rows[system]) for system, _ in missed])
    shares = (np.cumsum(weights) - weights / 2) / weights.sum()
    low, high = np.interp(_ENDS, shares, [value for _, value in missed]).tolist()
    return [min(-_LEAST, low), max(_LEAST, high)]


def reach_from_nothing(curves: Sequence[Curve], tables: Tables) -> dict[str, list[float]]:
    """The same for predictions without any measurement."""
    plain = replace(as_parameters(tables), reach={Extrapolation.PUBLISHED: (-1.0, 1.0)})
    fits = {curve.system: plain for curve in curves}
    missed = []
    for answer in from_nothing(curves, fits, curves):
        step_s = answer.step_s
        off = math.log(answer.point.step_s / step_s.point) / math.log(step_s.high / step_s.point)
        missed.append((answer.curve.system, off))
    return {Extrapolation.PUBLISHED.value: _ends(missed)}


class Search:
    """Tries a larger and a smaller value of each parameter, and keeps the best value."""

    def __init__(self, curves: Sequence[Curve], questions: Sequence[Question]) -> None:
        """Lay the questions out; the example comes last."""
        questions = [*questions, replace(EXAMPLE_ASKED, curve=len(curves))]
        self._arrays = arrays_of([*curves, EXAMPLE], questions)
        goals = np.array([question.goal for question in questions])
        targets = self._arrays.targets > 0
        rows = {goal: np.nonzero((goals == goal)[:, None] & targets) for goal in GOALS}
        self._rows = {goal: at for goal, at in rows.items() if len(at[0])}

    def run(self, start: Flat, passes: Sequence[float] = PASSES) -> Flat:
        """The best parameters after all passes, and smaller steps until a pass gains little."""
        now = self._settled(start)
        for step in passes:
            now = self._pass(step, now)
        for step in _LAST_PASSES:
            before, now = now, self._pass(step, now)
            if before[0] - now[0] < _GAIN:
                break
        return now[1]

    def missed(self, flat: Flat) -> float:
        """How far the answers with these parameters miss the goals."""
        return self._settled(flat)[0]

    def _pass(self, step: float, now: Now) -> Now:
        """Return what a pass over all parameters ends with, if that is better."""
        after = now
        for name in _FREE:
            after = self._try(name, step, after)
        return min(self._settled(after[1]), now, key=itemgetter(0))

    def _settled(self, flat: Flat) -> Now:
        """With unknowns that do not depend on the path of the search."""
        unknowns = solve(self._arrays, flat, start_of(self._arrays), _SETTLED)
        return self._missed(flat, unknowns), flat, unknowns

    def _try(self, name: str, step: float, now: Now) -> Now:
        best, at, unknowns = now
        for factor in (step, 1 / step):
            tried, solved = {**at, name: _limit(name, at[name] * factor)}, unknowns
            # most tries are worse at once; a better one must stay so when its unknowns have settled
            for rounds in _ROUNDS:
                solved = solve(self._arrays, tried, solved, rounds)
                missed = self._missed(tried, solved)
                if missed > best - _BETTER:
                    break
            else:
                return missed, tried, solved
        return now

    def _missed(self, flat: Flat, unknowns: Array) -> float:
        """How far medians and 90th percentiles are from the goals."""
        wrong = 100 * np.abs(np.expm1(answers(self._arrays, flat, unknowns)))
        total = 0.0
        for goal, rows in self._rows.items():
            middle, tail = np.log(np.quantile(wrong[rows], _QUANTILES)).reshape(2, -1).mean(axis=1)
            median, high = GOALS[goal]
            total += _over(middle - math.log(median)) + _over(tail - math.log(high))
        example = abs(wrong[-1, 1]) / 100
        total += _EXAMPLE_WEIGHT * max(0.0, example - _EXAMPLE_WITHIN)
        moved = sum(math.log(flat[name] / value) ** 2 for name, value in FIRST.items())
        return float(total) + _PULL * moved


def _over(ratio: float) -> float:
    """A miss of the goal counts five times."""
    return ratio + 4 * max(0.0, ratio + 0.08)
