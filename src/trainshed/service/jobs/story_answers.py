"""What the native API answers of one job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainshed.model.restarts import Restarts
from trainshed.model.status import JobState
from trainshed.store.records.steps import ReplicaRow
from trainshed.wire.native_v1 import Answer, PredictionScore, TrialSummary, Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyForecast(Answer):
    """When a study will be over, and what it will have cost; 80 % intervals: low, point, high."""

    left_s: Sequence[float]
    """Until its last trial is over."""
    cost: Sequence[float] | None = None
    """Of all its trials by the catalog's prices, where one is known."""
    currency: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary(Answer):
    """A job in short."""

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
    """Those of the newest attempt."""
    waiting: Waiting | None = None
    outcome: PredictionScore | None = None
    """How its newest attempt compares with what was predicted of it, where something was."""
    ending: StudyForecast | None = None
    """When a study that is not over will be, from three finished trials on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExplanation(Answer):
    """Why a job is where it is."""

    name: str
    state: JobState
    message: str
    waiting: Waiting | None = None
    warning: str | None = None
    """That it runs, or ran, on the CPU though it asks for GPUs."""
    reduction: str | None = None
    """What its reducers came to, or are to come to."""
    steps: str | None = None
    """What the steps of its newest attempt came to, of a job that reported them."""
    outcome: str | None = None
    """How that compares with what was predicted, where something was."""


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
