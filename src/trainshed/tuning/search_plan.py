"""The plan of a search for one objective: how it begins, and how its model is fitted.

The plan follows from the study alone, so that a restarted server has the same one.  Rule 1 is the
plan of studies that began before rule 2 existed (decision 0115).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from trainshed.model.study import StudySpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """The numbers of one search."""

    filling_count: int
    """The number of trials, also running ones, that fill the space before the model is used."""
    results_min: int
    """The number of results that the model needs; below it trials fill the space."""
    width_wait: int
    """The number of results before the region around the best point narrows or widens."""
    fit_starts: tuple[float, ...]
    """The starts of a fit, as offsets of the logarithms of lengths from their prior mean."""
    scores_again: bool = False
    """Whether candidates that have a score get it again beside new candidates (``Search``)."""


#: The plan of rule 1.
FIRST_PLAN: Final = SearchPlan(
    filling_count=10, results_min=5, width_wait=10, fit_starts=(0.0, -1.0), scores_again=True
)

#: A share of the trials that fill the space, and the bounds of their number.
_FILLING_SHARE: Final = 0.1
_FILLING_MIN, _FILLING_MAX = 3, 4


def search_plan(study: StudySpec) -> SearchPlan:
    """Return the plan of a study, by its rule."""
    return _PLANS[study.search_rule](study)


def filling_count(trial_count_max: int, parallel: int) -> int:
    """Return how many trials fill the space.

    A model of three results is already better than another random point.  Trials that begin
    together begin without each other's results, so those fill the space too.
    """
    share = round(_FILLING_SHARE * trial_count_max)
    return max(min(max(share, _FILLING_MIN), _FILLING_MAX), parallel)


def _second_plan(study: StudySpec) -> SearchPlan:
    count = filling_count(study.trial_count_max, study.trial_count_parallel)
    return SearchPlan(filling_count=count, results_min=2, width_wait=10, fit_starts=(-0.5,))


_PLANS: Final[Mapping[int, Callable[[StudySpec], SearchPlan]]] = {
    1: lambda _study: FIRST_PLAN,
    2: _second_plan,
}
