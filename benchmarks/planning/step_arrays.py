"""The planner's equations for all questions at once, in NumPy arrays.

Every question (some points of a curve are known, others are asked) is answered by the same
equations and the same unknowns as ``planning.scaling.fitting``; a test holds the two together.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.planning.questions import Question
from benchmarks.planning.rows import Curve
from trainshed.planning.scaling.fitting import UNKNOWNS, doublings_of, far_fixed_part
from trainshed.planning.scaling.rates import at_batch, network_bytes
from trainshed.planning.scaling.step import Rates, parts_of
from trainshed.planning.scaling.training import Strategy

Array = NDArray[np.float64]
#: Parameters as ``table.name``.
Flat = dict[str, float]

_MOST_POINTS = 6
_ENDLESS = 1e30
_MEMORY_BYTES, _PCIE_BYTES = 48e9, 12e9
_OVERLAP = (1.0, 6.0)
_HALVES = frozenset({"amp", "amp_bf16", "amp_fp16", "fp16", "bf16", "fp8"})


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrays:
    """Questions in arrays: one row each, one column a point."""

    by_point: Mapping[str, Array]
    by_curve: Mapping[str, Array]
    observed: Array
    targets: Array


def arrays_of(curves: Sequence[Curve], questions: Sequence[Question]) -> Arrays:
    """The questions' points, and the terms of the equations that do not depend on parameters."""
    rows = [_row(curve) for curve in curves]
    index = np.array([question.curve for question in questions])
    points = {key: np.array([row[0][key] for row in rows])[index] for key in rows[0][0]}
    shared = {key: np.array([row[1][key] for row in rows])[index, None] for key in rows[0][1]}
    shared["far"] = np.array([_far(curves, question) for question in questions])[:, None]
    observed, targets = (np.zeros((len(questions), _MOST_POINTS)) for _ in range(2))
    for i, question in enumerate(questions):
        observed[i, list(question.observed)] = 1
        targets[i, list(question.targets)] = 1
    return Arrays(by_point=points, by_curve=shared, observed=observed, targets=targets)


def _far(curves: Sequence[Curve], question: Question) -> float:
    points = [curves[question.curve].points[i] for i in question.observed]
    return far_fixed_part(
        [(run.accelerators, run.step_s / run.batch_per_accelerator) for run in points]
    )


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
        "micro0": float(training.micro_batches),
        "size": max(training.gradient_bytes, 1e6) / 1e8,
    }
    return {key: [point[key] for point in points] for key in points[0]}, shared


