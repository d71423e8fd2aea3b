"""Between a study's space and the Gaussian process, which knows only the unit cube (R19)."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from trainshed.model.study import Noise
from trainshed.model.trials import Value, Values
from trainshed.tuning import gaussian
from trainshed.tuning.history import History
from trainshed.tuning.random_search import random_of, random_point
from trainshed.tuning.space import Dimension, Space

#: An INTEGER of more values is as good as continuous.
POSITIONS_MAX: Final = 1000

#: Where losses are larger, only their shares of the largest are looked at.
LOSS_MAX: Final = 1e100

#: More dimensions have no Sobol sequence.
_SOBOL_MAX: Final = 21_201


class Surrogate:
    """A space as a cube, searched by the Gaussian process or filled evenly."""

    def __init__(self, space: Space, seed: int, noise: Noise) -> None:
        """Lay out the cube: one axis for each dimension, in the same order."""
        self._space = space
        self._seed = seed
        self._noise = noise
        self._axes = [_axis(space, dimension) for dimension in space.dimensions]
        self._seen: dict[Values, gaussian.Point] = {}

    @property
    def is_able(self) -> bool:
        """Whether every condition follows from the parent's coordinate."""
        parents = {each.parent for each in self._space.dimensions if each.parent is not None}
        return all(_is_listed(self._space.dimensions[parent]) for parent in parents)

    def point(self, history: History) -> Values:
        """Where the objective may be best; only for studies with one objective."""
        found = gaussian.propose(
            [self._coordinates(tried.values, tried.chosen) for tried in history.finished],
            _losses(history),
            [self._coordinates(tried.values, tried.chosen) for tried in history.pending],
            axes=self._axes,
            seed=random_of(self._seed, history.number, "surrogate").getrandbits(32),
            noise=self._noise,
        )
        return self._space.walk(lambda dimension: dimension.axis.value(found[dimension.index]))

    def filling(self, history: History) -> Values:
        """The next point of a sequence that leaves no large hole, however long it goes on."""
        from scipy.stats import qmc  # noqa: PLC0415 - it takes a second and much memory

        if len(self._axes) > _SOBOL_MAX:
            return random_point(self._space, random_of(self._seed, history.number, "filling"))
        scrambled = np.random.default_rng(random_of(self._seed, 0, "filling").getrandbits(32))
        sequence = qmc.Sobol(len(self._axes), rng=scrambled).fast_forward(history.number)
        row = [float(each) for each in sequence.random(1)[0]]
        return self._space.walk(lambda dimension: dimension.axis.value(row[dimension.index]))

    def _coordinates(self, values: Values, chosen: Mapping[int, Value]) -> gaussian.Point:
        if values not in self._seen:
            self._seen[values] = tuple(
                each.axis.position(chosen[each.index]) if each.index in chosen else math.nan
                for each in self._space.dimensions
            )
        return self._seen[values]


def _losses(history: History) -> list[float]:
    """Losses whose squares are still floats; NaN for a failure."""
    losses = [tried.losses[0] if tried.losses else math.nan for tried in history.finished]
    largest = max((abs(loss) for loss in losses if math.isfinite(loss)), default=0.0)
    return [loss / largest for loss in losses] if largest > LOSS_MAX else losses


def _axis(space: Space, dimension: Dimension) -> gaussian.CubeAxis:
    axis = dimension.axis
    parent = None if dimension.parent is None else space.dimensions[dimension.parent].axis
    return gaussian.CubeAxis(
        positions=tuple(map(axis.position, axis.after(None))) if _is_listed(dimension) else (),
        is_category=isinstance(axis.value(0.5), str),
        parent=dimension.parent,
        parent_positions=frozenset(
            parent.position(value) for value in dimension.parent_values if parent
        ),
    )


def _is_listed(dimension: Dimension) -> bool:
    """Words are, however many."""
    count = dimension.axis.count
    is_word = isinstance(dimension.axis.value(0.5), str)
    return count is not None and (is_word or count <= POSITIONS_MAX)
