"""The sentences of a job's story, in the words that users of gcloud know."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from trainshed.engines.base import Observation, Outcome, ReplicaExit
from trainshed.model.resources import Seat
from trainshed.store.records import NewEvent

#: A gang of hundreds is not listed replica by replica.
REPLICAS_MAX: Final = 16
NODES_MAX: Final = 8

PREPARING: Final = NewEvent(kind="PREPARING", message="Job is preparing.")
RUNNING: Final = NewEvent(kind="RUNNING", message="Job is running.")
SUCCEEDED: Final = NewEvent(kind="SUCCEEDED", message="Job completed successfully.")
CANCELLED: Final = NewEvent(kind="CANCELLED", message="Job was cancelled.")


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
    """That an attempt was lost and the job waits for the next one."""
    text = f"{message}; the job is queued again for attempt {attempt + 1}."
    return NewEvent(kind="RESTARTING", message=text, data={"lost_attempt": attempt})


def not_taken(error: Exception) -> NewEvent:
    """That the engine did not take a command, and will be asked again."""
    text = f"The engine could not be told what to do and will be asked again: {error!r}."
    return NewEvent(kind="ENGINE_RETRIED", message=text)


def replicas_ended(outcome: Outcome) -> tuple[NewEvent, ...]:
    """How the replicas ended: those that failed by themselves first, and not hundreds."""
    exits = sorted(outcome.replicas, key=lambda e: (e.stopped_by_us, e.status == 0))
    told = [
        NewEvent(
            kind="REPLICA_ENDED",
            message=f"Replica {e.task_name} {_how(e)} after {e.seconds:.1f} s.",
            data={"task_name": e.task_name, "exit_code": e.exit_code, "signal": e.signal},
        )
        for e in exits[:REPLICAS_MAX]
    ]
    if len(exits) > REPLICAS_MAX:
        more = _replicas(len(exits) - REPLICAS_MAX)
        told.append(NewEvent(kind="REPLICA_ENDED", message=f"{more} more ended."))
    return tuple(told)


def failure(seen: Observation) -> str:
    """The error of a job whose program failed, as Vertex words it (contracts/vertex-sdk.md 4.1)."""
    outcome = seen.outcome
    said = seen.fault or (outcome.message if outcome else "")
    decider = _decider(outcome) if outcome else None
    if decider is None or said.startswith("The replica "):
        return said or "The job could not be started."
    text = f"The replica {decider.task_name} exited with a non-zero status of {decider.status}."
    if outcome and decider.signal is None and not seen.fault:
        said = outcome.last_words  # its message begins with what has just been told
    return f"{text} {said}" if said else text


def _decider(outcome: Outcome) -> ReplicaExit | None:
    own = [e for e in outcome.replicas if e.status and not e.stopped_by_us]
    deciders = [e for e in own if e.status == outcome.exit_code]
    return next(iter(deciders or own), None)


def _how(ended: ReplicaExit) -> str:
    if ended.stopped_by_us:
        return "was stopped"
    return f"exited with status {ended.status}"


def _replicas(count: int) -> str:
    return f"{count} replica" if count == 1 else f"{count} replicas"
