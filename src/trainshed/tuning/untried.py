"""No point is tried twice: what is taken where a sampler asks for one again (R19)."""

import random
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Final

from trainshed.model.trials import Values
from trainshed.tuning.random_search import near, some
from trainshed.tuning.space import Space, points

#: How far from the wanted point it is looked for another, as shares of the scale, and how often.
_WIDTHS: Final = tuple(2.0**-power for power in range(10, -1, -1))
_TRIES: Final = 4


def first_untried(
    space: Space, wanted: Iterable[Values], tried: Collection[Values], draw: random.Random
) -> Values | None:
    """The first wanted point that is new, or else any; None: there is none left.

    The last resort goes through the space one by one, and so passes each tried point but once.
    """
    if space.size is not None and len(tried) >= space.size:
        return None
    one_by_one = points(space, lambda dimension: some(dimension, draw))
    return next((point for point in chain(wanted, one_by_one) if point not in tried), None)


def around(space: Space, wanted: Values, draw: random.Random) -> Iterator[Values]:
    """The wanted point, and others farther and farther from it."""
    yield wanted
    for width in _WIDTHS:
        for _ in range(_TRIES):
            yield near(space, wanted, width, draw)
