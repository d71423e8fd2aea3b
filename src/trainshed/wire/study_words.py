"""The words of a study that both dialects share: algorithms, goals, scales (R19)."""

from collections.abc import Mapping
from typing import Final

from trainshed.model.study import Algorithm, Goal, Scale

ALGORITHM: Final[Mapping[str, Algorithm]] = {
    "ALGORITHM_UNSPECIFIED": Algorithm.DEFAULT,
    "GRID_SEARCH": Algorithm.GRID_SEARCH,
    "RANDOM_SEARCH": Algorithm.RANDOM_SEARCH,
}
GOAL: Final[Mapping[str, Goal]] = {
    "GOAL_TYPE_UNSPECIFIED": Goal.MAXIMIZE,
    "MAXIMIZE": Goal.MAXIMIZE,
    "MINIMIZE": Goal.MINIMIZE,
}
#: "No scale" is ``NONE`` in ml v1 and ``SCALE_TYPE_UNSPECIFIED`` in aiplatform v1.
SCALE: Final[Mapping[str, Scale]] = {
    "NONE": Scale.NONE,
    "SCALE_TYPE_UNSPECIFIED": Scale.NONE,
    "UNIT_LINEAR_SCALE": Scale.LINEAR,
    "UNIT_LOG_SCALE": Scale.LOG,
    "UNIT_REVERSE_LOG_SCALE": Scale.REVERSE_LOG,
}
