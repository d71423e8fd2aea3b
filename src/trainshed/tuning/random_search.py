"""RANDOM_SEARCH, and random points for other algorithms.

Random numbers depend on the study's seed and the trial's number only, never on a clock.
"""

import random
from collections.abc import Iterator
from itertools import chain
from typing import Final

from trainshed.model.trials import Value, Values
from trainshed.tuning.space import Dimension, Space

#: The number of draws before points are searched one by one.
DRAWS_MAX: Final = 100

#: The number of places in a DOUBLE range, besides its ends, in the search one by one.
_PLACES: Final = 8


def random_of(seed: int, number: int, purpose: str) -> random.Random:
    """Return a random generator for one purpose of one trial, the same in every process."""
    return random.Random(f"{seed}/{number}/{purpose}")  # noqa: S311  # no secret is made of it


def random_point(space: Space, draw: random.Random) -> Values:
    """Return a random point, each parameter by its scale."""
    return space.walk(lambda dimension: dimension.axis.value(draw.random()))


def random_points(space: Space, draw: random.Random) -> Iterator[Values]:
    """Yield ``DRAWS_MAX`` random points."""
    return (random_point(space, draw) for _ in range(DRAWS_MAX))


def first_point(space: Space, draw: random.Random) -> Values:
    """Return the point of all defaults; parameters without a default get a random value."""

    def choose(dimension: Dimension) -> Value:
        chosen = dimension.axis.value(draw.random())
        return chosen if dimension.default is None else dimension.default

    return space.walk(choose)


def point_near(space: Space, center: Values, width: float, draw: random.Random) -> Values:
    """Return a point at a distance of about ``width``, a share of each parameter's scale."""
    chosen = space.chosen(center) or {}

    def choose(dimension: Dimension) -> Value:
        axis = dimension.axis
        if dimension.index not in chosen:
            return axis.value(draw.random())
        value = chosen[dimension.index]
        if draw.random() > _changed_share(width, len(chosen)):
            return value
        moved = axis.position(value) + draw.gauss(0, width)
        is_word = isinstance(value, str)
        return axis.value(draw.random() if is_word else min(max(moved, 0.0), 1.0))

    return space.walk(choose)


def _changed_share(width: float, count: int) -> float:
    """Return the share of parameters that change: few for near points, to keep good values."""
    return max(width, 1 / count)


def some_values(dimension: Dimension, draw: random.Random) -> Iterator[Value]:
    """Yield all values of a finite axis, beginning at a random one, or some values of a range."""
    axis = dimension.axis
    if axis.count is not None:
        return axis.values_from(axis.value(draw.random()))
    positions = chain((draw.random() for _ in range(_PLACES)), (0.0, 0.5, 1.0))
    return (axis.value(position) for position in positions)
