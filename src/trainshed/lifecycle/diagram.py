"""Draws the transition table as a Mermaid state diagram, so that the docs cannot be stale."""

from trainshed.lifecycle.decide import TRANSITIONS
from trainshed.model.status import FINAL, JobState


def diagram() -> str:
    """The table as the text of a Mermaid ``stateDiagram-v2``."""
    lines = ["stateDiagram-v2", f"    [*] --> {JobState.QUEUED.name}"]
    lines += [
        f"    {before.name} --> {after.name}: {event.__name__}"
        for (before, event), after in TRANSITIONS.items()
    ]
    lines += [f"    {state.name} --> [*]" for state in JobState if state in FINAL]
    return "\n".join(lines) + "\n"
