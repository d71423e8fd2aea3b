"""Fits the planner's defaults and priors to published curves, all questions at once, with NumPy.

Every question of the goals (some points of a curve are known, others are asked) is answered for a
set of parameters by the same equations and the same unknowns as ``planning.scaling.fitting``, in
arrays; a test holds the two together.  The parameters are those whose answers miss least, found by
trying each a step up and down from fixed starts: what is left out of the curves cannot matter.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.planning.questions import GOALS, Question
from benchmarks.planning.rows import Curve, Point, doublings
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.fitting import UNKNOWNS
from trainshed.planning.scaling.parameters import SCHEMA, Parameters, parameters_from
from trainshed.planning.scaling.rates import network_bytes
from trainshed.planning.scaling.step import Rates, parts_of
from trainshed.planning.scaling.training import Strategy, Training

Array = NDArray[np.float64]
_MOST_POINTS = 6
_ENDLESS = 1e30
_MEMORY_BYTES, _PCIE_BYTES = 48e9, 12e9
_OVERLAP = (1.0, 6.0)
_HALVES = frozenset({"amp", "amp_bf16", "amp_fp16", "fp16", "bf16", "fp8"})

#: Where every fit begins.  ``sums``, ``servers``, ``overlap_fast``, ``overlap_slow``,
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
        "noise": 0.008,
        "drift_inside": 0.03,
        "drift_hosts": 0.03,
    },
    "unprinted": {"step_s": 0.2, "power": 0.5},
}
#: Known to few rows, or to none: they stay where they are.
_FIXED = frozenset(
    {"sums", "servers", "overlap_slow", "network_dcn", "compute_s", "latency", "latency_s"}
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
        Point(accelerators=8, hosts=1, batch=32, step_s=0.232),
        Point(accelerators=256, hosts=32, batch=32, step_s=0.232 / 0.9),
    ),
    unprinted=False,
)
EXAMPLE_ASKED = Question(goal="example", curve=0, observed=(0,), targets=(1,))
_EXAMPLE_WITHIN, _EXAMPLE_WEIGHT = 0.05, 50.0

#: A little more than 80 of 100 of the rows at hand: those of a system never seen lie further off.
_ENDS = (0.065, 0.925)
_ENOUGH, _LEAST, _SETTLED = 30, 0.1, 16

Flat = dict[str, float]
Tables = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Arrays:
    """Questions in arrays: one row each, one column a point."""

    by_point: Mapping[str, Array]
    by_curve: Mapping[str, Array]
    observed: Array
    targets: Array


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
    return {
        **as_tables(flat),
        "reach": reach_in(curves, questions, flat),
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
    spreads_by_kind: dict[str, list[float]] = defaultdict(list)
    for row, question in enumerate(questions):
        for i in question.targets:
            spreads_by_kind[question.reach(curves, i)].append(float(spreads_off[row, i]))
    return {
        kind: [min(-_LEAST, low), max(_LEAST, high)]
        for kind, missed in sorted(spreads_by_kind.items())
        if len(missed) >= _ENOUGH
        for low, high in [np.quantile(missed, _ENDS).tolist()]
    }


class Search:
    """Tries parameters one by one, larger and smaller, and keeps what misses less."""

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


def arrays_of(curves: Sequence[Curve], questions: Sequence[Question]) -> Arrays:
    """The questions' points, and what of the equations does not depend on parameters."""
    rows = [_row(curve) for curve in curves]
    index = np.array([question.curve for question in questions])
    points = {key: np.array([row[0][key] for row in rows])[index] for key in rows[0][0]}
    shared = {key: np.array([row[1][key] for row in rows])[index, None] for key in rows[0][1]}
    observed, targets = (np.zeros((len(questions), _MOST_POINTS)) for _ in range(2))
    for i, question in enumerate(questions):
        observed[i, list(question.observed)] = 1
        targets[i, list(question.targets)] = 1
    return Arrays(by_point=points, by_curve=shared, observed=observed, targets=targets)


