"""The unit cube of the Gaussian process: axes, allowed points, and their features.

A category becomes one feature for each of its words, so that all words are equally far apart.  An
inactive coordinate becomes a constant, which adds nothing to the distance of two points.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: One coordinate in 0..1 per axis; NaN if the axis is not active.
Point = tuple[float, ...]

#: An axis of more positions is searched along its slope, as if it were continuous.
LISTED_MAX: Final = 12

_INACTIVE: Final = 0.5
#: The feature of a point's word: different words are at distance 1.
WORD_FEATURE: Final = 0.5**0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class CubeAxis:
    """One dimension of the unit cube that is searched.

    Without ``positions`` every coordinate in 0..1 is allowed; with them only those (ascending).
    The coordinates of categories have no distance.
    """

    positions: tuple[float, ...] = ()
    is_category: bool = False
    parent: int | None = None
    """The index of the axis above, which comes earlier; None: always active."""
    parent_positions: frozenset[float] = field(default_factory=frozenset)
    """Active only while the parent is active and has one of these coordinates (exactly)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Branch:
    """The axes that are active while the axis ``parent`` has one of some coordinates."""

    parent: int
    parent_positions: Array
    is_child: NDArray[np.bool_]
    """Which axes of the cube these are."""


class Cube:
    """All axes together; matrices have one row per point, and NaN for inactive coordinates."""

    def __init__(self, axes: Sequence[CubeAxis]) -> None:
        """Derive the features of the axes."""
        self.axes = tuple(axes)
        self._positions = [np.array(axis.positions) for axis in axes]
        self._middles = [(some[1:] + some[:-1]) / 2.0 for some in self._positions]
        self._has_words = any(axis.is_category for axis in axes)
        self._parents = {axis.parent for axis in axes if axis.parent is not None}

    @cached_property
    def groups(self) -> NDArray[np.intp]:
        """Return the index of the axis of each feature."""
        widths = [len(axis.positions) if axis.is_category else 1 for axis in self.axes]
        return np.repeat(np.arange(len(self.axes)), widths)

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """Return the indexes of the axes that have a slope."""
        return np.array([i for i in range(len(self.axes)) if self._is_smooth(i)], dtype=np.intp)

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """Return the index of the feature of each axis in ``columns``."""
        return np.searchsorted(self.groups, self.columns)

    @cached_property
    def _words(self) -> Array:
        """Return the positions of the words that features stand for; NaN for numbers."""
        words = [axis.positions if axis.is_category else (np.nan,) for axis in self.axes]
        return np.array([position for positions in words for position in positions])

    @cached_property
    def _branches(self) -> Sequence[_Branch]:
        """Return the axes that have a parent, a parent's own branch before its children's."""
        conditions = [(axis.parent, axis.parent_positions) for axis in self.axes]
        return [
            _Branch(
                parent=parent,
                parent_positions=np.array(list(positions)),
                is_child=np.array([one == (parent, positions) for one in conditions]),
            )
            for parent, positions in dict.fromkeys(conditions)
            if parent is not None
        ]

    def draw(self, count: int, rng: np.random.Generator) -> Array:
        """Return random complete rows; each position of an axis has the same chance."""
        rows = rng.random((count, len(self.axes)))
        for i, positions in enumerate(self._positions):
            if len(positions):
                rows[:, i] = positions[rng.integers(len(positions), size=count)]
        return rows

    def snap(self, rows: Array) -> Array:
        """Return the nearest allowed points of complete rows; NaN for inactive axes."""
        out = np.clip(rows, 0.0, 1.0)
        for i, (positions, middles) in enumerate(zip(self._positions, self._middles, strict=True)):
            if len(positions):
                out[:, i] = positions[np.searchsorted(middles, rows[:, i])]
        for branch in self._branches:
            is_inactive = (out[:, branch.parent, None] != branch.parent_positions).all(axis=1)
            out[is_inactive[:, None] & branch.is_child] = np.nan
        return out

    def features(self, points: Array) -> Array:
        """Return the features, between which distances are measured."""
        if not self._has_words:
            return np.where(np.isnan(points), _INACTIVE, points)
        columns = np.take(points, self.groups, axis=1)
        words = np.where(columns == self._words, WORD_FEATURE, 0.0)
        numbers = np.where(np.isnan(columns), _INACTIVE, columns)
        return np.where(np.isnan(self._words), numbers, words)

    def neighbours(self, row: Array, rng: np.random.Generator) -> Array:
        """Return complete rows that differ from one in a single listed axis."""
        changes = [
            (i, position)
            for i, positions in enumerate(self._positions)
            if len(positions)
            for position in self._other_positions(i, float(row[i]), rng)
        ]
        rows = np.tile(row, (len(changes), 1))
        for changed, (i, position) in zip(rows, changes, strict=True):
            changed[i] = position
        return rows

    def _other_positions(
        self, index: int, current: float, rng: np.random.Generator
    ) -> Iterator[float]:
        axis = self.axes[index]
        if len(axis.positions) <= LISTED_MAX or axis.is_category:
            positions = [position for position in axis.positions if position != current]
            few = rng.permutation(len(positions))[:LISTED_MAX]
            yield from (positions[i] for i in few)
        else:
            at = int(np.argmin(np.abs(self._positions[index] - current)))
            indexes = (at - 2, at - 1, at + 1, at + 2)
            yield from (axis.positions[i] for i in indexes if 0 <= i < len(axis.positions))

    def _is_smooth(self, index: int) -> bool:
        axis = self.axes[index]
        is_free = not axis.positions or len(axis.positions) > LISTED_MAX
        return is_free and not axis.is_category and index not in self._parents
