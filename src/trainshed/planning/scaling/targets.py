"""How much training a target takes: E(B) = E0 (1 + B/Bc) samples with a global batch B.

Its steps are S(B) = E(B) / B.  A batch far below Bc (the critical batch) wastes nothing; far above
it, each step does no more than a smaller one would.  Bc belongs to a workload and its recipe
(optimizer, schedule), so that nothing is assumed where neither was seen: two finished runs
determine both numbers.
"""

import math
import statistics
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from trainshed.planning.scaling.least_squares import backward, forward, triangle

#: Of the published workloads: ln(Bc / median batch), and its width.
_USUAL, _WIDTH = 1.5, 0.7
#: Of the logarithm of samples to target among runs of one batch.
_NOISE: Final = 0.1
#: Where runs lie beside the curve, their neighbours do: height, reach in ln B, noise of a run,
#: and how much of it runs of another origin share.
_HEIGHT, _REACH, _OWN, _ELSEWHERE = 0.1, 0.7, 0.05, 0.6
#: No neighbour says more than this.
_MOST: Final = 0.2
#: The batches at which Bc is looked for, ln over the median.
_GRID = tuple(z / 10 for z in range(-30, 60))
#: Written by scripts/fit_targets.py.
_FILE: Final = "data/targets_fit.toml"
#: Two batches closer than this do not tell Bc.
_APART: Final = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ToTarget:
    """What one finished training took (a median of several, of one origin)."""

    batch: float
    """Global."""
    amount: float
    """Samples, or epochs: one unit for all."""
    origin: str = ""
    """Runs of one origin (a round, a submitter) are more alike than others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A workload with its optimizer and schedule."""

    samples_at_least: float
    """E0: to target with a small batch; in samples or epochs, as what was seen."""
    critical_batch: float
    """Bc."""

    def amount(self, batch: float) -> float:
        """To target, of E0's unit."""
        return self.samples_at_least * (1 + batch / self.critical_batch)

    def steps(self, batch: float) -> float:
        """To target, where E0 is in samples."""
        return self.amount(batch) / batch


@cache
def published() -> Mapping[str, Recipe]:
    """Of workloads of MLPerf, by name: their recipes are not a user's own."""
    text = resources.files("trainshed.planning").joinpath(_FILE).read_text("utf-8")
    return {
        row["name"]: Recipe(
            samples_at_least=row["samples_at_least"], critical_batch=row["critical_batch"]
        )
        for row in tomllib.loads(text)["workload"]
    }


def recipe_of(runs: Sequence[ToTarget]) -> Recipe:
    """E0 and Bc of finished runs; few runs leave Bc near where workloads have it.

    Least absolute deviations: a run with another recipe does not bend the curve.
    """
    if not runs:
        raise ValueError("what a target takes is seen in one finished run or more")
    logs = [(math.log(run.batch), math.log(run.amount)) for run in runs]
    middle = statistics.median(batch for batch, _ in logs)
    fits = [_at(logs, middle, z) for z in _GRID]
    _, level, critical = min(fits)
    return Recipe(samples_at_least=math.exp(level), critical_batch=critical)


def _at(logs: Sequence[tuple[float, float]], middle: float, z: float) -> tuple[float, float, float]:
    """Loss, level and Bc of one place of the grid."""
    critical = math.exp(middle + z)
    levels = sorted(amount - math.log1p(math.exp(batch) / critical) for batch, amount in logs)
    level = levels[(len(levels) - 1) // 2]
    loss = sum(abs(run_level - level) for run_level in levels) / _NOISE
    return loss + ((z - _USUAL) / _WIDTH) ** 2 / 2, level, critical


def two_runs(first: ToTarget, second: ToTarget) -> Recipe:
    """E0 and Bc from two batches exactly.  Raises ValueError where they do not determine them."""
    small, large = sorted((first, second), key=lambda run: run.batch)
    if large.batch < _APART * small.batch:
        raise ValueError(
            f"batches {small.batch:g} and {large.batch:g} are too close to tell the critical"
            f" batch: one is to be {_APART:g} times the other or more"
        )
    slope = (large.amount - small.amount) / (large.batch - small.batch)
    least = small.amount - slope * small.batch
    if slope <= 0 or least <= 0:
        raise ValueError(
            f"{small.amount:g} at batch {small.batch:g} and {large.amount:g} at {large.batch:g}:"
            " no critical batch explains both; a larger batch takes more samples, and less than in"
            " proportion"
        )
    return Recipe(samples_at_least=least, critical_batch=least / slope)


def amount_at(runs: Sequence[ToTarget], batch: float, origin: str = "") -> float:
    """To target at a batch: the recipe's curve, bent towards runs of batches near by."""
    recipe = recipe_of(runs)
    target = ToTarget(batch=batch, amount=recipe.amount(batch), origin=origin)
    beside = [
        max(-_MOST, min(_MOST, math.log(run.amount / recipe.amount(run.batch)))) for run in runs
    ]
    alike = [
        [_alike(a, b) + (_OWN**2 if i == j else 0.0) for j, b in enumerate(runs)]
        for i, a in enumerate(runs)
    ]
    lower = triangle(alike)
    weights = backward(lower, forward(lower, beside))
    bent = sum(w * _alike(run, target) for w, run in zip(weights, runs, strict=True))
    return target.amount * math.exp(bent)


def _alike(a: ToTarget, b: ToTarget) -> float:
    near = math.exp(-abs(math.log(a.batch / b.batch)) / _REACH)
    return _HEIGHT**2 * near * (1.0 if a.origin == b.origin else _ELSEWHERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """One training to target on so many accelerators."""

    accelerators: int
    hosts: int
    batch: float
    """Global."""
    minutes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLosses:
    """How a step shrinks with its batch on more accelerators, where no step was timed."""

    fixed: float = 0.15
    """Share of a step that does not shrink with the local batch (mu)."""
    per_doubling: float = 0.015
    """What each doubling of accelerators adds to it (d)."""


def minutes_at(
    base: Trained, other: Trained, losses: StepLosses, amount: Callable[[float], float]
) -> float:
    """Minutes to target on another count, from a training on the same kind of hosts.

    ``amount``: what a global batch takes to target, of any unit.
    """
    local = (other.batch / other.accelerators) / (base.batch / base.accelerators)
    doublings = math.log2(other.accelerators / base.accelerators)
    step = (local + losses.fixed + losses.per_doubling * doublings) / (1 + losses.fixed)
    steps = amount(other.batch) / amount(base.batch) * base.batch / other.batch
    return base.minutes * steps * step
