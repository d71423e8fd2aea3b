"""Turns an observation of an attempt into an event of its job, with a reason.

The table has every pair of state and phase that leads to an event.  UNKNOWN is in no pair: if an
engine cannot tell the phase, the job does not change.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from trainshed.lifecycle.events import (
    Admitted,
    AllReady,
    Drained,
    Event,
    GaveUp,
    HandOverRefused,
    Held,
    PrimarySucceeded,
    RestartGranted,
    RestartOrdered,
)
from trainshed.lifecycle.restart import (
    decide_after_failure,
    decide_after_loss,
    describe_loss,
    explain_no_restart,
    may_restart,
)
from trainshed.model.attempt import ALIVE, Loss, Observation, Phase
from trainshed.model.exits import failure
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.job import Scheduling
from trainshed.model.restarts import Budgets, Cause, Restarts
from trainshed.model.status import JobError, JobState
from trainshed.model.stopping import StopOrder, StopReason

#: The google.rpc.Code of a job's error, by its cause.
INVALID_ARGUMENT: Final = 3  # the program failed
DEADLINE_EXCEEDED: Final = 4  # a time limit was exceeded
FAILED_PRECONDITION: Final = 9  # the program could not be started
INTERNAL: Final = 13  # a bug of Trainshed
UNAVAILABLE: Final = 14  # the machines were lost
#: The order for an attempt that has no living process and is followed by another one.
_AGAIN: Final = StopOrder(
    grace_s=0.0, reason=StopReason.AGAIN, message="The job has another attempt."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """The facts about an attempt and its job that policies use in addition to the state."""

    attempt: int = 0
    job: str = ""
    """The id of the job, as commands name it."""
    used: Restarts = field(default_factory=Restarts)
    """The number of restarts that the job has had, by cause."""
    scheduling: Scheduling = field(default_factory=Scheduling)
    budgets: Budgets = field(default_factory=Budgets)
    pending_error: JobError | None = None
    """The error of the job once its stopping attempt has ended; None: the job starts again."""
    paused: str = ""
    """Why the study of the trial has ordered the attempt to end; empty: it has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """An event for the transition table, with its reason and error."""

    event: Event
    reason: str = ""
    """Why the job starts again, as a sentence."""
    error: JobError | None = None
    charged: Cause | None = None
    """The cause whose restart budget is charged; None: no restart."""
    stop: StopOrder | None = None
    held: Explanation | None = None
    """Why the job is held, and how to resume it; None: it is not."""


def matters(state: JobState, observation: Observation) -> bool:
    """Whether an observation can lead to an event in a state."""
    if (
        state is JobState.RUNNING and observation.phase is Phase.READY
    ):  # thousands of times a second
        return False
    return (state, observation.phase) in _JUDGES


def needs_facts(state: JobState, observation: Observation) -> bool:
    """Whether ``judge`` needs facts of the job, which are slow to read, for an observation."""
    if state is JobState.CANCELLING or observation.phase in ALIVE:
        return False
    return state is JobState.RESTARTING or not _succeeded(observation)


def judge(state: JobState, observation: Observation, facts: AttemptFacts) -> Judgement:
    """Return the event that an observation that matters leads to in this state."""
    return _JUDGES[state, observation.phase](observation, facts)


def gave_up(message: str, code: int) -> Judgement:
    """Return the judgement that the job has failed with this error; ``code``: google.rpc.Code."""
    return Judgement(event=GaveUp(message=message), error=JobError(code=code, message=message))


def restart_ordered(order: StopOrder, cause: Cause, facts: AttemptFacts) -> Judgement | None:
    """Order a living attempt to end, so that the next can begin; None: no restart is left."""
    if not may_restart(cause, facts.used, facts.scheduling, facts.budgets):
        return None
    return Judgement(event=RestartOrdered(), charged=cause, stop=order)


def last_stop(order: StopOrder, cause: Cause, facts: AttemptFacts) -> Judgement:
    """Order the living attempt of a job without further restarts to end; the job then fails.

    The error is stored with the order, so that the end can be attributed to it.
    """
    why = explain_no_restart(cause, facts.scheduling, facts.budgets)
    error = JobError(code=UNAVAILABLE, message=f"{order.message.rstrip('.')}, and {why}.")
    return Judgement(event=RestartOrdered(), error=error, stop=order)


def pause_ordered(order: StopOrder) -> Judgement:
    """Order a living attempt of a trial to end; the job is then held.  No restart is charged."""
    return Judgement(event=RestartOrdered(), stop=order)


def paused(why: str) -> Judgement:
    """Return the judgement that holds a waiting job until its study resumes the trial."""
    return Judgement(event=Held(), held=_pause(why))


def _pause(why: str) -> Explanation:
    return Explanation(reason=Reason.PAUSED, message=why.rstrip("."))


def hand_over_refused(why: Explanation) -> Judgement:
    """Return the judgement that the engine's queue refuses the job for now, at no restart."""
    return Judgement(event=HandOverRefused(), reason=why.message)


def _admitted(_observation: Observation, _facts: AttemptFacts) -> Judgement:
    return Judgement(event=Admitted())


