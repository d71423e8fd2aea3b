"""What an observation means for a job: pure thought, from values to a step.

The table names every pair of state and phase that means something.  UNKNOWN is in none of them: an
engine that cannot say now is never a reason to do anything (DESIGN 5.6).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from trainshed.controller import replicas, words
from trainshed.engines.base import Observation, Phase
from trainshed.lifecycle import decide
from trainshed.lifecycle.events import AllReady, Drained, Event, GaveUp, PrimarySucceeded
from trainshed.lifecycle.restart import after_loss, lost
from trainshed.model.status import JobError, JobState
from trainshed.store.decisions import CANCELLED, commands_of
from trainshed.store.records import Active, Holding, NewEvent, ReplicaRow, Step

#: google.rpc.Code: the program failed; it could not be started; its machines were lost.
INVALID_ARGUMENT: Final = 3
FAILED_PRECONDITION: Final = 9
INTERNAL: Final = 13
UNAVAILABLE: Final = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """An event for the transition table, and what a job is told with it."""

    event: Event
    story: tuple[NewEvent, ...]
    error: JobError | None = None


def matters(state: JobState, seen: Observation) -> bool:
    """Whether an observation can mean anything in a state."""
    if state is JobState.RUNNING and seen.phase is Phase.READY:  # thousands of times a second
        return False
    return (state, seen.phase) in _JUDGES


def judge(active: Active, seen: Observation, restarts_max: int) -> Verdict:
    """What an observation that matters means for a job."""
    return _JUDGES[active.state, seen.phase](active, seen, restarts_max)


def step_of(
    active: Active, seen: Observation, verdict: Verdict, held: Holding | None, server: str
) -> Step:
    """The one write of a verdict.  Raises IllegalTransition, which is our mistake."""
    decision = decide(active.state, verdict.event)
    return Step(
        uid=active.uid,
        version=active.version,
        state=decision.state,
        error=verdict.error,
        events=verdict.story,
        commands=commands_of(active.state, decision),
        replicas=_rows(seen, decision.state, held),
        server=server,
    )


def _rows(
    seen: Observation, after: JobState, held: Holding | None
) -> tuple[ReplicaRow, ...] | None:
    if held is None:
        return None
    if after is JobState.RUNNING:
        return replicas.running(held)
    return replicas.ended(held, seen.outcome)


def _ready(_active: Active, _seen: Observation, _max: int) -> Verdict:
    return Verdict(event=AllReady(), story=(words.RUNNING,))


def _ended_unseen(active: Active, seen: Observation, restarts_max: int) -> Verdict:
    """What has run before it ended was ready, however short: its story and start time say so."""
    return (_ready if _ran(seen) else _ended)(active, seen, restarts_max)


def _ended(_active: Active, seen: Observation, _max: int) -> Verdict:
    outcome = seen.outcome
    told = words.replicas_ended(outcome) if outcome else ()
    if outcome is not None and outcome.exit_code == 0 and seen.fault is None:
        return Verdict(event=PrimarySucceeded(), story=(*told, words.SUCCEEDED))
    code = INVALID_ARGUMENT if _ran(seen) else FAILED_PRECONDITION
    return gave_up(words.failure(seen), code, told)


def _lost(active: Active, seen: Observation, restarts_max: int) -> Verdict:
    cause = seen.fault or "no process of it is left, and no record of its end"
    event = after_loss(active.attempt, cause, restarts_max=restarts_max)
    if isinstance(event, GaveUp):
        return gave_up(event.message, UNAVAILABLE)
    story = words.restarting(lost(active.attempt, cause), active.attempt)
    return Verdict(event=event, story=(story,))


def _drained(_active: Active, seen: Observation, _max: int) -> Verdict:
    told = words.replicas_ended(seen.outcome) if seen.outcome else ()
    return Verdict(event=Drained(), story=(*told, words.CANCELLED), error=CANCELLED)


def _ran(seen: Observation) -> bool:
    return bool(seen.task_names or (seen.outcome and seen.outcome.replicas))


def gave_up(message: str, code: int, told: tuple[NewEvent, ...] = ()) -> Verdict:
    """The job has failed, with an error that says of what."""
    return Verdict(
        event=GaveUp(message=message),
        story=(*told, words.failed(message)),
        error=JobError(code=code, message=message),
    )


_JUDGES: Final[Mapping[tuple[JobState, Phase], Callable[[Active, Observation, int], Verdict]]] = {
    (JobState.PREPARING, Phase.READY): _ready,
    (JobState.PREPARING, Phase.ENDED): _ended_unseen,
    (JobState.PREPARING, Phase.LOST): _lost,
    (JobState.RUNNING, Phase.ENDED): _ended,
    (JobState.RUNNING, Phase.LOST): _lost,
    (JobState.CANCELLING, Phase.ENDED): _drained,
    (JobState.CANCELLING, Phase.LOST): _drained,
}
