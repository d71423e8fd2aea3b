"""What jobs may say of the engine that they run on, and what an engine is to the choice of one."""

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
    """An engine, as far as the choice looks at it."""

    name: str
    regions: tuple[str, ...] = ()
    """The regions that it serves; all if empty."""
    away: Explanation | None = None
    """What keeps it from working now."""


def wishes(labels: Mapping[str, str], of_engine: Mapping[str, str] | None = None) -> dict[str, str]:
    """A job's wishes, and where its labels say nothing those that its engine's jobs have."""
    all_labels = {**(of_engine or {}), **labels}
    return {key: text for key, text in all_labels.items() if key.startswith(WISH)}
