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

#: The steps in the usage of attempts, and whether their job had ended when they were read.
#: Most jobs report none, and all of their usage is read.
UsageSteps = PacedReads[tuple[AttemptKey, bool], StepsMade | None]
#: The most attempts whose steps are in memory.
STEPS_MAX = 10_000


#: Returns the task name of an attempt's primary; None before it has one.
FindPrimary = Callable[[AttemptKey], str | None]


def live_steps(store: Store, engines: Engines) -> ReadSteps:
    """Return the function that reads the steps of an attempt, for ``goodput_facts``."""
    return steps_reader(engines, partial(_find_primary, store))


def steps_reader(
    engines: Engines,
    find_primary: FindPrimary,
    remembered: UsageSteps | None = None,
    *,
    is_over: bool = False,
) -> ReadSteps:
    """Return the function of ``live_steps`` for callers that have read the primaries.

    ``remembered`` has what was read from the usage of attempts lately; None: it is read each time.
    ``is_over``: whether the job has ended; what was read before is then not used.
    """

    def read_steps(key: AttemptKey) -> StepsMade | None:
        task = find_primary(key)
        if task is None:
            return None
        try:
            engine = engines.get_by_attempt(key)
            made = _read_report(engine, key, task)
            if made is not None or not isinstance(engine, SupportsUsage):
                return made
            read = partial(_read_usage, engine, key, task)
            return read() if remembered is None else remembered.get((key, is_over), read)
        except OSError:  # its engine is away, or this server does not run it
            return None

    return read_steps


def _find_primary(store: Store, key: AttemptKey) -> str | None:
    """Return the task name of an attempt's primary; None before it has one."""
    rows = store.replicas(key.uid, key.attempt)
    return next((row.task_name for row in rows if row.role == Role.PRIMARY.value), None)


def _read_report(engine: Engine, key: AttemptKey, task: str) -> StepsMade | None:
    return steps_made(engine.read_steps(key, task)) if isinstance(engine, SupportsSteps) else None


def _read_usage(engine: SupportsUsage, key: AttemptKey, task: str) -> StepsMade | None:
    return steps_in_usage(engine.read_usage(key), task)
