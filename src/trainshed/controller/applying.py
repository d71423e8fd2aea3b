"""Writes steps in batches, so that one bad step is nobody else's, and says whose it was."""

import logging
from collections.abc import Iterator, Sequence
from itertools import islice

from trainshed.store.base import Jobs, StoreFault
from trainshed.store.records import Step

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


def log_with_story(store: Jobs, uid: int, doing: str) -> None:
    """Log the exception being handled with the story of its job: it is our mistake."""
    try:
        story = "\n".join(f"  {e.attempt} {e.kind}: {e.message}" for e in store.events(uid))
    except StoreFault as fault:
        story = f"  (its story cannot be read: {fault})"
    _LOG.exception("%s job %d; its story:\n%s", doing, uid, story)


def _alone(store: Jobs, step: Step) -> bool:
    try:
        return store.apply([step])[0]
    except StoreFault:
        raise
    except Exception:  # noqa: BLE001 - logged with the story
        log_with_story(store, step.uid, f"cannot write {step.state.name} of")
        return False
