"""What an observation means for a job: pure thought, from values to a step.

The table names every pair of state and phase that means something.  UNKNOWN is in none of them: an
engine that cannot say now is never a reason to do anything (DESIGN 5.6).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from trainshed.controller import ends, replicas, words
from trainshed.lifecycle import decide
from trainshed.lifecycle.events import (
    AllReady,
    Drained,
    Event,
    GaveUp,
    PrimarySucceeded,
    RestartGranted,
)
from trainshed.lifecycle.restart import after_failure, after_loss, lost
from trainshed.model.attempt import Observation, Phase
from trainshed.model.job import Scheduling
from trainshed.model.restarts import Budgets, Cause, Restarts
from trainshed.model.status import JobError, JobState
from trainshed.model.stopping import StopOrder
from trainshed.planning.achieved import achieved
from trainshed.store.decisions import commands_of
from trainshed.store.records import Active, Holding, NewEvent, ReplicaRow, Step

#: google.rpc.Code: the program failed; it could not be started; its machines were lost.
INVALID_ARGUMENT: Final = 3
FAILED_PRECONDITION: Final = 9
INTERNAL: Final = 13
UNAVAILABLE: Final = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the policies know of a job beside its state."""

    scheduling: Scheduling = field(default_factory=Scheduling)
    budgets: Budgets = field(default_factory=Budgets)
    doom: JobError | None = None
    """What the job will have failed of when the attempt that is being ended is gone; None: it
    starts again."""
    planned_gain: float | None = None
    """What was predicted of its reducers when it was submitted, in times a ring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """An event for the transition table, and what a job is told with it."""

    event: Event
    story: tuple[NewEvent, ...]
    error: JobError | None = None
    restarts: Restarts | None = None
    """The counts from now on; None leaves them."""
    stop: StopOrder | None = None


def matters(state: JobState, seen: Observation) -> bool:
    """Whether an observation can mean anything in a state."""
    if state is JobState.RUNNING and seen.phase is Phase.READY:  # thousands of times a second
        return False
    return (state, seen.phase) in _JUDGES


def needs_terms(state: JobState, seen: Observation) -> bool:
    """Whether an observation that matters is for the policies to judge: mostly it is not."""
    if state is JobState.CANCELLING or seen.phase is Phase.READY:
        return False
    return state is JobState.RESTARTING or not _succeeded(seen)


def judge(active: Active, seen: Observation, terms: Terms) -> Verdict:
    """What an observation that matters means for a job."""
    return _JUDGES[active.state, seen.phase](active, seen, terms)


def step_of(
    active: Active,
    verdict: Verdict,
    server: str,
    *,
    seen: Observation | None = None,
    held: Holding | None = None,
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
        replicas=_rows(seen, decision.state, held) if seen else None,
        server=server,
        stop=verdict.stop,
        restarts=verdict.restarts,
        ran_s_max=_ran_s(seen) if seen else None,
    )


def gave_up(message: str, code: int, told: tuple[NewEvent, ...] = ()) -> Verdict:
    """The job has failed, with an error that says of what."""
    return Verdict(
        event=GaveUp(message=message),
        story=(*told, words.failed(message)),
        error=JobError(code=code, message=message),
    )


def _rows(
    seen: Observation, after: JobState, held: Holding | None
) -> tuple[ReplicaRow, ...] | None:
    if held is None:
        return None
    if after is JobState.RUNNING:
        return replicas.running(held)
    return replicas.ended(held, seen.outcome)


def _ran_s(seen: Observation) -> float | None:
    """How long the attempt ran at the most; None where nobody knows, or where it runs on."""
    if seen.outcome is not None and seen.outcome.replicas:
        return max(ended.seconds for ended in seen.outcome.replicas)
    return seen.ran_s


def _ready(_active: Active, _seen: Observation, _terms: Terms) -> Verdict:
    return Verdict(event=AllReady(), story=(words.RUNNING,))


def _ended_unseen(active: Active, seen: Observation, terms: Terms) -> Verdict:
    """What has run before it ended was ready, however short: its story and start time say so."""
    return (_ready if _ran(seen) else _ended)(active, seen, terms)


def _ended(active: Active, seen: Observation, terms: Terms) -> Verdict:
    if _succeeded(seen):
        return Verdict(event=PrimarySucceeded(), story=(*_told(seen, terms), words.SUCCEEDED))
    if _was_interrupted(seen):
        return _loss(active, seen, terms, "somebody else has stopped it")
    granted = _another_try(active, seen, terms)
    if granted is not None:
        story = words.restarting(ends.failure(seen), active.attempt)
        restarts = active.restarts.plus(Cause.USER)
        return Verdict(event=granted, story=(*_told(seen, terms), story), restarts=restarts)
    return _failed(seen, terms)


def _failed(seen: Observation, terms: Terms) -> Verdict:
    code = INVALID_ARGUMENT if _ran(seen) else FAILED_PRECONDITION
    return gave_up(ends.failure(seen), code, _told(seen, terms))


def _another_try(active: Active, seen: Observation, terms: Terms) -> RestartGranted | None:
    """What the program's own budget says; what could not be started at all has not used it."""
    if seen.outcome is None or seen.fault is not None:
        return None
    status = seen.outcome.exit_code
    return after_failure(status, active.restarts, terms.scheduling, terms.budgets)


