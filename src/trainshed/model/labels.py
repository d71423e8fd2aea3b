"""The labels by which a job states its wishes for its engine and for plans.

``OfferedEngine`` has the properties of an engine by which one is chosen.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trainshed.model.explanation import Explanation

#: Job labels with this prefix are wishes: the server passes them to the job's engine.
WISH: Final = "trainshed-"
#: The label by which a job names its engine.
ENGINE_LABEL: Final = f"{WISH}engine"


@dataclass(frozen=True)
class OfferedEngine:
    """The properties of an engine that its choice uses."""

    name: str
    regions: tuple[str, ...] = ()
    """The regions that it serves; all if empty."""
    away: Explanation | None = None
    """Why the engine does not work now; None while the engine works."""


def wishes(
    labels: Mapping[str, str], engine_labels: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return a job's wishes; the engine's labels are the defaults."""
    all_labels = {**(engine_labels or {}), **labels}
    return {key: text for key, text in all_labels.items() if key.startswith(WISH)}


#: The label by which a job chooses whether its log has notes on plans.
PLAN_LABEL: Final = "trainshed-plan"
#: With this value of ``PLAN_LABEL``, a job's log has no notes on plans.
OFF: Final = "off"
#: With this value, hooks measure the job's steps.
MEASURE: Final = "measure"


#: The label by which a new study names another study of the project whose results it uses.
WARM_START_LABEL: Final = f"{WISH}warm-start"


def wants_no_plan(labels: Mapping[str, str]) -> bool:
    """Whether a label of the job suppresses notes on plans."""
    return labels.get(PLAN_LABEL) == OFF


def is_measured(labels: Mapping[str, str]) -> bool:
    """Whether a job is a measurement."""
    return labels.get(PLAN_LABEL) == MEASURE
