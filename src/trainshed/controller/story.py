"""The sentences of a job's story, in gcloud's words if gcloud has a sentence."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from trainshed.engines.base import NotYet
from trainshed.lifecycle.events import (
    Admitted,
    AllReady,
    Drained,
    GaveUp,
    Held,
    PrimarySucceeded,
    RestartOrdered,
)
from trainshed.lifecycle.outcome import Judgement
from trainshed.model import event_kinds, exits
from trainshed.model.attempt import Hang, Observation, Outcome, ReplicaExit
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.faults import EngineFault
from trainshed.model.reduction_report import ACHIEVED
from trainshed.model.resources import Claim, Seat
from trainshed.model.roles import Role
from trainshed.model.status import JobError
from trainshed.model.step_times import STEPS
from trainshed.model.stopping import StopOrder, StopReason
from trainshed.placement.jobs import ChosenEngine
from trainshed.planning.achieved import achieved
from trainshed.planning.attempt_steps import ENDED_S, NOTICE_S, SKEW_S, steps_made
from trainshed.planning.steps_achieved import steps_achieved
from trainshed.store.records.jobs import Active
from trainshed.store.records.steps import NewEvent, ReplicaRow, StoredEvent

#: The most replicas that a sentence lists.
REPLICAS_MAX: Final = 16
NODES_MAX: Final = 8

PREPARING: Final = NewEvent(kind=event_kinds.PREPARING, message="Job is preparing.")
RUNNING: Final = NewEvent(kind=event_kinds.RUNNING, message="Job is running.")
SUCCEEDED: Final = NewEvent(kind=event_kinds.SUCCEEDED, message="Job completed successfully.")
CANCELLED: Final = NewEvent(kind=event_kinds.CANCELLED, message="Job was cancelled.")

#: Clocks that differ by less were not set.
_SKEW_S_MIN: Final = 1.0
_WARNING: Final = {"severity": "WARNING"}
#: The key of why a trial is paused, in the data of the order.
_PAUSED: Final = "paused"


def placed(seats: Sequence[Seat], chosen: ChosenEngine | None = None, *, how: str = "") -> NewEvent:
    """Say on which nodes the replicas are scheduled, and why on this engine.

    ``how`` is text that the engine adds.
    """
    why = f" {chosen.why.rstrip('.')}." if chosen and chosen.why else ""
    by_node = Counter(seat.node for seat in seats)
    parts = [f"{node} ({_replicas(count)})" for node, count in by_node.most_common(NODES_MAX)]
    if len(by_node) > NODES_MAX:
        parts.append(f"{len(by_node) - NODES_MAX} more nodes")
    return NewEvent(
        kind=event_kinds.PLACED,
        message=f"Scheduled on {', '.join(parts)}{how and ', '}{how}.{why}",
        data={"nodes": dict(by_node)},
    )


def handed_over(claim: Claim) -> NewEvent:
    """Say that an attempt is in the queue of an engine, and why this engine was chosen."""
    why = f" {claim.why.rstrip('.')}." if claim.why else ""
    return NewEvent(
        kind="HANDED_OVER",
        message=f"Handed over to the queue of {claim.engine}.{why}",
        data={"engine": claim.engine},
    )


def refused(engine: str, why: Explanation) -> NewEvent:
    """Say that an engine does not accept a job for now."""
    return NewEvent(
        kind="REFUSED",
        message=f"{engine} did not accept the job; the server will try again: {why.message}",
        data={"engine": engine, "reason": why.reason.value},
    )


def of(
    judgement: Judgement,
    active: Active,
    observation: Observation | None,
    planned_gain: float | None = None,
    skew_s: float = 0.0,
) -> tuple[NewEvent, ...]:
    """Return the events that a judgement adds to its job's story.

    ``planned_gain`` is the gain of its reducers that was predicted at submission; ``skew_s`` is by
    how much the machine's clock is ahead of the store's.
    """
    match judgement.event:
        case Admitted():
            return (PREPARING,)
        case AllReady():
            return (RUNNING,)
        case RestartOrdered() if judgement.stop is not None:
            return (stopping(judgement.stop, judgement.error),)
        case PrimarySucceeded():
            last = SUCCEEDED
        case GaveUp(message=message):
            last = NewEvent(kind=event_kinds.FAILED, message=message)
        case Held() | Drained() if judgement.held is not None:
            is_paused = judgement.held.reason is Reason.PAUSED
            message, data = f"{judgement.held.message}.", {} if is_paused else _WARNING
            last = NewEvent(kind=event_kinds.HELD, message=message, data=data)
        case Drained() if not judgement.reason:
            last = CANCELLED
        case _:
            last = _restarting(judgement.reason, active.attempt)
    return (*_attempt_ended(observation, planned_gain), _add_steps(last, observation, skew_s))


def _add_steps(last: NewEvent, observation: Observation | None, skew_s: float) -> NewEvent:
    """Add the steps, the notice and the end of an attempt, lost or not, to its last event."""
    if observation is None:
        return last
    made = steps_made(observation.steps)
    exits = observation.outcome.replicas if observation.outcome else ()
    notices = (ended.notice_s for ended in exits if ended.role is Role.PRIMARY)
    notice_s = next(notices, None)
    skew = skew_s if abs(skew_s) >= _SKEW_S_MIN else None
    times = {NOTICE_S: notice_s, ENDED_S: observation.ended_s, SKEW_S: skew}
    known_times = {name: value for name, value in times.items() if value is not None}
    return replace(last, data={**last.data, **(made.data if made else {}), **known_times})


def _attempt_ended(
    observation: Observation | None, planned_gain: float | None
) -> tuple[NewEvent, ...]:
    """Say how the replicas of an attempt ended, with the totals of exchanges and steps."""
    ended = (
        _replicas_ended(observation.outcome)
        if observation is not None and observation.outcome
        else ()
    )
    if observation is None:
        return ended
    return (*ended, *_reduction_events(observation, planned_gain), *_step_events(observation))


def _reduction_events(observation: Observation, planned_gain: float | None) -> Iterator[NewEvent]:
    if observation.reduction is not None:
        comparison = achieved(observation.reduction, planned_gain)
        yield NewEvent(kind=ACHIEVED, message=comparison.sentence, data=comparison.numbers)


def _step_events(observation: Observation) -> Iterator[NewEvent]:
    """Say what the steps took; not of a lost attempt, which plans do not learn from."""
    steps = None if observation.outcome is None else observation.steps
    if steps is not None and (throughput := steps_achieved(steps)):
        severity = _WARNING if throughput.is_input_bound else {}
        data = {**throughput.numbers, **severity}
        yield NewEvent(kind=STEPS, message=throughput.sentence, data=data)


def with_nodes(events: Sequence[NewEvent], rows: Sequence[ReplicaRow]) -> tuple[NewEvent, ...]:
    """Add to the events of ended replicas the nodes on which they ran."""
    nodes = {row.task_name: row.node for row in rows} if len(events) > 1 else {}
    return tuple(_with_node(event, nodes) for event in events)


def _with_node(event: NewEvent, nodes: Mapping[str, str]) -> NewEvent:
    node = nodes.get(str(event.data.get("task_name")))
    return replace(event, data={**event.data, "node": node}) if node else event


def _restarting(message: str, attempt: int) -> NewEvent:
    """Say that an attempt has ended and the job waits for the next one."""
    text = f"{message.rstrip('.')}; the job is queued again for attempt {attempt + 1}."
    return NewEvent(kind=event_kinds.RESTARTING, message=text, data={"lost_attempt": attempt})


def stopping(order: StopOrder, pending_error: JobError | None) -> NewEvent:
    """Say that the server is ending an attempt, and whether the job will start again."""
    is_pause = order.reason is StopReason.PAUSE
    after = "waits" if is_pause else "will not start again" if pending_error else "will start again"
    notice = f"its replicas have {order.grace_s:g} s to save their work, and the job {after}"
    return NewEvent(
        kind=event_kinds.RESTART_ORDERED,
        message=f"{order.message.rstrip('.')}: {notice}.",
        data={
            "reason": order.reason.value,
            "notice_s": order.grace_s,
            **({_PAUSED: order.message} if is_pause else _WARNING),
        },
    )


def read_pause(event: StoredEvent) -> str:
    """Return why a study has ordered the attempt of its trial to end; empty for other events."""
    return str(event.data.get(_PAUSED, ""))


def hung(hang: Hang) -> NewEvent:
    """Make the event of a hanging replica; its data has the stacks of the replica's threads."""
    return NewEvent(
        kind=event_kinds.HUNG,
        message=f"Replica {hang.task_name} has shown no progress for {hang.seconds:.0f} s.",
        data={
            "task_name": hang.task_name,
            "seconds": hang.seconds,
            "stacks": hang.stacks,
            **_WARNING,
        },
    )


