"""Reads the steps of attempts through their engines, for events that do not have them."""

from functools import partial

from trainshed.engines.capabilities import SupportsSteps, SupportsUsage
from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey
from trainshed.model.roles import Role
from trainshed.planning.attempt_steps import StepsMade, steps_in_usage, steps_made
from trainshed.service.goodput.facts import ReadSteps
from trainshed.store.opening import Store


def live_steps(store: Store, engines: Engines) -> ReadSteps:
    """Return the function that reads the steps of an attempt, for ``goodput_facts``."""
    return partial(_read_steps, store, engines)


def _read_steps(store: Store, engines: Engines, key: AttemptKey) -> StepsMade | None:
    """Read the steps of an attempt's primary: from its report, else from its usage."""
    engine = engines.get_by_attempt(key)
    rows = store.replicas(key.uid, key.attempt)
    task = next((row.task_name for row in rows if row.role == Role.PRIMARY.value), None)
    if task is None:
        return None
    made = steps_made(engine.read_steps(key, task)) if isinstance(engine, SupportsSteps) else None
    if made is None and isinstance(engine, SupportsUsage):
        try:
            return steps_in_usage(engine.read_usage(key), task)
        except OSError:
            return None
    return made
