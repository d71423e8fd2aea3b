"""Reads the steps of attempts through their engines, for events that do not have them."""

from collections.abc import Callable
from functools import partial

from trainshed.engines.base import Engine
from trainshed.engines.capabilities import SupportsSteps, SupportsUsage
from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey
from trainshed.model.roles import Role
from trainshed.planning.attempt_steps import StepsMade, steps_in_usage, steps_made
from trainshed.service.goodput.facts import ReadSteps
from trainshed.service.upkeep.paced_reads import PacedReads
from trainshed.store.opening import Store

#: The steps in the usage of attempts; most jobs report none, and all of their usage is read.
UsageSteps = PacedReads[AttemptKey, StepsMade | None]
#: The most attempts whose steps are in memory.
STEPS_MAX = 10_000


#: Returns the task name of an attempt's primary; None before it has one.
FindPrimary = Callable[[AttemptKey], str | None]


def live_steps(store: Store, engines: Engines, remembered: UsageSteps | None = None) -> ReadSteps:
    """Return the function that reads the steps of an attempt, for ``goodput_facts``.

    ``remembered`` has what was read from the usage of attempts lately; None: it is read each time.
    """
    return steps_reader(engines, partial(_find_primary, store), remembered)


def steps_reader(
    engines: Engines, find_primary: FindPrimary, remembered: UsageSteps | None = None
) -> ReadSteps:
    """Return the function of ``live_steps`` for callers that have read the primaries."""

    def read_steps(key: AttemptKey) -> StepsMade | None:
        task = find_primary(key)
        if task is None:
            return None
        try:
            return _read(engines.get_by_attempt(key), key, task, remembered)
        except OSError:  # its engine is away, or this server does not run it
            return None

    return read_steps


def _find_primary(store: Store, key: AttemptKey) -> str | None:
    """Return the task name of an attempt's primary; None before it has one."""
    rows = store.replicas(key.uid, key.attempt)
    return next((row.task_name for row in rows if row.role == Role.PRIMARY.value), None)


def _read(
    engine: Engine, key: AttemptKey, task: str, remembered: UsageSteps | None
) -> StepsMade | None:
    steps = engine.read_steps(key, task) if isinstance(engine, SupportsSteps) else None
    made = steps_made(steps)
    if made is not None or not isinstance(engine, SupportsUsage):
        return made
    read: Callable[[], StepsMade | None] = partial(_read_usage, engine, key, task)
    return read() if remembered is None else remembered.get(key, read)


def _read_usage(engine: SupportsUsage, key: AttemptKey, task: str) -> StepsMade | None:
    return steps_in_usage(engine.read_usage(key), task)
