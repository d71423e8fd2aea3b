"""What a study tries next (R19, DESIGN 5.15).

A pure function of the study, its trials and its seed: a server that was killed suggests the same
again.  Each point of a batch is chosen as if those before it were running, so that a batch is what
one call after the other would have been.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trainshed.model.study import Algorithm, StudySpec
from trainshed.model.trials import TrialRecord, Values
from trainshed.tuning.bayesian import Bayesian
from trainshed.tuning.grid import grid
from trainshed.tuning.known import Known, known_of, pending_at
from trainshed.tuning.random_search import beginning, chance, draws
from trainshed.tuning.space import Space, space_of
from trainshed.tuning.untried import first_untried


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """The points to try next, each in the order of the study's parameters."""

    values: tuple[Values, ...]
    exhausted: bool
    """Behind these no point is left that was not tried: the space is finite."""


#: From what is known to the points that are wanted next, the best first.
Wanted = Callable[[Known], Iterator[Values]]


def suggest(
    study: StudySpec,
    trials: Sequence[TrialRecord],
    count: int,
    seed: int,
    *,
    prior: Sequence[TrialRecord] = (),
) -> Suggestions:
    """``count`` new points; fewer only when the space is exhausted.

    Trials that are not final are pending.  ``prior`` are trials of an earlier study; what they
    found is known, and not tried again.  The order of trials does not matter.  Raises ValueError
    for a grid over a range of DOUBLE.
    """
    space = space_of(study)
    known = known_of(study, space, trials, prior)
    wanted = _ALGORITHMS[study.algorithm](study, space, seed)
    tried = set(known.points)
    values: list[Values] = []
    while len(values) < count:
        draw = chance(seed, known.number, "untried")
        point = first_untried(space, wanted(known), tried, draw)
        if point is None:
            return Suggestions(values=tuple(values), exhausted=True)
        values.append(point)
        tried.add(point)
        known = _with(known, space, point)
    exhausted = space.size is not None and len(tried) >= space.size
    return Suggestions(values=tuple(values), exhausted=exhausted)


def _with(known: Known, space: Space, point: Values) -> Known:
    """What is known once a trial of the point runs."""
    pending = (*known.pending, pending_at(space, point))
    return replace(known, pending=pending, number=known.number + 1, is_first=False)


def _grid(_study: StudySpec, space: Space, _seed: int) -> Wanted:
    every = grid(space)
    return lambda _known: every


def _random(_study: StudySpec, space: Space, seed: int) -> Wanted:
    def wanted(known: Known) -> Iterator[Values]:
        draw = chance(seed, known.number, "random")
        if known.is_first:
            yield beginning(space, draw)
        yield from draws(space, draw)

    return wanted


def _default(study: StudySpec, space: Space, seed: int) -> Wanted:
    return Bayesian(study, space, seed).wanted


_ALGORITHMS: Final[Mapping[Algorithm, Callable[[StudySpec, Space, int], Wanted]]] = {
    Algorithm.DEFAULT: _default,
    Algorithm.GRID_SEARCH: _grid,
    Algorithm.RANDOM_SEARCH: _random,
}