def _lost(active: Active, seen: Observation, terms: Terms) -> Verdict:
    why = seen.fault or "no process of it is left, and no record of its end"
    return _loss(active, seen, terms, why)


def _loss(active: Active, seen: Observation, terms: Terms, why: str) -> Verdict:
    event = after_loss(active.attempt, why, active.restarts, terms.scheduling, terms.budgets)
    if isinstance(event, GaveUp):
        return gave_up(event.message, UNAVAILABLE, _told(seen, terms))
    story = words.restarting(lost(active.attempt, why), active.attempt)
    restarts = active.restarts.plus(Cause.INFRA)
    return Verdict(event=event, story=(*_told(seen, terms), story), restarts=restarts)


def _ended_restarting(active: Active, seen: Observation, terms: Terms) -> Verdict:
    """The end that was ordered, or one of its own that came before the order."""
    if _succeeded(seen):
        return Verdict(event=PrimarySucceeded(), story=(*_told(seen, terms), words.SUCCEEDED))
    is_own = seen.fault is not None or (_ran(seen) and not _was_interrupted(seen))
    if is_own and _another_try(active, seen, terms) is None:
        return _failed(seen, terms)
    return _restarted(active, seen, terms)


def _restarted(active: Active, seen: Observation, terms: Terms) -> Verdict:
    """The restart was counted when it was ordered."""
    if terms.doom is not None:
        return gave_up(terms.doom.message, terms.doom.code, _told(seen, terms))
    story = words.restarting(f"Attempt {active.attempt} has ended", active.attempt)
    return Verdict(event=Drained(), story=(*_told(seen, terms), story))


def _cancelled(_active: Active, seen: Observation, terms: Terms) -> Verdict:
    """The job's error says already who or what wanted its end."""
    return Verdict(event=Drained(), story=(*_told(seen, terms), words.CANCELLED))


def _told(seen: Observation, terms: Terms) -> tuple[NewEvent, ...]:
    found = words.replicas_ended(seen.outcome) if seen.outcome else ()
    if seen.reduction is None:
        return found
    return (*found, words.reduced(achieved(seen.reduction, terms.planned_gain)))


def _succeeded(seen: Observation) -> bool:
    outcome = seen.outcome
    return (
        seen.phase is Phase.ENDED
        and outcome is not None
        and outcome.exit_code == 0
        and not outcome.interrupted
        and seen.fault is None
    )


def _was_interrupted(seen: Observation) -> bool:
    return seen.fault is None and seen.outcome is not None and seen.outcome.interrupted


def _ran(seen: Observation) -> bool:
    return bool(seen.task_names or (seen.outcome and seen.outcome.replicas))


_Judge = Callable[[Active, Observation, Terms], Verdict]
_JUDGES: Final[Mapping[tuple[JobState, Phase], _Judge]] = {
    (JobState.PREPARING, Phase.READY): _ready,
    (JobState.PREPARING, Phase.ENDED): _ended_unseen,
    (JobState.PREPARING, Phase.LOST): _lost,
    (JobState.RUNNING, Phase.ENDED): _ended,
    (JobState.RUNNING, Phase.LOST): _lost,
    (JobState.RESTARTING, Phase.ENDED): _ended_restarting,
    (JobState.RESTARTING, Phase.LOST): _restarted,
    (JobState.CANCELLING, Phase.ENDED): _cancelled,
    (JobState.CANCELLING, Phase.LOST): _cancelled,
}