def _ended_in_queue(observation: Observation, facts: AttemptFacts) -> Judgement:
    """Judge an end in the engine's queue; if the attempt has run, first record its admission."""
    return (_admitted if _ran(observation) else _ended)(observation, facts)


def _ready(_observation: Observation, _facts: AttemptFacts) -> Judgement:
    return Judgement(event=AllReady())


def _ended_unseen(observation: Observation, facts: AttemptFacts) -> Judgement:
    """Judge an end before READY was observed; if the attempt has run, first record that it was."""
    return (_ready if _ran(observation) else _ended)(observation, facts)


def _ended(observation: Observation, facts: AttemptFacts) -> Judgement:
    if _succeeded(observation):
        return Judgement(event=PrimarySucceeded())
    if _was_interrupted(observation):
        return _after_loss("another user or program has stopped it", Cause.INFRA, facts)
    granted = _another_try(observation, facts)
    if granted is None:
        return _failed(observation)
    why = failure(observation.outcome, observation.fault)
    return Judgement(event=granted, reason=why, charged=Cause.USER, stop=_AGAIN)


def _failed(observation: Observation) -> Judgement:
    code = INVALID_ARGUMENT if _ran(observation) else FAILED_PRECONDITION
    return gave_up(failure(observation.outcome, observation.fault), code)


def _another_try(observation: Observation, facts: AttemptFacts) -> RestartGranted | None:
    """Grant a restart by the program's budget; None: none is left, or it could not start."""
    if observation.outcome is None or observation.fault is not None:
        return None
    return decide_after_failure(
        observation.outcome.exit_code, facts.used, facts.scheduling, facts.budgets
    )


def _lost(observation: Observation, facts: AttemptFacts) -> Judgement:
    why = observation.fault or "no process of the attempt is left, and no record of its end"
    if observation.loss is Loss.LIMIT:
        ended = f"Attempt {facts.attempt} ended at its time limit ({why.rstrip('.')})."
        return gave_up(ended, DEADLINE_EXCEEDED)
    if observation.loss is Loss.OPERATOR and not facts.scheduling.disable_retries:
        return _held(why, facts)
    cause = Cause.MAINTENANCE if observation.loss is Loss.MAINTENANCE else Cause.INFRA
    return _after_loss(why, cause, facts)


def _held(why: str, facts: AttemptFacts) -> Judgement:
    """Hold a job that a person has stopped in its cluster; no restart is charged."""
    message = f"{why}: the job is held; `trainshed jobs resume {facts.job}` takes it up again"
    return Judgement(event=Held(), held=Explanation(reason=Reason.HELD, message=message))


def _after_loss(why: str, cause: Cause, facts: AttemptFacts) -> Judgement:
    used, scheduling, budgets = facts.used, facts.scheduling, facts.budgets
    event = decide_after_loss(facts.attempt, why, used, scheduling, budgets, cause=cause)
    if isinstance(event, GaveUp):
        return gave_up(event.message, UNAVAILABLE)
    return Judgement(event=event, reason=describe_loss(facts.attempt, why), charged=cause)


def _ended_restarting(observation: Observation, facts: AttemptFacts) -> Judgement:
    """Judge an attempt that ended after a restart order, or by itself before the order."""
    if _succeeded(observation):
        return Judgement(event=PrimarySucceeded())
    has_failed = observation.fault is not None or (
        _ran(observation) and not _was_interrupted(observation)
    )
    if has_failed and _another_try(observation, facts) is None:
        return _failed(observation)
    return _restarted(observation, facts)


def _restarted(observation: Observation, facts: AttemptFacts) -> Judgement:
    """Return to the queue, or fail with the pending error; the restart was charged already."""
    if facts.pending_error is not None:
        return gave_up(facts.pending_error.message, facts.pending_error.code)
    if facts.paused:
        return Judgement(event=Drained(), held=_pause(facts.paused))
    stop = _AGAIN if observation.phase is Phase.ENDED else None
    return Judgement(event=Drained(), reason=f"Attempt {facts.attempt} has ended", stop=stop)


def _cancelled(_observation: Observation, _facts: AttemptFacts) -> Judgement:
    """Confirm the cancellation; the job's error already has the reason."""
    return Judgement(event=Drained())


def _succeeded(observation: Observation) -> bool:
    outcome = observation.outcome
    return (
        observation.phase is Phase.ENDED
        and outcome is not None
        and outcome.exit_code == 0
        and not outcome.interrupted
        and observation.fault is None
    )


def _was_interrupted(observation: Observation) -> bool:
    return (
        observation.fault is None
        and observation.outcome is not None
        and observation.outcome.interrupted
    )


def _ran(observation: Observation) -> bool:
    return bool(observation.task_names or (observation.outcome and observation.outcome.replicas))


_JUDGES: Final[
    Mapping[tuple[JobState, Phase], Callable[[Observation, AttemptFacts], Judgement]]
] = {
    (JobState.ENQUEUED, Phase.STARTING): _admitted,
    (JobState.ENQUEUED, Phase.READY): _admitted,
    (JobState.ENQUEUED, Phase.ENDED): _ended_in_queue,
    (JobState.ENQUEUED, Phase.LOST): _lost,
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
