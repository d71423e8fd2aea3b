"""A job's labels about plans: it wants no notes on them, or it is a measurement."""

from collections.abc import Mapping
from typing import Final

PLAN_LABEL: Final = "trainshed-plan"
#: With this value of it, a job's log has no notes on plans.
OFF: Final = "off"
#: With this value too, and hooks measure its steps.
MEASURE: Final = "measure"


def wants_no_plan(labels: Mapping[str, str]) -> bool:
    """Whether a job wants no note."""
    return labels.get(PLAN_LABEL) in {OFF, MEASURE}


def is_measured(labels: Mapping[str, str]) -> bool:
    """Whether a job is a measurement."""
    return labels.get(PLAN_LABEL) == MEASURE
