"""A job's wishes for its engine, and the properties of an engine by which one is chosen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trainshed.model.explanation import Explanation

#: Labels of jobs that begin so are wishes: their engine gets them.
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
    """What keeps it from working now."""


def wishes(labels: Mapping[str, str], of_engine: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a job's wishes; missing ones have the defaults of its engine."""
    all_labels = {**(of_engine or {}), **labels}
    return {key: text for key, text in all_labels.items() if key.startswith(WISH)}