def _row(curve: Curve) -> tuple[dict[str, list[float]], dict[str, float]]:
    training, host = curve.training, curve.host
    points = [_point(curve, i) for i in range(len(curve.points))]
    points += [points[0]] * (_MOST_POINTS - len(points))
    halves = training.precision in _HALVES
    kind = host.network if host.network in {"tcp", "dcn"} else "rdma"
    shared = {
        "fast": float(host.inside_bytes > 2 * _PCIE_BYTES),
        "slow": float(0 < host.network_bytes < 1.5e8),
        "tcp": float(kind == "tcp"),
        "dcn": float(kind == "dcn"),
        "crowd": min(network_bytes(host) / 12.5e9, 1.0),
        "naive": float(training.strategy is Strategy.PS_NAIVE),
        "real": float(training.data == "real"),
        "halves": float(halves),
        "sparse": float(not training.gradient_bytes),
        "unprinted": float(curve.unprinted),
        "size": max(training.gradient_bytes, 1e6) / 1e8,
    }
    return {key: [point[key] for point in points] for key in points[0]}, shared


def _point(curve: Curve, i: int) -> dict[str, float]:
    point, training = curve.points[i], curve.training
    cluster, link = point.cluster(curve.host), network_bytes(curve.host)
    inside, hosts = doublings(point)

    def alone(flat: float = 0.0, **rates: float) -> tuple[float, float]:
        parts = parts_of(training, cluster, _endless(flat, **rates), 1.0)
        return parts.inside, parts.network

    over_hosts = alone(network=link)[1]
    sums = training.strategy is Strategy.ALLREDUCE_CPU
    return {
        "step": math.log(point.step_s / curve.points[0].step_s),
        "ratio": point.batch / training.batch_per_accelerator,
        "inside": inside,
        "hosts": hosts,
        "several": float(inside > 0),
        "link_s": alone(inside=curve.host.inside_bytes)[0],
        "memory_s": alone(memory=_MEMORY_BYTES)[0],
        "network_s": over_hosts,
        "flat_s": alone(flat=1.0, network=link)[1] - over_hosts,
        "sums_s": over_hosts * link / _PCIE_BYTES if sums else 0.0,
        "servers_s": alone(servers=link)[1],
        "first_s": curve.points[0].step_s,
    }


def _endless(flat: float, **rates: float) -> Rates:
    every = dict.fromkeys(("inside", "network", "memory", "sums", "servers"), _ENDLESS)
    return Rates(
        **{**every, **rates},
        overlap=1.0,
        sync=0.0,
        sync_first=0.0,
        stragglers=0.0,
        latency_s=0.0,
        fixed_share=0.0,
        flat=flat,
    )


def start_of(arrays: Arrays) -> Array:
    """The unknowns before they are solved for: all compute."""
    return np.zeros((len(arrays.observed), len(UNKNOWNS)))


def measured(arrays: Arrays, flat: Flat) -> Array:
    """Logarithms of the steps."""
    shared = arrays.by_curve
    assumed = flat["unprinted.step_s"] * shared["size"] ** flat["unprinted.power"]
    first = np.where(shared["unprinted"] > 0, assumed, arrays.by_point["first_s"])
    return arrays.by_point["step"] + np.log(first)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a step is made of, in seconds unless it says otherwise."""

    alone: Array
    fixed: Array
    """A share, as ``ratio``."""
    ratio: Array
    losses: Array
    """A share of compute: synchronisation inside a host."""
    stragglers: Array
    """A share of compute."""
    compute: Array
    links: Array
    latency: Array
    network: Array
    overlap: Array

    def log_step(self) -> Array:
        """The smooth maximum of compute and exchange."""
        exchange = self.links + self.latency + self.network
        most = np.maximum(self.compute, exchange)
        ratio = np.minimum(self.compute, exchange) / most
        logarithm: Array = np.log(most) + np.log1p(ratio**self.overlap) / self.overlap
        return logarithm


def expected(arrays: Arrays, flat: Flat, unknowns: Array, guess: Array) -> Array:
    """Logarithms of the equations' steps; ``planning.scaling.step`` in arrays."""
    return _terms(arrays, flat, unknowns, guess).log_step()


