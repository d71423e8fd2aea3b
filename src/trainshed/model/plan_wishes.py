"""What a job says by its labels of plans: that it wants none, or is there to be measured."""

from collections.abc import Mapping
from typing import Final

PLAN_LABEL: Final = "trainshed-plan"
#: A job with this value of it hears nothing of plans.
OFF: Final = "off"
#: And one with this neither, and hooks see its steps.
MEASURE: Final = "measure"


def wants_no_plan(labels: Mapping[str, str]) -> bool:
    """Whether a job wants no note."""
    return labels.get(PLAN_LABEL) in {OFF, MEASURE}


def is_measured(labels: Mapping[str, str]) -> bool:
    """Whether a job is there to be measured."""
    return labels.get(PLAN_LABEL) == MEASURE
