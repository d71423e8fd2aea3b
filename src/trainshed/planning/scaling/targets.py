"""The training that a target quality needs: E(B) = E0 (1 + B/Bc) samples with a global batch B.

Its steps are S(B) = E(B) / B.  A batch far below Bc (the critical batch) wastes nothing; far above
it, each step does no more than a smaller one would.  Bc depends on a workload and its recipe
(optimizer, schedule), so finished runs of that recipe determine it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: Runs whose largest batch is below so many times their smallest do not determine Bc.
_APART: Final = 1.2
#: The mean and the standard deviation of ln(Bc / median batch) among published workloads.
_USUAL: Final = 1.5
_WIDTH: Final = 0.7
#: The spread of ln(samples to target) among runs with the same batch.
_NOISE: Final = 0.1
#: The values of ln(Bc / median batch) that the fit tries.
_GRID: Final = tuple(z / 10 for z in range(-30, 60))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToTarget:
    """The batch of a finished training and the amount of data that it needed to its target."""

    batch: float
    """The samples of one step on all accelerators."""
    amount: float
    """The amount in samples or in epochs; all runs must use the same unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A workload with its optimizer and schedule."""

    samples_at_least: float
    """E0: the amount to target with a small batch, in samples or epochs as in the runs."""
    critical_batch: float
    """Bc: the global batch with which training needs twice E0."""

    def amount(self, batch: float) -> float:
        """Return the amount to target with a global batch, in the unit of E0."""
        return self.samples_at_least * (1 + batch / self.critical_batch)


def recipe_of(runs: Sequence[ToTarget]) -> Recipe:
    """Fit E0 and Bc to two or more finished runs.  Raises ValueError if they do not determine Bc.

    The fit has least absolute deviations, so that one run with another recipe has little influence.
    """
    small, large = (end(runs, key=lambda run: run.batch) for end in (min, max))
    if large.batch < _APART * small.batch:
        raise ValueError(
            f"batches {small.batch:g} and {large.batch:g} are too close to compute the critical"
            f" batch: one must be at least {_APART:g} times the other"
        )
    if not small.amount < large.amount < small.amount * large.batch / small.batch:
        raise ValueError(
            f"{small.amount:g} at batch {small.batch:g} and {large.amount:g} at {large.batch:g}:"
            " no critical batch explains both; a larger batch takes more samples, and less than in"
            " proportion"
        )
    return fit_recipe(runs)


def fit_recipe(runs: Sequence[ToTarget]) -> Recipe:
    """Fit E0 and Bc to one or more runs; where these say little, Bc is near its usual value."""
    logs = [(math.log(run.batch), math.log(run.amount)) for run in runs]
    batches = sorted(batch for batch, _ in logs)
    middle = (batches[(len(batches) - 1) // 2] + batches[len(batches) // 2]) / 2
    _, level, critical = min(_fit_level(logs, middle, z) for z in _GRID)
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
