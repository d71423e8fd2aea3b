"""What is known of an attempt's replicas, as rows for the store."""

from collections.abc import Mapping, Sequence
from typing import Final

from trainshed.launch.names import task_name
from trainshed.model.attempt import Outcome, ReplicaExit
from trainshed.model.resources import Seat
from trainshed.model.roles import Dialect
from trainshed.store.records import Holding, Kind, ReplicaRow

DIALECT_OF_KIND: Final[Mapping[Kind, Dialect]] = {
    Kind.ML_JOB: Dialect.ML_V1,
    Kind.CUSTOM_JOB: Dialect.AIPLATFORM_V1,
    Kind.TUNING_JOB: Dialect.AIPLATFORM_V1,
    Kind.TRIAL: Dialect.ML_V1,
}


def placed(kind: Kind, seats: Sequence[Seat]) -> tuple[ReplicaRow, ...]:
    """The rows of replicas that have places and nothing else yet."""
    return tuple(_row(kind, seat, "PLACED") for seat in seats)


def running(held: Holding) -> tuple[ReplicaRow, ...]:
    """The rows of an attempt whose replicas have all been started."""
    return tuple(_row(held.kind, seat, "RUNNING") for seat in held.seats)


def ended(held: Holding, outcome: Outcome | None) -> tuple[ReplicaRow, ...]:
    """The rows of an attempt of which no process lives; one without an exit was stopped."""
    exits = {(e.role, e.index): e for e in outcome.replicas} if outcome else {}
    return tuple(_ended(held.kind, seat, exits.get((seat.role, seat.index))) for seat in held.seats)


def _ended(kind: Kind, seat: Seat, seen: ReplicaExit | None) -> ReplicaRow:
    if seen is None:
        return _row(kind, seat, "STOPPED")
    state = "STOPPED" if seen.stopped_by_us else "FAILED" if seen.status else "SUCCEEDED"
    return _row(kind, seat, state, exit_code=seen.exit_code, signal=seen.signal)


def _row(
    kind: Kind, seat: Seat, state: str, *, exit_code: int | None = None, signal: int | None = None
) -> ReplicaRow:
    return ReplicaRow(
        role=seat.role.value,
        index=seat.index,
        task_name=task_name(DIALECT_OF_KIND[kind], seat.role, seat.index),
        node=seat.node,
        state=state,
        exit_code=exit_code,
        signal=signal,
    )
