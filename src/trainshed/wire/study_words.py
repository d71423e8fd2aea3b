"""What both dialects say alike in a study: algorithms, goals, scales, bounds (R19)."""

from collections.abc import Mapping
from typing import Any, Final

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


def bounds_of(value: Mapping[str, Any]) -> tuple[float, float] | None:
    """The bounds of a range; None when neither is given.

    One that is not given beside the other is 0: the SDK leaves zeros out (vertex-sdk.md 3).
    """
    if "minValue" not in value and "maxValue" not in value:
        return None
    return float(value.get("minValue", 0)), float(value.get("maxValue", 0))
