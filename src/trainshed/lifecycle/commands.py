"""From decisions to the commands that an engine gets."""

from collections.abc import Mapping
from typing import Final

from trainshed.lifecycle.decide import Decision
from trainshed.lifecycle.events import Command
from trainshed.model.status import JobState


def commands_of(before: JobState, decision: Decision) -> tuple[Command, ...]:
    """The commands of a decision that was taken in the state ``before``.

    An attempt in an engine's queue was launched into it.  A waiting job has no living attempt.  If
    it ends while it waits, the engine of its last attempt still gets a command, because the engine
    may have kept places for the next attempt.
    """
    done = _DONE.get(before)
    return tuple(command for command in decision.commands if command is not done)


#: The commands that are already done if a job is in this state.
_DONE: Final[Mapping[JobState, Command]] = {
    JobState.ENQUEUED: Command.LAUNCH,
}
