"""The sentences of a job's story, in the words that users of gcloud know."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from trainshed.controller import ends
from trainshed.model.attempt import Hang, Outcome
from trainshed.model.faults import EngineFault
from trainshed.model.reduction_report import ACHIEVED
from trainshed.model.resources import Seat
from trainshed.model.status import JobError
from trainshed.model.stopping import StopOrder
from trainshed.planning.achieved import Achieved
from trainshed.store.records import NewEvent

#: A gang of hundreds is not listed replica by replica.
REPLICAS_MAX: Final = 16
NODES_MAX: Final = 8

PREPARING: Final = NewEvent(kind="PREPARING", message="Job is preparing.")
RUNNING: Final = NewEvent(kind="RUNNING", message="Job is running.")
SUCCEEDED: Final = NewEvent(kind="SUCCEEDED", message="Job completed successfully.")
CANCELLED: Final = NewEvent(kind="CANCELLED", message="Job was cancelled.")

#: Kinds of events that are read again: what was told once need not be told by the next server.
HUNG: Final = "HUNG"
RESTART_ORDERED: Final = "RESTART_ORDERED"

_WARNING: Final = {"severity": "WARNING"}


def placed(seats: Sequence[Seat]) -> NewEvent:
    """Where the replicas have their places."""
    by_node = Counter(seat.node for seat in seats)
    parts = [f"{node} ({_replicas(count)})" for node, count in by_node.most_common(NODES_MAX)]
    if len(by_node) > NODES_MAX:
        parts.append(f"{len(by_node) - NODES_MAX} more nodes")
    return NewEvent(
        kind="PLACED",
        message=f"Job has its place on {', '.join(parts)}.",
        data={"nodes": dict(by_node)},
    )


def failed(message: str) -> NewEvent:
    """Why the job has failed."""
    return NewEvent(kind="FAILED", message=message)


def restarting(message: str, attempt: int) -> NewEvent:
    """That an attempt is over and the job waits for the next one."""
    text = f"{message.rstrip('.')}; the job is queued again for attempt {attempt + 1}."
    return NewEvent(kind="RESTARTING", message=text, data={"lost_attempt": attempt})


def stopping(order: StopOrder, doom: JobError | None) -> NewEvent:
    """That an attempt is to be ended, and what comes after it."""
    after = "will not start again" if doom else "will start again"
    notice = f"its replicas have {order.grace_s:g} s to save their work, and the job {after}"
    return NewEvent(
        kind=RESTART_ORDERED,
        message=f"{order.message.rstrip('.')}: {notice}.",
        data={"reason": order.reason.value, "notice_s": order.grace_s, **_WARNING},
    )


def hung(hang: Hang) -> NewEvent:
    """That a replica shows no progress; what it was doing is kept beside the sentence."""
    return NewEvent(
        kind=HUNG,
        message=f"Replica {hang.task_name} has shown no progress for {hang.seconds:.0f} s.",
        data={
            "task_name": hang.task_name,
            "seconds": hang.seconds,
            "stacks": hang.stacks,
            **_WARNING,
        },
    )


def recovered(task_name: str) -> NewEvent:
    """That a replica which had hung goes on."""
    return NewEvent(
        kind="RECOVERED",
        message=f"Replica {task_name} shows progress again.",
        data={"task_name": task_name},
    )


def reduced(found: Achieved) -> NewEvent:
    """What the exchanges of an attempt came to."""
    return NewEvent(kind=ACHIEVED, message=found.sentence, data=found.numbers)


def not_taken(error: Exception) -> NewEvent:
    """That the engine did not take a command, and will be asked again."""
    why = str(error) if isinstance(error, OSError | EngineFault) else repr(error)
    text = f"The engine could not be told what to do and will be asked again: {why}."
    return NewEvent(kind="ENGINE_RETRIED", message=text)


def replicas_ended(outcome: Outcome) -> tuple[NewEvent, ...]:
    """How the replicas ended: those that failed by themselves first, and not hundreds."""
    exits = sorted(outcome.replicas, key=lambda e: (e.stopped_by_us, not e.killed, e.status == 0))
    told = [
        NewEvent(
            kind="REPLICA_ENDED",
            message=f"Replica {e.task_name} {ends.how(e, noticed=outcome.interrupted)}.",
            data=ends.data_of(e),
        )
        for e in exits[:REPLICAS_MAX]
    ]
    if len(exits) > REPLICAS_MAX:
        more = _replicas(len(exits) - REPLICAS_MAX)
        killed = sum(e.killed for e in exits[REPLICAS_MAX:])
        text = f"{more} more ended" + (f", {killed} of them killed." if killed else ".")
        told.append(NewEvent(kind="REPLICA_ENDED", message=text))
    return tuple(told)


def _replicas(count: int) -> str:
    return f"{count} replica" if count == 1 else f"{count} replicas"
