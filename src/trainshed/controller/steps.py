"""Makes steps (writes about jobs) from judgements, and applies them in batches.

If a batch fails, each of its steps is tried alone.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from trainshed.controller import story
from trainshed.engines.base import NotYet
from trainshed.launch.names import task_name
from trainshed.lifecycle import decide
from trainshed.lifecycle.decide import commands_of
from trainshed.lifecycle.outcome import Judgement
from trainshed.model.attempt import AttemptKey, Observation, Outcome, ReplicaExit
from trainshed.model.faults import EngineFault
from trainshed.model.reduction_report import PLANNED
from trainshed.model.resources import Seat
from trainshed.model.roles import Dialect
from trainshed.model.status import JobState
from trainshed.observability.log_fields import log_fields
from trainshed.store.base import StoreFault
from trainshed.store.opening import Store
from trainshed.store.records.jobs import Active, Holding, JobKind, JobRecord
from trainshed.store.records.steps import ReplicaRow, Step, StoredEvent

_EVENTS_AT_ONCE = 1000

_LOG = logging.getLogger(__name__)


DIALECT_OF_KIND: Final[Mapping[JobKind, Dialect]] = {
    JobKind.ML_JOB: Dialect.ML_V1,
    JobKind.CUSTOM_JOB: Dialect.AIPLATFORM_V1,
    JobKind.TUNING_JOB: Dialect.AIPLATFORM_V1,
    JobKind.TRIAL: Dialect.ML_V1,
}


def step_of(  # noqa: PLR0913 - what a step is made of
    active: Active,
    judgement: Judgement,
    server: str,
    *,
    observation: Observation | None = None,
    held: Holding | None = None,
    planned_gain: float | None = None,
    skew_s: float = 0.0,
) -> Step:
    """Return the write of a judgement.  Raises IllegalTransition for a server bug.

    ``skew_s``: by how much the machine's clock is ahead of the store's.
    """
    decision = decide(active.state, judgement.event)
    placed = newly_placed(observation, held)
    if held is not None and placed:
        held = replace(held, seats=placed)
    rows = _rows(observation, decision.state, held) if observation else None
    events = story.of(judgement, active, observation, planned_gain, skew_s)
    placed_events = (
        (story.placed(placed, how=observation.placed_how),) if placed and observation else ()
    )
    return Step(
        uid=active.uid,
        version=active.version,
        state=decision.state,
        error=judgement.error,
        events=(*placed_events, *story.with_nodes(events, rows or ())),
        placed=placed,
        commands=commands_of(active.state, decision),
        replicas=rows,
        server=server,
        stop=judgement.stop,
        held=judgement.held,
        restarts=None if judgement.charged is None else active.restarts.plus(judgement.charged),
        charged=judgement.charged,
        ran_s_max=_ran_s(observation) if observation else None,
    )


def place_step(
    active: Active, observation: Observation, placed: tuple[Seat, ...], held: Holding, server: str
) -> Step:
    """Return the step for places that an engine reported after the attempt had started."""
    state = "RUNNING" if active.state is JobState.RUNNING else "PLACED"
    seats = replace(held, seats=placed).replicas
    return Step(
        uid=active.uid,
        version=active.version,
        state=active.state,
        events=(story.placed(placed, how=observation.placed_how),),
        placed=placed,
        replicas=tuple(_row(held.kind, seat, state) for seat in seats),
        server=server,
    )


def newly_placed(observation: Observation | None, held: Holding | None) -> tuple[Seat, ...]:
    """Return the seats that the engine reports and the store does not have."""
    if observation is None or held is None or held.claim is None or not observation.placed:
        return ()
    engine = held.claim.engine
    placed = tuple(replace(seat, engine=engine) for seat in observation.placed)
    return () if placed == held.seats else placed


def apply_all(store: Store, steps: Sequence[Step], batch: int) -> list[bool]:
    """Apply steps; return whether each was applied.  Raises StoreFault."""
    applied: list[bool] = []
    for part in batches(steps, batch):
        try:
            applied += store.apply(part)
        except StoreFault:
            raise
        except Exception:  # noqa: BLE001 - logged; each step is tried alone
            _LOG.exception("cannot write %d steps together; writing each alone", len(part))
            applied += [_apply_alone(store, step) for step in part]
    return applied


def batches(steps: Sequence[Step], size: int) -> Iterator[Sequence[Step]]:
    """Yield the steps in order, at most ``size`` at a time."""
    rest = iter(steps)
    while part := list(islice(rest, size)):
        yield part


def events_of_attempt(store: Store, uid: int, attempt: int) -> Iterator[StoredEvent]:
    """Yield the events of an attempt, whichever server wrote them."""
    seq = 0
    while events := store.events(uid, after=seq, limit=_EVENTS_AT_ONCE):
        seq = events[-1].seq
        yield from (event for event in events if event.attempt == attempt)


def planned_gain(store: Store, uid: int) -> float | None:
    """Return the reducers' gain that was predicted at submission; None without a prediction."""
    planned = (event for event in store.events(uid) if event.kind == PLANNED)
    gain = next((event.data.get("gain") for event in planned), None)
    return float(gain) if isinstance(gain, int | float) else None


