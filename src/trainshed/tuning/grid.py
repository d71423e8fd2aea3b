"""GRID_SEARCH: every point of a finite space once, from the defaults on (R19)."""

from collections.abc import Iterator

from trainshed.model.trials import Value, Values
from trainshed.tuning.space import Dimension, Space, points


def grid(space: Space) -> Iterator[Values]:
    """All points, the last parameter fastest.  Raises ValueError for a range of DOUBLE."""
    return points(space, _from_default)


def _from_default(dimension: Dimension) -> Iterator[Value]:
    return dimension.axis.after(dimension.default)
