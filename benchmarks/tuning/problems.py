"""Lists the problems of the tuning benchmark by class, and makes one from its name and a seed.

The seed moves the optimum of a function, or selects the data of a training; Branin and Hartmann
always are the same.  The first ten classes are the benchmark; no rule of the search was chosen with
those of ``KEPT_BACK``.  Searches of peers are recorded for both, so a problem that is changed needs
another name.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

import numpy as np

from benchmarks.tuning import (
    flat_problems,
    kept_back,
    structured_problems,
    trainings,
    vector_problems,
)
from benchmarks.tuning.functions import DRAWN, FUNCTIONS, objective
from benchmarks.tuning.spaces import Chosen, Problem, double, study_of

MORE: Final = "more functions"
DRAWN_CLASS: Final = "drawn functions"
LARGE: Final = "large metrics"
KEPT_BACK: Final = "kept back"
#: The classes that run only if they are named.
ON_REQUEST: Final = (MORE, "more limits", "more objectives", LARGE, DRAWN_CLASS, KEPT_BACK)

CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "few dimensions": ("branin", "hartmann-6", "levy-4", "rosenbrock-4"),
    "many optima": ("ackley-10", "rastrigin-4", "gallagher-4"),
    "20 dimensions": ("rosenbrock-20", "different-powers-20", "schwefel-20"),
    "noisy": ("hartmann-6-noisy", "ackley-4-noisy"),
    "plateaus": ("step-ellipsoid-4", "hartmann-6-stairs"),
    "mixed": ("mixed", "ackley-mixed"),
    "conditional": ("conditional",),
    "trainings": ("digits-network", "digits-kernels", "diabetes-trees"),
    "limits": ("branin-disk", "ackley-limit", "diabetes-trees-limit"),
    "two objectives": ("branin-currin", "zdt1", "digits-network-size"),
    MORE: (
        *("sphere-4", "ellipsoid-4", "different-powers-4", "schwefel-4", "weierstrass-4"),
        *("griewank-rosenbrock-4", "sphere-20", "ellipsoid-20", "rastrigin-20", "gallagher-20"),
        *("step-ellipsoid-20", "griewank-rosenbrock-20", "weierstrass-20"),
    ),
    "more limits": (
        *("ackley-limits", "gardner", "tiny-region", "gramacy", "thin-region", "vessel"),
        *("network-limits", "models-limit"),
    ),
    "more objectives": (
        *("zdt3", "dtlz2-2", "dtlz2-3", "vehicle", "bnh", "c2-dtlz2"),
        *("network-front", "models-front"),
    ),
    LARGE: ("dtlz2-4", "quadratics-4", "quadratics-20", "zdt1-20", "quadratic-limit-20"),
    DRAWN_CLASS: tuple(f"{name}-{dimensions}" for name in DRAWN for dimensions in (4, 20)),
    KEPT_BACK: tuple(kept_back.PROBLEMS),
}
OTHERS: Final = {
    **flat_problems.PROBLEMS,
    **kept_back.PROBLEMS,
    **structured_problems.PROBLEMS,
    **trainings.PROBLEMS,
    **vector_problems.PROBLEMS,
}
CLASS_OF: Final = {name: word for word, names in CLASSES.items() for name in names}


@cache
def problem(name: str, seed: int) -> Problem:
    """Create a problem.  Raises KeyError for an unknown name."""
    if name in OTHERS:
        return OTHERS[name](seed)
    word, _, dimensions = name.rpartition("-")
    return _function(word, int(dimensions), seed) if word in FUNCTIONS else OTHERS[name](seed)


def _function(name: str, dimensions: int, seed: int) -> Problem:
    names = [f"x{i:02}" for i in range(dimensions)]
    function = objective(name, dimensions, seed)

    def measure(chosen: Chosen) -> tuple[float, ...]:
        return (function(np.array([float(chosen[parameter]) for parameter in names])),)

    study = study_of(*(double(parameter, -5, 5) for parameter in names))
    return Problem(study=study, measure=measure)
