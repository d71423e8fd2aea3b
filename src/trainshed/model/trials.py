"""The trials of a study, with their reports and measurements."""

import enum
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from trainshed.model.status import JobState

#: A parameter's value: a number for DOUBLE, DISCRETE and INTEGER (whole), a text for CATEGORICAL.
Value = float | int | str
Values = tuple[tuple[str, Value], ...]

#: The kind of the event of a study that stops a trial early; its data are an ``EarlyStop`` with
#: ``trial``, the number of the trial.
TRIAL_STOPPED_EARLY: Final = "TRIAL_STOPPED_EARLY"
#: The kind of the event of a study that pauses a trial; its data are those of TRIAL_STOPPED_EARLY.
TRIAL_PAUSED: Final = "TRIAL_PAUSED"
#: The kind of the event of a study that resumes a paused trial; its data has its number.
TRIAL_RESUMED: Final = "TRIAL_RESUMED"
#: The kinds of the events with which a trial begins and ends; their data has its number.
TRIAL_CREATED: Final = "TRIAL_CREATED"
TRIAL_ENDED: Final = "TRIAL_ENDED"
#: The key of the seconds that the search for new points took, in the first of their events.
SUGGEST_S: Final = "suggest_s"

#: From this number on, Python writes whole floats with an exponent and without a point.
_WHOLE_MAX: Final = 1e16


class TrialState(enum.Enum):
    """The states of a trial; there is no FAILED (docs/sources/vertex.md 8)."""

    REQUESTED = "REQUESTED"
    """The trial will be created; it has no values yet."""
    ACTIVE = "ACTIVE"
    """The trial has values and a job, which waits or runs."""
    PAUSED = "PAUSED"
    """The trial waits at a rung without a running job: the study resumes it from its checkpoint if
    it becomes one of the best of the rung, or ends it as one that was stopped early."""
    STOPPING = "STOPPING"
    """The trial is being stopped early, with its job."""
    SUCCEEDED = "SUCCEEDED"
    """The trial has a final measurement."""
    INFEASIBLE = "INFEASIBLE"
    """The trial has ended without a final measurement; ``infeasible_reason`` says why."""

    @property
    def is_final(self) -> bool:
        """Whether the state cannot change any more."""
        return self is TrialState.SUCCEEDED or self is TrialState.INFEASIBLE


class TrialOrigin(enum.Enum):
    """Why a trial has its values."""

    SEARCH = "SEARCH"
    """The study's algorithm chose them."""
    FIRST_POINT = "FIRST_POINT"
    """The caller wanted this point to be tried before the search."""
    DEFAULTS = "DEFAULTS"
    """The first trial of a study, with the default values of its parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The metrics of one step, only finite ones: (metric id, value)."""

    step: int = 0
    elapsed_s: float = 0.0
    metrics: tuple[tuple[str, float], ...] = ()

    def value(self, metric_id: str) -> float | None:
        """Return the value of a metric, if it was measured."""
        for name, value in self.metrics:  # quicker than a generator: searches ask for all trials
            if name == metric_id:
                return value
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStop:
    """The evidence for which a rule stops or pauses a trial: ``value`` is worse than ``bar``."""

    rule: str
    """The word of the rule: ``median``, ``decay_curve``, ``convex`` or ``asha``."""
    metric: str
    value: float
    """Of the trial: its best value (median), its chance to become the best one (decay_curve, 0 to
    1), its most optimistic last value (convex), or its best value up to the rung (asha)."""
    bar: float
    """What ``value`` was compared with: the median of the completed trials' averages, the least
    chance, the best trial's value, or the value of the last trial that the rung lets through."""
    at: float
    """The last step, or second, of the trial at that time."""
    by_time: bool = False
    """Whether ``at`` is in seconds since the trial began, and not a step."""
    reason: str
    """The sentence that says this."""
    rung: int | None = None
    """The number of the rung, from 1, at which ``asha`` stopped it; None for the other rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenLimit:
    """A limit that the result of a trial does not meet."""

    metric: str
    value: float | None = None
    """None if the trial has no value of the metric."""
    threshold: float
    reason: str
    """The same in words, as in ``size 0.71 > 0.6``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """A trial as it is stored.  ``measurements`` ascend by (step, elapsed time)."""

    number: int
    """The number of the trial in its study, from 1; each number is used once."""
    state: TrialState = TrialState.ACTIVE
    values: Values = ()
    """The values in the order of the study's parameters; inactive parameters are absent."""
    measurements: tuple[Measurement, ...] = ()
    final: Measurement | None = None
    """Set only in state SUCCEEDED; a prediction may replace it for a trial that was stopped
    early."""
    infeasible_reason: str | None = None
    stopped_early: bool = False
    """Whether a stopping rule has ended the trial; the state may still be SUCCEEDED."""
    paused_at: int | None = None
    """The last step of the trial when it was last paused, also after it was resumed: no rung up to
    it stops the trial again.  None: it was never paused."""
    start_time: datetime | None = None
    """When the job of the trial first ran."""
    end_time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialView:
    """A trial as clients see it: with its measurements, and its job."""

    trial: TrialRecord
    job_name: str
    """The full resource name of its job; empty where clients cannot ask for it (ml v1)."""
    job_state: JobState


def text_of(value: Value) -> str:
    """Return a value as a program's command line and ml v1 have it.

    Whole numbers have no point (``32``), others their shortest form.  A negative one never has an
    exponent: Python's argparse takes ``-1e-05`` for the name of an option.
    """
    if not isinstance(value, float):
        return str(value)
    if value.is_integer() and abs(value) < _WHOLE_MAX:
        return str(int(value))
    return f"{Decimal(repr(value)):f}" if value < 0 else repr(value)


def format_short(value: Value) -> str:
    """Format a value with six significant digits; whole numbers keep all of theirs."""
    is_fraction = isinstance(value, float) and not value.is_integer()
    return f"{value:.6g}" if is_fraction else text_of(value)


def format_count(count: int) -> str:
    """Return a number of trials in words, as in ``1 trial`` and ``4 trials``."""
    return "1 trial" if count == 1 else f"{count} trials"
