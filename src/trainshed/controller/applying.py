"""Writes steps in batches, so that one bad step is nobody else's, and reads jobs' stories."""

import logging
from collections.abc import Iterator, Sequence
from itertools import islice

from trainshed.model.faults import EngineFault
from trainshed.model.reduction_report import PLANNED
from trainshed.store.base import Jobs, StoreFault
from trainshed.store.records import Step, StoredEvent

_EVENTS_AT_ONCE = 1000

_LOG = logging.getLogger(__name__)


def apply_all(store: Jobs, steps: Sequence[Step], batch: int) -> list[bool]:
    """Which steps were applied.  Raises StoreFault when the database cannot be used."""
    applied: list[bool] = []
    for part in batches(steps, batch):
        try:
            applied += store.apply(part)
        except StoreFault:
            raise
        except Exception:  # noqa: BLE001 - logged; each step is tried alone
            _LOG.exception("%d steps could not be written together", len(part))
            applied += [_alone(store, step) for step in part]
    return applied


def batches(steps: Sequence[Step], size: int) -> Iterator[Sequence[Step]]:
    """The steps in order, at most ``size`` at a time."""
    rest = iter(steps)
    while part := list(islice(rest, size)):
        yield part


def events_of_attempt(store: Jobs, uid: int, attempt: int) -> Iterator[StoredEvent]:
    """What an attempt's story says, whichever server wrote it."""
    seq = 0
    while events := store.events(uid, after=seq, limit=_EVENTS_AT_ONCE):
        seq = events[-1].seq
        yield from (event for event in events if event.attempt == attempt)


def planned_gain(store: Jobs, uid: int) -> float | None:
    """What was predicted of a job's reducers; it is told right behind who has submitted it."""
    planned = (event for event in store.events(uid) if event.kind == PLANNED)
    found = next((event.data.get("gain") for event in planned), None)
    return float(found) if isinstance(found, int | float) else None


def log_with_story(store: Jobs, uid: int, doing: str) -> None:
    """Log the exception being handled with the story of its job: it is our mistake."""
    try:
        story = "\n".join(f"  {e.attempt} {e.kind}: {e.message}" for e in store.events(uid))
    except StoreFault as fault:
        story = f"  (its story cannot be read: {fault})"
    _LOG.exception("%s job %d; its story:\n%s", doing, uid, story)


def log_not_taken(store: Jobs, uid: int, error: Exception) -> None:
    """Log why an engine did not take a command: what it can say itself is no mistake of ours."""
    if isinstance(error, OSError | EngineFault):
        _LOG.warning("a command of job %d was not taken and will be repeated: %s", uid, error)
    else:
        log_with_story(store, uid, "the engine did not take a command of")


def _alone(store: Jobs, step: Step) -> bool:
    try:
        return store.apply([step])[0]
    except StoreFault:
        raise
    except Exception:  # noqa: BLE001 - logged with the story
        log_with_story(store, step.uid, f"cannot write {step.state.name} of")
        return False
