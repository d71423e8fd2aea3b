"""From decisions to the commands that an engine gets."""

from trainshed.lifecycle.decide import Decision
from trainshed.lifecycle.events import Command
from trainshed.model.status import JobState


def commands_of(before: JobState, decision: Decision) -> tuple[Command, ...]:
    """The commands of a decision that was taken in the state ``before``.

    A job that waits has no attempt to stop: it never had one, or its last one was proven gone and
    got its STOP when the job came back.
    """
    if before is JobState.QUEUED:
        return tuple(each for each in decision.commands if each is not Command.STOP)
    return decision.commands
