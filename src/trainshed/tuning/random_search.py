"""RANDOM_SEARCH, and drawing by chance where another algorithm needs it.

Chance comes from the study's seed and the trial's number alone, never from a clock.
"""

import random
from collections.abc import Iterator
from itertools import chain
from typing import Final

from trainshed.model.trials import Value, Values
from trainshed.tuning.space import Dimension, Space

#: How often it is drawn again before points are looked for one by one.
DRAWS_MAX: Final = 100

#: Some places of a range of DOUBLE beside its ends, where points are looked for one by one.
_PLACES: Final = 8


def random_of(seed: int, number: int, purpose: str) -> random.Random:
    """Random numbers for one purpose in making one trial, the same in every process."""
    return random.Random(f"{seed}/{number}/{purpose}")  # noqa: S311  # no secret is made of it


def random_point(space: Space, draw: random.Random) -> Values:
    """A point by chance, each parameter by its scale."""
    return space.walk(lambda dimension: dimension.axis.value(draw.random()))


def random_points(space: Space, draw: random.Random) -> Iterator[Values]:
    """Points by chance, one after the other, though not for ever."""
    return (random_point(space, draw) for _ in range(DRAWS_MAX))


def first_point(space: Space, draw: random.Random) -> Values:
    """The defaults where there are any, and chance elsewhere."""

    def choose(dimension: Dimension) -> Value:
        chosen = dimension.axis.value(draw.random())
        return chosen if dimension.default is None else dimension.default

    return space.walk(choose)


def point_near(space: Space, around: Values, width: float, draw: random.Random) -> Values:
    """A point about as far from another as ``width``, a share of each parameter's scale."""
    chosen = space.chosen(around) or {}

    def choose(dimension: Dimension) -> Value:
        axis = dimension.axis
        if dimension.index not in chosen:
            return axis.value(draw.random())
        value = chosen[dimension.index]
        if draw.random() > _moves(width, len(chosen)):
            return value
        moved = axis.position(value) + draw.gauss(0, width)
        is_word = isinstance(value, str)
        return axis.value(draw.random() if is_word else min(max(moved, 0.0), 1.0))

    return space.walk(choose)


def _moves(width: float, count: int) -> float:
    """The share of parameters that change: nearby few at once, as the others' values are good."""
    return max(width, 1 / count)


def some_values(dimension: Dimension, draw: random.Random) -> Iterator[Value]:
    """All values of a finite axis from anywhere on; some of a range."""
    axis = dimension.axis
    if axis.count is not None:
        return axis.after(axis.value(draw.random()))
    places = chain((draw.random() for _ in range(_PLACES)), (0.0, 0.5, 1.0))
    return (axis.value(place) for place in places)
