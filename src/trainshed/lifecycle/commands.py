"""From decisions to the commands that an engine gets."""

from collections.abc import Mapping
from typing import Final

from trainshed.lifecycle.decide import Decision
from trainshed.lifecycle.events import Command
from trainshed.model.status import JobState


def commands_of(before: JobState, decision: Decision) -> tuple[Command, ...]:
    """The commands of a decision that was taken in the state ``before``.

    What lies in an engine's queue was launched into it.  A job that waits has no attempt that
    lives; when it ends there, the engine of its last one hears of it all the same, as it may have
    kept places for the next.
    """
    done = _DONE.get(before)
    return tuple(command for command in decision.commands if command is not done)


#: What is done already where a job is in this state.
_DONE: Final[Mapping[JobState, Command]] = {
    JobState.ENQUEUED: Command.LAUNCH,
}