def _terms(arrays: Arrays, flat: Flat, unknowns: Array, guess: Array) -> Terms:
    p, c = arrays.by_point, arrays.by_curve
    d = {name: flat[f"defaults.{name}"] for name in START["defaults"]}
    at = dict(zip(UNKNOWNS, np.moveaxis(unknowns, 1, 0)[:, :, None], strict=True))
    alone = np.exp(guess + at["compute_s"])
    links = p["link_s"] / np.where(c["fast"], d["inside_nvlink"], d["inside_pcie"])
    rdma = np.minimum(1.0, d["network_rdma"] * c["crowd"] ** -d["crowding"])
    share = np.where(c["tcp"], d["network_tcp"], np.where(c["dcn"], d["network_dcn"], rdma))
    around = (p["network_s"] + d["flat"] * p["flat_s"]) / share
    servers = p["servers_s"] / np.where(c["naive"], d["servers"], share)
    network = np.maximum(np.maximum(around, p["sums_s"] / d["sums"]), servers)
    latency = 2 * d["latency_s"] * p["hosts"] * (1 - c["sparse"])
    latency = latency + d["inside_latency_s"] * p["inside"]
    sync = np.where(c["fast"], d["sync_nvlink"], d["sync_pcie"]) + d["sync_input"] * c["real"]
    sync = sync + d["sync_halves"] * c["halves"] + d["sync_sparse"] * c["sparse"]
    first = d["sync_first"]
    losses = sync * (first * p["several"] + (1 - first) * p["inside"] / 3) * np.exp(at["sync"])
    stragglers = d["stragglers"] * np.exp(at["delta"]) * p["hosts"]
    fixed = (d["fixed_share"] + d["fixed_s"] / np.maximum(alone, 0.01)) * np.exp(at["mu"])
    overlap = np.where(c["slow"], d["overlap_slow"], d["overlap_fast"]) * np.exp(at["gamma"])
    return Terms(
        alone=alone,
        fixed=fixed,
        ratio=p["ratio"],
        losses=losses,
        stragglers=stragglers,
        compute=alone * (p["ratio"] + fixed) / (1 + fixed) * (1 + losses + stragglers),
        links=(links + p["memory_s"] / d["memory"]) * np.exp(-at["inside"]),
        latency=latency * np.exp(at["alpha_s"]),
        network=network * np.exp(at["sync"] - at["network"]),
        overlap=np.clip(overlap, *_OVERLAP),
    )


def _guess(arrays: Arrays, flat: Flat) -> Array:
    first = np.argmax(arrays.observed, axis=1)
    rows = np.arange(len(first))
    guess: Array = measured(arrays, flat)[rows, first] - np.log(
        arrays.by_point["ratio"][rows, first]
    )
    return guess[:, None]


def _drift(arrays: Arrays, flat: Flat) -> Array:
    total: Array = np.zeros((len(arrays.observed), _MOST_POINTS, _MOST_POINTS))
    for name in ("inside", "hosts"):
        at = arrays.by_point[name]
        total += flat[f"priors.drift_{name}"] ** 2 * np.minimum(at[:, :, None], at[:, None, :])
    return total


def _weights(arrays: Arrays, flat: Flat) -> Array:
    """The inverse of the covariance of what is known; what is not has none."""
    observed = arrays.observed
    both = observed[:, :, None] * observed[:, None, :]
    noise = np.where(observed > 0, flat["priors.noise"] ** 2, 1.0)
    spread = _drift(arrays, flat) * both + noise[:, :, None] * np.eye(_MOST_POINTS)
    weights: Array = np.linalg.inv(spread) * both
    return weights


