"""Samples and minutes to target, from what published trainings took.

No command uses these: Bc of a recipe that was never seen is assumed nowhere.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed.planning.scaling.least_squares import backward, forward, triangle
from trainshed.planning.scaling.targets import Recipe, ToTarget

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
