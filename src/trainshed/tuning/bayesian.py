"""DEFAULT: each point is chosen from what the trials before it have found (R19).

The first trial is where the study says, or in the middle.  With one objective the Gaussian process
goes on from there.  Optuna's TPE takes studies with several objectives or with limits, which it
models as they are, after a start that fills the space evenly.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final

from trainshed.model.study import Safety, StudySpec
from trainshed.model.trials import Value, Values
from trainshed.tuning.known import Known, Tried
from trainshed.tuning.random_search import chance, drawn, near
from trainshed.tuning.ranking import objectives
from trainshed.tuning.space import Dimension, Space
from trainshed.tuning.untried import around

if TYPE_CHECKING:
    from trainshed.tuning.surrogate import Surrogate
    from trainshed.tuning.tpe import ParzenTrees

#: TPE tells good from bad only once so many trials are over, and so many of them have a result.
START_MAX: Final = 10
START_RESULTS: Final = 2

#: How far from the best safe trial it is looked while too few trials are safe.
SAFE_WIDTH: Final = 0.1


class Bayesian:
    """The points that are wanted for a study.  What is slow to load is loaded when it is used."""

    def __init__(self, study: StudySpec, space: Space, seed: int) -> None:
        """Look at the study only; trials come with each question."""
        self._study = study
        self._space = space
        self._seed = seed
        self._limits = [metric.safety for metric in study.metrics if metric.safety]

    def wanted(self, known: Known) -> Iterator[Values]:
        """The best point first, and then what lies around it."""
        draw = chance(self._seed, known.number, "around")
        yield from around(self._space, self._best(known), draw)

    def _best(self, known: Known) -> Values:
        if known.is_first and (self._space.has_defaults or not known.finished):
            return self._space.walk(_middle)
        if not objectives(self._study):
            return drawn(self._space, chance(self._seed, known.number, "no objective"))
        harbour = _harbour(self._limits, known)
        if harbour is not None:
            draw = chance(self._seed, known.number, "safe")
            return near(self._space, harbour.values, SAFE_WIDTH, draw)
        if self._is_simple and self._surrogate.is_able:
            return self._surrogate.point(known)
        if len(known.finished) < START_MAX or len(known.succeeded) < START_RESULTS:
            return self._surrogate.filling(known)
        return self._trees.point(known)

    @property
    def _is_simple(self) -> bool:
        """One objective and no limits."""
        return len(self._study.metrics) == 1

    @cached_property
    def _surrogate(self) -> "Surrogate":
        from trainshed.tuning.surrogate import Surrogate  # noqa: PLC0415  # brings SciPy

        return Surrogate(self._space, self._seed, self._study.noise)

    @cached_property
    def _trees(self) -> "ParzenTrees":
        from trainshed.tuning.tpe import ParzenTrees  # noqa: PLC0415  # brings Optuna

        return ParzenTrees(self._space, self._seed)


def _middle(dimension: Dimension) -> Value:
    return dimension.axis.value(0.5) if dimension.default is None else dimension.default


def _harbour(limits: list[Safety], known: Known) -> Tried | None:
    """The best safe trial, while the share of safe ones is below what is aimed at."""
    safe = [tried for tried in known.succeeded if tried.is_safe]
    aim = max((limit.fraction_min for limit in limits), default=0.0)
    if not safe or len(safe) >= aim * len(known.finished):
        return None
    return min(safe, key=lambda tried: tried.losses or ())
