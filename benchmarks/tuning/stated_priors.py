"""States where the optimum of a problem on the unit cube is, rightly or wrongly, for plans.

The statement is in the words of the label: a number of two digits for each parameter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.optimize import differential_evolution

from benchmarks.tuning.spaces import Chosen
from trainshed.model.study import ParameterPrior, PriorWidth, StudySpec

#: The deviation of a right statement from the optimum.
_ERROR: Final = 0.05
#: The distance of a wrong statement, in every coordinate.
_AWAY: Final = 0.5
_DIGITS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedPrior:
    """How a plan states the optimum."""

    away: float = 0.0
    width: PriorWidth = PriorWidth.USUAL


#: By the name of a plan.
STATED_PRIORS: Final[Mapping[str, StatedPrior]] = {
    "prior": StatedPrior(),
    "wide": StatedPrior(width=PriorWidth.WIDE),
    "wrong": StatedPrior(away=_AWAY),
    "wrong wide": StatedPrior(away=_AWAY, width=PriorWidth.WIDE),
}


def state_prior(
    study: StudySpec, prior: StatedPrior, loss: Callable[[Chosen], float], seed: int
) -> StudySpec:
    """Return the study with the statement about the optimum of ``loss``."""
    names = [parameter.parameter_id for parameter in study.parameters]

    def value(point: np.ndarray) -> float:
        return loss(dict(zip(names, point, strict=True)))

    optimum = differential_evolution(value, [(0.0, 1.0)] * len(names), seed=seed, tol=1e-6).x
    errors = np.random.default_rng([seed, 78]).normal(0.0, _ERROR, len(names))
    stated = np.clip((optimum + prior.away) % 1.0 + errors, 0.0, 1.0)
    return replace(
        study,
        priors=tuple(
            ParameterPrior(
                parameter_id=name, value=f"{round(number * _DIGITS)}e-2", width=prior.width
            )
            for name, number in zip(names, stated, strict=True)
        ),
    )
