"""What a job says of the plan that is made of it when it is submitted."""

from collections.abc import Mapping
from typing import Final

#: A job with this label hears nothing of plans.
PLAN_LABEL: Final = "trainshed-plan"
OFF: Final = "off"


def wants_no_plan(labels: Mapping[str, str]) -> bool:
    """Whether a job wants no note."""
    return labels.get(PLAN_LABEL) == OFF
