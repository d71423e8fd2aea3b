"""Responses of the native API about one job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainshed.model.restarts import Restarts
from trainshed.model.status import JobState
from trainshed.store.records.steps import ReplicaRow
from trainshed.wire.native_v1 import Answer, PredictionScore, TrialSummary, Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyForecast(Answer):
    """Time to the end of a study, and its total cost; 80 % intervals: low, point, high."""

    left_s: Sequence[float]
    """Seconds until its last trial ends."""
    cost: Sequence[float] | None = None
    """The cost of all its trials; None if a price is unknown."""
    currency: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary(Answer):
    """The summary of a job."""

    name: str
    display_name: str
    uid: str
    state: JobState
    attempt: int
    restarts: Restarts | None = None
    creator: str
    create_time: str | None = None
    start_time: str | None = None
    end_time: str | None = None
    error: str | None = None
    replicas: Sequence[ReplicaRow]
    """The replicas of the newest attempt."""
    waiting: Waiting | None = None
    outcome: PredictionScore | None = None
    """The newest attempt compared with its prediction; None without a prediction."""
    is_unscored: bool | None = None
    """True if this comparison is still to come, some seconds after the end; else None."""
    ending: StudyForecast | None = None
    """The forecast of a running study; None until three of its trials have finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExplanation(Answer):
    """Why a job is in its state."""

    name: str
    state: JobState
    message: str
    waiting: Waiting | None = None
    warning: str | None = None
    """A warning that the job requests GPUs, but runs or ran on the CPU."""
    reduction: str | None = None
    """The measured gain of its reducers, or the planned one."""
    steps: str | None = None
    """The step times of its newest attempt; None if the job reported none."""
    outcome: str | None = None
    """The step times compared with their prediction; None without a prediction."""
    goodput: str | None = None
    """The goodput and the cost of a job that has ended; None until some seconds after its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent(Answer):
    """One sentence of a job's story."""

    seq: int
    time: str
    attempt: int
    kind: str
    message: str
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvents(Answer):
    """A job's story, oldest first."""

    events: Sequence[JobEvent]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials(Answer):
    """The trials of a tuning job by number; any other job has none."""

    trials: Sequence[TrialSummary]
