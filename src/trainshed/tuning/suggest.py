"""Suggests a study's next points by its algorithm.

A pure function of the study, its trials and its seed: a restarted server suggests the same points.
Each point of a batch is chosen as if those before it were running, so that a batch equals single
calls one after the other.
"""

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from trainshed.model.study import Algorithm, StudySpec
from trainshed.model.trials import TrialRecord, Values
from trainshed.tuning.bayesian import Bayesian
from trainshed.tuning.first_points import next_point
from trainshed.tuning.history import History, history_of, pending_at
from trainshed.tuning.random_search import first_point, random_of, random_points, some_values
from trainshed.tuning.space import Space, points, space_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """The points to try next, each in the order of the study's parameters."""

    values: tuple[Values, ...]
    exhausted: bool
    """Whether these are the last untried points of a finite space."""


#: A function that proposes the next points from the history, the best first.
Propose = Callable[[History], Iterator[Values]]


def suggest(  # noqa: PLR0913 - all that a suggestion depends on
    study: StudySpec,
    trials: Sequence[TrialRecord],
    count: int,
    seed: int,
    *,
    prior: Sequence[TrialRecord] = (),
    first_points: Sequence[Values] = (),
) -> Suggestions:
    """Return ``count`` new points; fewer only if the space is exhausted.

    Trials that are not final are pending.  ``prior`` are trials of an earlier study; their results
    are used, and their points are not tried again.  ``first_points`` come before the points of the
    algorithm.  The order of trials does not matter.  Raises ValueError for a grid over a range of
    DOUBLE.
    """
    space = space_of(study)
    history = history_of(study, space, trials, prior)
    propose = _ALGORITHMS[study.algorithm](study, space, seed)
    tried = set(history.points)
    values: list[Values] = []
    while len(values) < count:
        draw = random_of(seed, history.number, "untried")
        proposed = chain(next_point(first_points, space, tried), _lazily(propose, history))
        point = first_untried(space, proposed, tried, draw)
        if point is None:
            return Suggestions(values=tuple(values), exhausted=True)
        values.append(point)
        tried.add(point)
        history = _with(history, space, point)
    exhausted = space.size is not None and len(tried) >= space.size
    return Suggestions(values=tuple(values), exhausted=exhausted)


def _lazily(propose: Propose, history: History) -> Iterator[Values]:
    """Return the points of an algorithm; nothing is computed before the caller takes the first.

    Not a generator: one that ends early would close the grid, which later calls still use.
    """
    return chain.from_iterable(map(propose, (history,)))


def _with(history: History, space: Space, point: Values) -> History:
    pending = (*history.pending, pending_at(space, point))
    return replace(history, pending=pending, number=history.number + 1, is_first=False)


def _grid(_study: StudySpec, space: Space, _seed: int) -> Propose:
    grid_points = grid(space)
    return lambda _history: grid_points


def _random(_study: StudySpec, space: Space, seed: int) -> Propose:
    def propose(history: History) -> Iterator[Values]:
        draw = random_of(seed, history.number, "random")
        if history.is_first:
            yield first_point(space, draw)
        yield from random_points(space, draw)

    return propose


def first_untried(
    space: Space, proposed: Iterable[Values], tried: Collection[Values], draw: random.Random
) -> Values | None:
    """Return the first proposed point that is new, else any new point; None if there is none.

    As a last resort it enumerates the space, and so visits each tried point only once.
    """
    if space.size is not None and len(tried) >= space.size:
        return None
    one_by_one = points(space, lambda dimension: some_values(dimension, draw))
    return next((point for point in chain(proposed, one_by_one) if point not in tried), None)


def grid(space: Space) -> Iterator[Values]:
    """Yield all points, the last parameter fastest.  Raises ValueError for a DOUBLE range."""
    return points(space, lambda dimension: dimension.axis.values_from(dimension.default))


_ALGORITHMS: Final[Mapping[Algorithm, Callable[[StudySpec, Space, int], Propose]]] = {
    Algorithm.DEFAULT: lambda study, space, seed: Bayesian(study, space, seed).propose,
    Algorithm.GRID_SEARCH: _grid,
    Algorithm.RANDOM_SEARCH: _random,
}
