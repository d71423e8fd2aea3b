"""The training that a target quality needs: E(B) = E0 (1 + B/Bc) samples with a global batch B.

Its steps are S(B) = E(B) / B.  A batch far below Bc (the critical batch) wastes nothing; far above
it, each step does no more than a smaller one would.  Bc depends on a workload and its recipe
(optimizer, schedule), so no value is assumed: two finished runs determine E0 and Bc.
"""

from dataclasses import dataclass
from typing import Final

#: Two batches whose ratio is below this do not determine Bc.
_APART: Final = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ToTarget:
    """The batch of a finished training and the amount of data that it needed to its target."""

    batch: float
    """The samples of one step on all accelerators."""
    amount: float
    """The amount in samples or in epochs; all runs must use the same unit."""
    origin: str = ""
    """Runs of one origin (a round, a submitter) are more alike than others."""


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

    def steps(self, batch: float) -> float:
        """Return the steps to target with a global batch; E0 must be in samples."""
        return self.amount(batch) / batch


def two_runs(first: ToTarget, second: ToTarget) -> Recipe:
    """Solve E0 and Bc for two runs.  Raises ValueError if the runs do not determine them."""
    small, large = sorted((first, second), key=lambda run: run.batch)
    if large.batch < _APART * small.batch:
        raise ValueError(
            f"batches {small.batch:g} and {large.batch:g} are too close to compute the critical"
            f" batch: one must be at least {_APART:g} times the other"
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
