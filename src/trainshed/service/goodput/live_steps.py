"""Reads the steps of living attempts through their engines."""

from functools import partial

from trainshed.engines.capabilities import SupportsSteps
from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey
from trainshed.model.roles import Role
from trainshed.model.step_times import StepTimes
from trainshed.service.goodput.facts import ReadSteps
from trainshed.store.opening import Store


def live_steps(store: Store, engines: Engines) -> ReadSteps:
    """Return the function that reads the steps of a living attempt, for ``goodput_facts``."""
    return partial(_read_steps, store, engines)


def _read_steps(store: Store, engines: Engines, key: AttemptKey) -> StepTimes | None:
    """Read the steps of an attempt's primary; None if its engine cannot."""
    engine = engines.get_by_attempt(key)
    rows = store.replicas(key.uid, key.attempt)
    task = next((row.task_name for row in rows if row.role == Role.PRIMARY.value), None)
    if task is None or not isinstance(engine, SupportsSteps):
        return None
    return engine.read_steps(key, task)
