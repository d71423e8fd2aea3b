"""Fits the planner's defaults and priors to published curves, all questions at once, with NumPy.

The parameters are those for which the answers to the questions of the goals miss least
(``step_arrays``).  They are found by trying each a step up and down from fixed starts: what is left
out of the curves cannot matter.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
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
#: Parameters that few rows or none determine; they are not fitted.
_FIXED = frozenset(
    {
        *("sums", "servers", "overlap_slow", "network_dcn", "compute_s", "latency", "latency_s"),
        "fixed_part",
    }
)
_AT_MOST_ONE = frozenset({"network_tcp", "flat", "sync_first", "crowding"})
PASSES = (2.0, 1.5, 1.3, 1.15)
_ROUNDS = 2
"""Of the unknowns, for each try: they begin where the last accepted parameters left them."""

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


def fit(
    curves: Sequence[Curve], questions: Sequence[Question], passes: Sequence[float] = PASSES
) -> Parameters:
    """The parameters for which the questions are answered best."""
    return as_parameters(tables_of(curves, questions, passes))


def tables_of(
    curves: Sequence[Curve], questions: Sequence[Question], passes: Sequence[float] = PASSES
) -> Tables:
    """The same by table of the file; ``passes``: by which factors parameters are tried."""
    flat = Search(curves, questions).run(passes)
    tables = as_tables(flat)
    return {
        **tables,
        "reach": {**reach_in(curves, questions, flat), **reach_from_nothing(curves, tables)},
        "errors": errors_in(curves, questions, flat),
    }


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
        curves = [*curves, EXAMPLE]
        self._arrays = arrays_of(curves, questions)
        self._goals = np.array([question.goal for question in questions])
        self._at = {
            f"{t}.{name}": value for t, names in START.items() for name, value in names.items()
        }
        self._unknowns = start_of(self._arrays)

    def run(self, passes: Sequence[float] = PASSES) -> Flat:
        """The best parameters after all passes."""
        self._settle(12)
        best = self._missed(self._at)[0]
        for step in passes:
            for name in self._at:
                if name.partition(".")[2] not in _FIXED:
                    best = self._try(name, step, best)
            self._settle(4)
        return self._at

    def _settle(self, rounds: int) -> None:
        self._unknowns = solve(self._arrays, self._at, self._unknowns, rounds)

    def _try(self, name: str, step: float, best: float) -> float:
        for factor in (step, 1 / step):
            value = self._at[name] * factor
            if name.partition(".")[2] in _AT_MOST_ONE:
                value = min(1.0, value)
            tried = {**self._at, name: value}
            missed, unknowns = self._missed(tried)
            if missed < best - 2e-3:
                self._at, self._unknowns = tried, unknowns
                return missed
        return best

    def _missed(self, flat: Flat) -> tuple[float, Array]:
        """How far medians and 90th percentiles are from the goals, and the unknowns behind it."""
        unknowns = solve(self._arrays, flat, self._unknowns, _ROUNDS)
        wrong = 100 * np.abs(np.expm1(answers(self._arrays, flat, unknowns)))
        total = 0.0
        for goal, (median, tail) in GOALS.items():
            rows = self._goals == goal
            missed = wrong[rows][self._arrays.targets[rows] > 0]
            if len(missed):
                total += _over(missed, (0.42, 0.46, 0.5, 0.54, 0.58), median)
                total += _over(missed, (0.86, 0.88, 0.9, 0.92, 0.94), tail)
        example = abs(wrong[-1, 1]) / 100
        total += _EXAMPLE_WEIGHT * max(0.0, example - _EXAMPLE_WITHIN)
        start = (START[name.partition(".")[0]][name.partition(".")[2]] for name in flat)
        away = sum(math.log(a / b) ** 2 for a, b in zip(flat.values(), start, strict=True))
        return total + 0.01 * away, unknowns


def _over(missed: Array, quantiles: tuple[float, ...], goal: float) -> float:
    """A miss of the goal counts five times."""
    ratio = float(np.mean(np.log(np.quantile(missed, quantiles) / goal)))
    return ratio + 4 * max(0.0, ratio + 0.08)