def solve(arrays: Arrays, flat: Flat, unknowns: Array, rounds: int) -> Array:
    """The likeliest unknowns of every question, from where they were."""
    weights, guess, steps = _weights(arrays, flat), _guess(arrays, flat), measured(arrays, flat)
    widths = np.array([flat[f"priors.{name}"] for name in UNKNOWNS.values()])
    damping = np.full(len(unknowns), 1e-3)
    diagonal = range(len(widths))

    def cost(at: Array) -> tuple[Array, Array]:
        missed = (steps - expected(arrays, flat, at, guess)) * arrays.observed
        prior = ((at / widths) ** 2).sum(axis=1)
        return np.einsum("bi,bij,bj->b", missed, weights, missed) + prior, missed

    now, missed = cost(unknowns)
    for _ in range(rounds):
        slopes = _slopes(arrays, flat, unknowns, guess) * arrays.observed[:, :, None]
        weighed = np.einsum("bij,bjk->bik", weights, slopes)
        normal = np.einsum("bik,bil->bkl", slopes, weighed)
        normal[:, diagonal, diagonal] += 1 / widths**2
        gradient = np.einsum("bik,bi->bk", weighed, missed) - unknowns / widths**2
        normal[:, diagonal, diagonal] *= 1 + damping[:, None]
        step = np.clip(np.linalg.solve(normal, gradient[:, :, None])[:, :, 0], -1.5, 1.5)
        then, there = cost(unknowns + step)
        better = then < now
        unknowns = np.where(better[:, None], unknowns + step, unknowns)
        now, missed = np.where(better, then, now), np.where(better[:, None], there, missed)
        damping = np.where(better, damping / 5, damping * 8)
    return unknowns


def _slopes(arrays: Arrays, flat: Flat, unknowns: Array, guess: Array) -> Array:
    """Of the steps' logarithms, by each unknown."""
    t = _terms(arrays, flat, unknowns, guess)
    exchange = t.links + t.latency + t.network
    most = np.maximum(t.compute, exchange)
    ratio = np.minimum(t.compute, exchange) / most
    power = ratio**t.overlap
    of_compute = np.where(t.compute >= exchange, 1.0, power) / (1 + power)
    a_second = (1 - of_compute) / np.maximum(exchange, 1e-30)
    lost = of_compute / (1 + t.losses + t.stragglers)
    batch = of_compute * (1 / (t.ratio + t.fixed) - 1 / (1 + t.fixed))
    milliseconds = flat["defaults.fixed_s"] / (
        flat["defaults.fixed_share"] * np.maximum(t.alone, 0.01) + flat["defaults.fixed_s"]
    )
    free = (t.overlap > _OVERLAP[0]) & (t.overlap < _OVERLAP[1])
    logarithm = np.log(np.maximum(ratio, 1e-30))
    bent = power * logarithm / (1 + power) - np.log1p(power) / t.overlap
    slopes = {
        "compute_s": of_compute - batch * t.fixed * milliseconds * (t.alone > 0.01),
        "inside": -a_second * t.links,
        "network": -a_second * t.network,
        "sync": lost * t.losses + a_second * t.network,
        "delta": lost * t.stragglers,
        "gamma": bent * free,
        "alpha_s": a_second * t.latency,
        "mu": batch * t.fixed,
    }
    return np.stack([slopes[name] for name in UNKNOWNS], axis=2)


def answers(arrays: Arrays, flat: Flat, unknowns: Array) -> Array:
    """Logarithms of measured over predicted steps, of every point of every question."""
    steps = measured(arrays, flat)
    equations = expected(arrays, flat, unknowns, _guess(arrays, flat))
    missed = (steps - equations) * arrays.observed
    carried = np.einsum("bij,bj->bi", _weights(arrays, flat), missed)
    logarithms: Array = steps - equations - np.einsum("bij,bj->bi", _drift(arrays, flat), carried)
    return logarithms


def spreads(arrays: Arrays, flat: Flat, unknowns: Array) -> Array:
    """Standard deviations of the answers' logarithms; ``posterior.Posterior.spread`` in arrays."""
    widths = np.array([flat[f"priors.{name}"] for name in UNKNOWNS.values()])
    slopes = _slopes(arrays, flat, unknowns, _guess(arrays, flat)) * widths
    every = np.einsum("bik,bjk->bij", slopes, slopes) + _drift(arrays, flat)
    noise = flat["priors.noise"] ** 2
    both = arrays.observed[:, :, None] * arrays.observed[:, None, :]
    diagonal = np.where(arrays.observed > 0, noise, 1.0)[:, :, None] * np.eye(_MOST_POINTS)
    weights = np.linalg.inv(every * both + diagonal) * both
    explained = np.einsum("bij,bjk,bki->bi", every, weights, every)
    alone = np.einsum("bii->bi", every)
    deviations: Array = np.sqrt(np.maximum(alone - explained, 0.0) + noise)
    return deviations
