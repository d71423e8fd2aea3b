"""The transition table: every pair of state and event is a step, a late event, or a bug.

Policies choose the event; the table gives the next state.  The diagram in
docs/reference/lifecycle.md is drawn from it.  Theory of operation: a job waits (QUEUED), gets a
place and is started (PREPARING), runs (RUNNING), and ends.  If the engine places jobs itself, the
job is launched into the engine's queue (ENQUEUED) and waits in it.  A restart leads back to QUEUED;
entering QUEUED emits STOP, so every restart cleans up.  A job that a person has ended in its
cluster is QUEUED too, and held: the scheduler leaves it out until a user resumes it.  So is the job
of a trial that its study has paused, until the study resumes it.  If a restart
is ordered while the attempt lives, the job is RESTARTING until no process of the attempt is left.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trainshed.lifecycle.events import (
    EVENTS,
    Admitted,
    AllReady,
    CancelRequested,
    Command,
    Drained,
    Event,
    GaveUp,
    HandedOver,
    HandOverRefused,
    Held,
    Placed,
    PrimarySucceeded,
    RestartGranted,
    RestartOrdered,
)
from trainshed.model.status import FINAL
from trainshed.model.status import JobState as S  # a table of S.RUNNING reads well

TRANSITIONS: Final[Mapping[tuple[S, type[Event]], S]] = {
    (S.QUEUED, Placed): S.PREPARING,
    (S.QUEUED, HandedOver): S.ENQUEUED,
    (S.QUEUED, Held): S.QUEUED,  # the study of the trial pauses it while its job waits
    (S.QUEUED, CancelRequested): S.CANCELLED,
    (S.ENQUEUED, Admitted): S.PREPARING,
    (S.ENQUEUED, HandOverRefused): S.QUEUED,
    (S.ENQUEUED, AllReady): S.RUNNING,  # its start was not observed
    (S.ENQUEUED, PrimarySucceeded): S.SUCCEEDED,
    (S.ENQUEUED, RestartGranted): S.QUEUED,
    (S.ENQUEUED, Held): S.QUEUED,
    (S.ENQUEUED, RestartOrdered): S.RESTARTING,
    (S.ENQUEUED, GaveUp): S.FAILED,
    (S.ENQUEUED, CancelRequested): S.CANCELLING,
    (S.PREPARING, AllReady): S.RUNNING,
    (S.PREPARING, PrimarySucceeded): S.SUCCEEDED,  # the attempt ended before it was observed ready
    (S.PREPARING, RestartGranted): S.QUEUED,
    (S.PREPARING, Held): S.QUEUED,
    (S.PREPARING, RestartOrdered): S.RESTARTING,
    (S.PREPARING, GaveUp): S.FAILED,
    (S.PREPARING, CancelRequested): S.CANCELLING,
    (S.RUNNING, PrimarySucceeded): S.SUCCEEDED,
    (S.RUNNING, RestartGranted): S.QUEUED,
    (S.RUNNING, Held): S.QUEUED,
    (S.RUNNING, RestartOrdered): S.RESTARTING,
    (S.RUNNING, GaveUp): S.FAILED,
    (S.RUNNING, CancelRequested): S.CANCELLING,
    (S.RESTARTING, Drained): S.QUEUED,
    (S.RESTARTING, PrimarySucceeded): S.SUCCEEDED,  # the attempt ended before the order
    (S.RESTARTING, GaveUp): S.FAILED,
    (S.RESTARTING, CancelRequested): S.CANCELLING,
    (S.CANCELLING, Drained): S.CANCELLED,
}

#: Events that arrive late and change nothing, listed so that ignoring them is explicit.
_LATE: Final[Mapping[S, tuple[type[Event], ...]]] = {
    **dict.fromkeys(FINAL, EVENTS),
    S.CANCELLING: (
        HandOverRefused,
        Admitted,
        AllReady,
        PrimarySucceeded,
        RestartGranted,
        Held,
        RestartOrdered,
        GaveUp,
        CancelRequested,
    ),
    S.RESTARTING: (HandOverRefused, Admitted, AllReady, RestartGranted, Held, RestartOrdered),
    S.QUEUED: (
        HandOverRefused,
        Admitted,
        AllReady,
        PrimarySucceeded,
        RestartOrdered,
        GaveUp,
        Drained,
    ),
    S.PREPARING: (Admitted,),
    S.RUNNING: (Admitted, AllReady),
}
LATE: Final = frozenset((state, event) for state, events in _LATE.items() for event in events)

ON_ENTER: Final[Mapping[S, tuple[Command, ...]]] = {
    S.QUEUED: (Command.STOP,),
    S.ENQUEUED: (Command.LAUNCH,),
    S.PREPARING: (Command.LAUNCH,),
    S.RUNNING: (),
    S.RESTARTING: (Command.STOP,),
    S.CANCELLING: (Command.STOP,),
    S.SUCCEEDED: (Command.STOP,),
    S.FAILED: (Command.STOP,),
    S.CANCELLED: (Command.STOP,),
}


class IllegalTransition(AssertionError):
    """An event that the state does not allow: a bug, not a caller's mistake."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The state after an event, and the commands that follow from it."""

    state: S
    commands: tuple[Command, ...] = ()


def decide(state: S, event: Event) -> Decision:
    """Decide the effect of an event in a state.  Raises IllegalTransition for an illegal pair."""
    step = (state, type(event))
    if step in LATE:
        return Decision(state)
    if step not in TRANSITIONS:
        raise IllegalTransition(f"{state.name} does not allow {type(event).__name__}")
    entered = TRANSITIONS[step]
    return Decision(entered, ON_ENTER[entered])


def commands_of(before: S, decision: Decision) -> tuple[Command, ...]:
    """Return the commands of a decision without those that were done in the state ``before``.

    An attempt in an engine's queue has already been launched.  A waiting job has no living attempt,
    but if the job ends while it waits, the engine of its last attempt still gets STOP: the engine
    may have kept places for the next attempt.
    """
    done = _DONE.get(before)
    return tuple(command for command in decision.commands if command is not done)


#: The commands that are already done if a job is in this state.
_DONE: Final[Mapping[S, Command]] = {
    S.ENQUEUED: Command.LAUNCH,
}