def recovered(task_name: str) -> NewEvent:
    """Say that a hung replica has recovered."""
    return NewEvent(
        kind=event_kinds.RECOVERED,
        message=f"Replica {task_name} shows progress again.",
        data={"task_name": task_name},
    )


def not_taken(error: Exception) -> NewEvent:
    """Say that the engine did not accept a command, and that the server retries."""
    why = str(error) if isinstance(error, OSError | EngineFault | NotYet) else repr(error)
    text = f"The engine did not accept the command; the server will try again: {why}."
    return NewEvent(kind="ENGINE_RETRIED", message=text)


def _replicas_ended(outcome: Outcome) -> tuple[NewEvent, ...]:
    """Say how the replicas ended, those that failed by themselves first; list a few."""
    ended = sorted(outcome.replicas, key=lambda e: (e.stopped_by_us, not e.killed, e.status == 0))
    events = [
        _replica_ended(replica, noticed=outcome.interrupted) for replica in ended[:REPLICAS_MAX]
    ]
    if len(ended) > REPLICAS_MAX:
        more = _replicas(len(ended) - REPLICAS_MAX)
        killed = sum(e.killed for e in ended[REPLICAS_MAX:])
        text = f"{more} more ended" + (f", {killed} of them killed." if killed else ".")
        events.append(NewEvent(kind="REPLICA_ENDED", message=text))
    return tuple(events)


def _replica_ended(ended: ReplicaExit, *, noticed: bool) -> NewEvent:
    data: dict[str, object] = {
        "task_name": ended.task_name,
        "exit_code": ended.exit_code,
        "signal": ended.signal,
        "seconds": round(ended.seconds, 3),
    }
    more = {
        "peak_memory_bytes": ended.peak_memory_bytes,
        "oom": ended.oom or None,
        event_kinds.NOTICE_HONOURED: not ended.killed if ended.stopped_by_us else None,
    }
    data |= {key: value for key, value in more.items() if value is not None}
    text = f"Replica {ended.task_name} {exits.when_stopped(ended, noticed=noticed)}."
    return NewEvent(kind="REPLICA_ENDED", message=text, data=data)


def _replicas(count: int) -> str:
    return f"{count} replica" if count == 1 else f"{count} replicas"