def fields_of(key: AttemptKey, record: JobRecord | None = None) -> Mapping[str, object]:
    """Return the fields of log records that are written while an attempt is worked on."""
    if record is None:
        return {"uid": key.uid, "attempt": key.attempt}
    job, trial = record.job, record.job.spec.trial
    named = {"project": job.project, "job": job.job_id}
    of_study = {"study": trial.study_job_id, "trial": trial.trial_id} if trial else {}
    return {"uid": key.uid, "attempt": key.attempt, **named, **of_study}


def log_with_story(store: Store, uid: int, action: str) -> None:
    """Log the current exception, a server bug, with the story of its job.

    ``action`` begins the log line, such as ``cannot write RUNNING of``.
    """
    try:
        text = "\n".join(f"  {e.attempt} {e.kind}: {e.message}" for e in store.events(uid))
    except StoreFault as fault:
        text = f"  (its story cannot be read: {fault})"
    with log_fields(uid=uid):
        _LOG.exception("%s job %d; its story:\n%s", action, uid, text)


def log_not_taken(store: Store, uid: int, error: Exception) -> None:
    """Log why an engine refused a command, with a traceback for an unexpected error."""
    if isinstance(error, OSError | EngineFault | NotYet):
        _LOG.warning("the engine refused a command of job %d: %s; retrying", uid, error)
    else:
        log_with_story(store, uid, "the engine failed on a command of")


def _apply_alone(store: Store, step: Step) -> bool:
    try:
        return store.apply([step])[0]
    except StoreFault:
        raise
    except Exception:  # noqa: BLE001 - logged with the story
        log_with_story(store, step.uid, f"cannot write {step.state.name} of")
        return False


def placed_rows(kind: JobKind, seats: Sequence[Seat]) -> tuple[ReplicaRow, ...]:
    """Return the rows of replicas that have places and have not started."""
    return tuple(_row(kind, seat, "PLACED") for seat in seats)


def _running_rows(held: Holding) -> tuple[ReplicaRow, ...]:
    return tuple(_row(held.kind, seat, "RUNNING") for seat in held.replicas)


def ended_rows(held: Holding, outcome: Outcome | None) -> tuple[ReplicaRow, ...]:
    """Return the rows of an ended attempt; a replica without an exit was stopped."""
    exits = {(e.role, e.index): e for e in outcome.replicas} if outcome else {}
    return tuple(
        _ended_row(held.kind, seat, exits.get((seat.role, seat.index))) for seat in held.replicas
    )


def _ended_row(kind: JobKind, seat: Seat, replica_exit: ReplicaExit | None) -> ReplicaRow:
    if replica_exit is None:
        return _row(kind, seat, "STOPPED")
    state = (
        "STOPPED"
        if replica_exit.stopped_by_us
        else "FAILED"
        if replica_exit.status
        else "SUCCEEDED"
    )
    return _row(kind, seat, state, exit_code=replica_exit.exit_code, signal=replica_exit.signal)


def _row(
    kind: JobKind,
    seat: Seat,
    state: str,
    *,
    exit_code: int | None = None,
    signal: int | None = None,
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


def _rows(
    observation: Observation, after: JobState, held: Holding | None
) -> tuple[ReplicaRow, ...] | None:
    if held is None:
        return None
    if after is JobState.PREPARING:
        return placed_rows(held.kind, held.replicas)
    if after is JobState.RUNNING:
        return _running_rows(held)
    return ended_rows(held, observation.outcome)


def _ran_s(observation: Observation) -> float | None:
    """Return the longest running time of the attempt's replicas; None if unknown."""
    if observation.outcome is not None and observation.outcome.replicas:
        return max(ended.seconds for ended in observation.outcome.replicas)
    return observation.ran_s
