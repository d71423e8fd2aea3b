"""Predicts the samples and the minutes that a training needs to reach its target accuracy.

The predictions come from published trainings with the same recipe: the same model, data and
settings.  E(B) = E0 (1 + B/Bc) is the amount of samples with a global batch B; E0 and Bc, the
critical batch, belong to the recipe.  No command of trainshed uses this file, because it assumes no
Bc for a recipe without published trainings.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed.planning.scaling.least_squares import backward, forward, triangle
from trainshed.planning.scaling.targets import Recipe, ToTarget

#: The mean and the standard deviation of ln(Bc / median batch) among the published workloads.
_USUAL, _WIDTH = 1.5, 0.7
#: The spread of ln(samples to target) among runs with the same batch.
_NOISE: Final = 0.1
#: Runs with similar batches deviate from the curve alike.  In ln(amount): the size of a deviation,
#: its reach in ln B, the noise of one run, and the covariance factor of runs of another origin.
_HEIGHT, _REACH, _OWN, _ELSEWHERE = 0.1, 0.7, 0.05, 0.6
#: Larger deviations of a run from the curve are cut to this, in ln(amount).
_MOST: Final = 0.2
#: The values of ln(Bc / median batch) that the fit tries.
_GRID = tuple(z / 10 for z in range(-30, 60))


def fit_recipe(runs: Sequence[ToTarget]) -> Recipe:
    """Fit E0 and Bc to finished runs; with few runs Bc stays near its usual value.

    The fit has least absolute deviations, so that one run with another recipe has little influence.
    """
    if not runs:
        raise ValueError("runs must have at least one finished run, got none")
    logs = [(math.log(run.batch), math.log(run.amount)) for run in runs]
    middle = statistics.median(batch for batch, _ in logs)
    fits = [_fit_level(logs, middle, z) for z in _GRID]
    _, level, critical = min(fits)
    return Recipe(samples_at_least=math.exp(level), critical_batch=critical)


def _fit_level(
    logs: Sequence[tuple[float, float]], middle: float, z: float
) -> tuple[float, float, float]:
    """Return the loss, ln E0 and Bc for one value ``z`` of the grid.

    ``logs`` are pairs of ln(batch) and ln(amount).
    """
    critical = math.exp(middle + z)
    levels = sorted(amount - math.log1p(math.exp(batch) / critical) for batch, amount in logs)
    level = levels[(len(levels) - 1) // 2]
    loss = sum(abs(run_level - level) for run_level in levels) / _NOISE
    return loss + ((z - _USUAL) / _WIDTH) ** 2 / 2, level, critical


def predict_amount(runs: Sequence[ToTarget], batch: float, origin: str = "") -> float:
    """Predict the amount to target at a batch: the recipe's curve, corrected by similar runs."""
    recipe = fit_recipe(runs)
    target = ToTarget(batch=batch, amount=recipe.amount(batch), origin=origin)
    deviations = [
        max(-_MOST, min(_MOST, math.log(run.amount / recipe.amount(run.batch)))) for run in runs
    ]
    covariance = [
        [_covariance_of(a, b) + (_OWN**2 if i == j else 0.0) for j, b in enumerate(runs)]
        for i, a in enumerate(runs)
    ]
    lower = triangle(covariance)
    weights = backward(lower, forward(lower, deviations))
    correction = sum(w * _covariance_of(run, target) for w, run in zip(weights, runs, strict=True))
    return target.amount * math.exp(correction)


def _covariance_of(a: ToTarget, b: ToTarget) -> float:
    near = math.exp(-abs(math.log(a.batch / b.batch)) / _REACH)
    return _HEIGHT**2 * near * (1.0 if a.origin == b.origin else _ELSEWHERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingToTarget:
    """A training to its target accuracy: its accelerators, its batch and its duration."""

    accelerators: int
    hosts: int
    batch: float
    """The samples of one step on all accelerators."""
    minutes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLosses:
    """How the time of a step changes with its batch and with the accelerators: two constants."""

    fixed: float = 0.15
    """The time of a step that does not depend on the local batch, over the rest (mu)."""
    per_doubling: float = 0.015
    """The time that each doubling of the accelerators adds, over the same rest (d)."""


def predict_minutes(
    base: TrainingToTarget,
    other: TrainingToTarget,
    losses: StepLosses,
    amount: Callable[[float], float],
) -> float:
    """Predict the minutes of ``other`` from those of ``base``, on the same kind of hosts.

    ``amount`` returns the amount to target of a global batch, in any unit.
    """
    local = (other.batch / other.accelerators) / (base.batch / base.accelerators)
    doublings = math.log2(other.accelerators / base.accelerators)
    step = (local + losses.fixed + losses.per_doubling * doublings) / (1 + losses.fixed)
    steps = amount(other.batch) / amount(base.batch) * base.batch / other.batch
    return base.minutes * steps * step
