"""Where the caller expects the best point, as a score beside the acquisition (decision 0120).

After Hvarfner et al., "piBO: Augmenting Acquisition Functions with User Beliefs for Bayesian
Optimization" (ICLR 2022): the logarithm of the probability counts with a weight that falls with the
number of results.  An inactive parameter scores as the expected value does, so that a statement
about a child says nothing about its parent.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from trainshed.model.study import PriorWidth
from trainshed.tuning.candidates import Acquisition
from trainshed.tuning.cube import WORD_FEATURE, Array, Cube
from trainshed.tuning.feasibility import ScoreSum
from trainshed.tuning.space import Space

#: The standard deviation around an expected number, as a share of the parameter's scale.
DEVIATIONS: Final[Mapping[PriorWidth, float]] = {
    PriorWidth.NARROW: 0.04,
    PriorWidth.USUAL: 0.1,
    PriorWidth.WIDE: 0.25,
}
#: How many times as probable as each other word the expected word is.
ODDS: Final[Mapping[PriorWidth, float]] = {
    PriorWidth.NARROW: 100.0,
    PriorWidth.USUAL: 10.0,
    PriorWidth.WIDE: 3.0,
}
#: The deviation is at least this share of the distance of listed numbers.
_STEP_SHARE: Final = 0.5

#: The weight of an expectation after one trial; after n trials it is this divided by n.
STRENGTH: Final = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisExpectation:
    """What is expected of one axis of the cube."""

    index: int
    position: float
    width: PriorWidth


def expectations_of(space: Space) -> tuple[AxisExpectation, ...]:
    """Return the expectations of a space, by positions on the scales of its parameters."""
    return tuple(
        AxisExpectation(
            index=dimension.index,
            position=dimension.axis.position(dimension.expected.value),
            width=dimension.expected.width,
        )
        for dimension in space.dimensions
        if dimension.expected is not None
    )


def with_expectations(
    acquisition: Acquisition,
    cube: Cube,
    expectations: Sequence[AxisExpectation],
    result_count: int,
) -> Acquisition:
    """Return the acquisition with the expectations, which count less with more results."""
    if not expectations:
        return acquisition
    weight = STRENGTH / max(result_count, 1)
    score = ExpectationScore(cube=cube, expectations=tuple(expectations), weight=weight)
    return ScoreSum(parts=[acquisition, score])


def expect_in_rows(
    rows: Array, cube: Cube, expectations: Sequence[AxisExpectation], rng: np.random.Generator
) -> Array:
    """Return random complete rows with coordinates that are drawn as they are expected."""
    drawn = rows.copy()
    for expected in expectations:
        axis, shares = cube.axes[expected.index], rng.random(len(rows))
        if not axis.positions:
            deviation = DEVIATIONS[expected.width]
            low, high = (ndtr((end - expected.position) / deviation) for end in (0.0, 1.0))
            offsets = deviation * ndtri(low + shares * (high - low))
            drawn[:, expected.index] = np.clip(expected.position + offsets, 0.0, 1.0)
        else:
            weights = np.exp(_log_shares(cube, expected))
            sums = np.cumsum(weights) / weights.sum()
            chosen = np.minimum(np.searchsorted(sums, shares), len(sums) - 1)
            drawn[:, expected.index] = np.array(axis.positions)[chosen]
    return drawn


def _deviation(cube: Cube, expected: AxisExpectation) -> float:
    """Return the standard deviation on an axis of numbers."""
    count = len(cube.axes[expected.index].positions)
    step = _STEP_SHARE / count if count else 0.0
    return max(DEVIATIONS[expected.width], step)


def _log_shares(cube: Cube, expected: AxisExpectation) -> Array:
    """Return the logarithm of the probability of each position beside that of the expected one."""
    axis = cube.axes[expected.index]
    positions = np.array(axis.positions)
    if axis.is_category:
        return np.where(positions == expected.position, 0.0, -math.log(ODDS[expected.width]))
    return -0.5 * ((positions - expected.position) / _deviation(cube, expected)) ** 2


@dataclass(frozen=True, kw_only=True)
class ExpectationScore:
    """The logarithm of the probability of features, times ``weight``; 0 at the expected values."""

    cube: Cube
    expectations: tuple[AxisExpectation, ...]
    weight: float

    def score(self, features: Array) -> Array:
        """Return the score of each row."""
        return self.slopes(features)[0]

    def slopes(self, features: Array) -> tuple[Array, Array]:
        """Return the score of each row, and its gradient by the row's features."""
        score, gradient = np.zeros(len(features)), np.zeros_like(features)
        for expected in self.expectations:
            columns = self._columns[expected.index]
            if self.cube.axes[expected.index].is_category:
                # the features of a word are 0 but for its own; all are 0 while inactive
                slope = _log_shares(self.cube, expected) / WORD_FEATURE
                score += features[:, columns] @ slope
                gradient[:, columns] += slope
            else:
                is_active = self._is_active(expected.index, features)
                column, deviation = columns[0], _deviation(self.cube, expected)
                offsets = np.where(is_active, features[:, column] - expected.position, 0.0)
                square = 0.5 * (offsets / deviation) ** 2
                score += -np.log1p(square)
                gradient[:, column] += -offsets / (deviation**2 * (1.0 + square))
        return self.weight * score, self.weight * gradient

    @cached_property
    def _columns(self) -> list[NDArray[np.intp]]:
        """Return the indexes of the features of each axis."""
        return [np.nonzero(self.cube.groups == i)[0] for i in range(len(self.cube.axes))]

    def _is_active(self, index: int, features: Array) -> NDArray[np.bool_]:
        """Return in which rows an axis is active."""
        axis = self.cube.axes[index]
        if axis.parent is None:
            return np.ones(len(features), dtype=np.bool_)
        parent, columns = self.cube.axes[axis.parent], self._columns[axis.parent]
        if parent.is_category:
            is_met = np.isin(parent.positions, list(axis.parent_positions))
            return np.asarray((features[:, columns[is_met]] > 0).any(axis=1))
        is_met = np.isin(features[:, columns[0]], list(axis.parent_positions))
        return np.asarray(is_met & self._is_active(axis.parent, features))