def _point(curve: Curve, i: int) -> dict[str, float]:
    point, training = curve.points[i], curve.training
    cluster, link = point.cluster(curve.host), network_bytes(curve.host)
    inside, hosts = doublings_of(point)
    at_point = at_batch(training, point.batch)

    def alone(flat: float = 0.0, **rates: float) -> tuple[float, float]:
        parts = parts_of(at_point, cluster, _endless(flat, **rates), 1.0)
        return parts.inside, parts.network

    over_hosts = alone(network=link)[1]
    sums = training.strategy is Strategy.ALLREDUCE_CPU
    return {
        "step": math.log(point.step_s / curve.points[0].step_s),
        "ratio": point.batch_per_accelerator / training.batch_per_accelerator,
        "micro": float(point.micro_batches),
        "times": point.micro_batches / training.micro_batches,
        "more": point.accelerators - 1.0,
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
    """The parts of a step, in seconds unless noted."""

    alone: Array
    fixed: Array
    """A share, as ``ratio``."""
    ratio: Array
    micro: Array
    """Micro batches of a step."""
    times: Array
    """The same over those of the training."""
    losses: Array
    """A share of compute: synchronisation inside a host."""
    parts: Array
    """A share of compute: the part that more accelerators do not shorten."""
    stragglers: Array
    """A share of compute."""
    compute: Array
    links: Array
    latency: Array
    network: Array
    overlap: Array

    def log_step(self) -> Array:
        """The earlier micro batches, then the smooth maximum of the last one and the exchange."""
        exchange = self.links + self.latency + self.network
        last = self.compute / self.micro
        most = np.maximum(last, exchange)
        ratio = np.minimum(last, exchange) / most
        end = most * (1 + ratio**self.overlap) ** (1 / self.overlap)
        logarithm: Array = np.log(self.compute - last + end)
        return logarithm


def expected(arrays: Arrays, flat: Flat, unknowns: Array, guess: Array) -> Array:
    """Logarithms of the equations' steps; ``planning.scaling.step`` in arrays."""
    return _terms(arrays, flat, unknowns, guess).log_step()


def _terms(arrays: Arrays, flat: Flat, unknowns: Array, guess: Array) -> Terms:
    p, c = arrays.by_point, arrays.by_curve
    d = {
        name.removeprefix("defaults."): value
        for name, value in flat.items()
        if name.startswith("defaults.")
    }
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
    parts = c["far"] * np.exp(at["phi"]) * p["more"]
    stragglers = d["stragglers"] * np.exp(at["delta"]) * p["hosts"]
    micro_s = np.maximum(alone / c["micro0"], 0.01)
    fixed = (d["fixed_share"] + d["fixed_s"] / micro_s) * np.exp(at["mu"])
    alone_at = alone * (p["ratio"] + p["times"] * fixed) / (1 + fixed)
    overlap = np.where(c["slow"], d["overlap_slow"], d["overlap_fast"]) * np.exp(at["gamma"])
    return Terms(
        alone=alone,
        fixed=fixed,
        ratio=p["ratio"],
        micro=p["micro"],
        times=p["times"],
        losses=losses,
        parts=parts,
        stragglers=stragglers,
        compute=alone_at * (1 + losses + stragglers + parts),
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
    return _drift_of(arrays, flat["priors.drift_inside"], flat["priors.drift_hosts"])


@lru_cache(maxsize=2)
def _drift_of(arrays: Arrays, per_inside: float, per_hosts: float) -> Array:
    total: Array = np.zeros((len(arrays.observed), _MOST_POINTS, _MOST_POINTS))
    for name, width in (("inside", per_inside), ("hosts", per_hosts)):
        at = arrays.by_point[name]
        total += width**2 * np.minimum(at[:, :, None], at[:, None, :])
    return total


def _weights(arrays: Arrays, flat: Flat) -> Array:
    """The inverse of the covariance of what is known; what is not has none."""
    names = ("noise", "drift_inside", "drift_hosts")
    return _weights_of(arrays, *(flat[f"priors.{name}"] for name in names))


@lru_cache(maxsize=2)
def _weights_of(arrays: Arrays, noise: float, per_inside: float, per_hosts: float) -> Array:
    observed = arrays.observed
    both = observed[:, :, None] * observed[:, None, :]
    variances = np.where(observed > 0, noise**2, 1.0)
    spread = _drift_of(arrays, per_inside, per_hosts) * both
    spread = spread + variances[:, :, None] * np.eye(_MOST_POINTS)
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
        return _squares(missed, weights) + prior, missed

    now, missed = cost(unknowns)
    for _ in range(rounds):
        slopes = _slopes(arrays, flat, unknowns, guess) * arrays.observed[:, :, None]
        weighed = weights @ slopes
        normal = slopes.transpose(0, 2, 1) @ weighed
        normal[:, diagonal, diagonal] += 1 / widths**2
        gradient = (missed[:, None, :] @ weighed)[:, 0, :] - unknowns / widths**2
        normal[:, diagonal, diagonal] *= 1 + damping[:, None]
        step = np.clip(np.linalg.solve(normal, gradient[:, :, None])[:, :, 0], -1.5, 1.5)
        then, there = cost(unknowns + step)
        better = then < now
        unknowns = np.where(better[:, None], unknowns + step, unknowns)
        now, missed = np.where(better, then, now), np.where(better[:, None], there, missed)
        damping = np.where(better, damping / 5, damping * 8)
    return unknowns


def _squares(missed: Array, weights: Array) -> Array:
    total: Array = (missed[:, None, :] @ weights @ missed[:, :, None])[:, 0, 0]
    return total


def _slopes(arrays: Arrays, flat: Flat, unknowns: Array, guess: Array) -> Array:
    """Of the steps' logarithms, by each unknown."""
    t = _terms(arrays, flat, unknowns, guess)
    exchange = t.links + t.latency + t.network
    last = t.compute / t.micro
    most = np.maximum(last, exchange)
    ratio = np.minimum(last, exchange) / most
    power = ratio**t.overlap
    end = most * (1 + power) ** (1 / t.overlap)
    earlier = t.compute - last
    of_last = np.where(last >= exchange, 1.0, power) / (1 + power)
    of_end = end / (earlier + end)
    of_compute = 1 - of_end * (1 - of_last)
    a_second = (1 - of_compute) / np.maximum(exchange, 1e-30)
    lost = of_compute / (1 + t.losses + t.stragglers + t.parts)
    batch = of_compute * (t.times / (t.ratio + t.times * t.fixed) - 1 / (1 + t.fixed))
    micro_s = t.alone / arrays.by_curve["micro0"]
    milliseconds = flat["defaults.fixed_s"] / (
        flat["defaults.fixed_share"] * np.maximum(micro_s, 0.01) + flat["defaults.fixed_s"]
    )
    free = (t.overlap > _OVERLAP[0]) & (t.overlap < _OVERLAP[1])
    logarithm = np.log(np.maximum(ratio, 1e-30))
    bent = power * logarithm / (1 + power) - np.log1p(power) / t.overlap
    slopes = {
        "compute_s": of_compute - batch * t.fixed * milliseconds * (micro_s > 0.01),
        "inside": -a_second * t.links,
        "network": -a_second * t.network,
        "sync": lost * t.losses + a_second * t.network,
        "delta": lost * t.stragglers,
        "gamma": of_end * bent * free,
        "alpha_s": a_second * t.latency,
        "mu": batch * t.fixed,
        "phi": lost * t.parts,
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
