"""DEFAULT: each point is chosen from the results of earlier trials.

The first trial has the study's defaults, the expected values, or the middle.  Then Gaussian
processes choose the next points, one process for each metric.  Optuna's TPE searches the spaces
that they cannot search, and studies of several metrics that began under rule 1, after a start that
fills the space evenly.
"""

import random
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final

from trainshed.model.study import Safety, StudySpec
from trainshed.model.trials import Value, Values
from trainshed.tuning.history import History, TriedPoint
from trainshed.tuning.random_search import point_near, random_of, random_point
from trainshed.tuning.ranking import objectives
from trainshed.tuning.search_plan import SearchPlan, search_plan
from trainshed.tuning.space import Dimension, Space

if TYPE_CHECKING:
    from trainshed.tuning.metrics_search import MetricsSurrogate
    from trainshed.tuning.tpe import ParzenTrees

#: From this rule on, a Gaussian process searches studies of several metrics.
METRICS_RULE: Final = 2

#: TPE needs this many finished trials, and this many with a result.
START_MAX: Final = 10
START_RESULTS: Final = 2

#: The distance from the best safe trial to which the search is limited while too few trials are
#: safe.
SAFE_WIDTH: Final = 0.1

#: Distances from the proposed point at which others are tried, as shares of the scale, and tries.
_WIDTHS: Final = tuple(2.0**-power for power in range(10, -1, -1))
_TRIES: Final = 4


class Bayesian:
    """Proposes points for a study.  Slow libraries are loaded on use."""

    def __init__(
        self, study: StudySpec, space: Space, seed: int, plan: SearchPlan | None = None
    ) -> None:
        """``study`` has the metrics and limits; each call of ``propose`` gets the trials.

        Without ``plan`` the study's rule decides how one objective is searched.
        """
        self._study = study
        self._space = space
        self._seed = seed
        self._plan = search_plan(study) if plan is None else plan
        self._limits = [metric.safety for metric in study.metrics if metric.safety]

    def propose(self, history: History) -> Iterator[Values]:
        """Yield the most promising point, and then points at growing distances from it."""
        draw = random_of(self._seed, history.number, "around")
        yield from around(self._space, self._best(history), draw)

    def _best(self, history: History) -> Values:
        if history.is_first and (self._is_stated or not history.finished):
            return self._space.walk(_first_value)
        if not objectives(self._study):
            return random_point(self._space, random_of(self._seed, history.number, "no objective"))
        safe_trial = _best_safe_trial(self._limits, history, self._counted(history))
        if self._has_process:
            return self._by_process(history, safe_trial)
        return self._by_trees(history) if safe_trial is None else self._near(safe_trial, history)

    @property
    def _is_stated(self) -> bool:
        """Whether the study says anything about its first trial."""
        return self._space.has_defaults or self._space.has_expected

    def _counted(self, history: History) -> int:
        """Return of how many trials a share must be safe; under rule 2 the next one is counted."""
        if self._study.search_rule < METRICS_RULE:
            return len(history.finished)
        return len(history.finished) + len(history.pending) + 1

    @property
    def _has_process(self) -> bool:
        """Whether Gaussian processes search the study; the others are searched by TPE."""
        is_searched = len(self._study.metrics) == 1 or self._study.search_rule >= METRICS_RULE
        return is_searched and self._surrogate.is_able

    def _by_process(self, history: History, safe_trial: TriedPoint | None) -> Values:
        """Return the next point; ``safe_trial`` is the best one while too few trials are safe."""
        if len(self._study.metrics) == 1:
            return self._surrogate.point(history)
        if safe_trial is not None and len(history.finished) < self._plan.filling_count:
            return self._near(safe_trial, history)
        return self._surrogate.metrics_point(history, is_careful=safe_trial is not None)

    def _by_trees(self, history: History) -> Values:
        if len(history.finished) < START_MAX or len(history.succeeded) < START_RESULTS:
            return self._surrogate.filling(history)
        return self._trees.point(history)

    def _near(self, safe_trial: TriedPoint, history: History) -> Values:
        draw = random_of(self._seed, history.number, "safe")
        return point_near(self._space, safe_trial.values, SAFE_WIDTH, draw)

    @cached_property
    def _surrogate(self) -> "MetricsSurrogate":
        from trainshed.tuning.metrics_search import MetricsSurrogate  # noqa: PLC0415  # brings SciPy

        return MetricsSurrogate(self._space, self._seed, self._study.noise, self._plan)

    @cached_property
    def _trees(self) -> "ParzenTrees":
        from trainshed.tuning.tpe import ParzenTrees  # noqa: PLC0415  # brings Optuna

        return ParzenTrees(self._space, self._seed)


def _first_value(dimension: Dimension) -> Value:
    """Return the default, else the value near which the best one is expected, else the middle."""
    if dimension.default is not None:
        return dimension.default
    return dimension.expected.value if dimension.expected else dimension.axis.value(0.5)


def _best_safe_trial(limits: list[Safety], history: History, counted: int) -> TriedPoint | None:
    """Return the best safe trial; None if there is none, or if enough of ``counted`` are safe."""
    safe = [point for point in history.succeeded if point.is_safe]
    fraction_min = max((limit.fraction_min for limit in limits), default=0.0)
    if not safe or len(safe) >= fraction_min * counted:
        return None
    return min(safe, key=lambda point: point.losses or ())


def around(space: Space, center: Values, draw: random.Random) -> Iterator[Values]:
    """Yield the proposed point, and others at growing distances."""
    yield center
    for width in _WIDTHS:
        for _ in range(_TRIES):
            yield point_near(space, center, width, draw)
