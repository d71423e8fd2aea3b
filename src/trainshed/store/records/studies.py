"""Records of studies and trials, and of one write about a study."""

from dataclasses import dataclass
from datetime import datetime

from trainshed.model.attempt import Report
from trainshed.model.resource_names import JobUid
from trainshed.model.status import JobError, JobState
from trainshed.model.trials import TrialRecord
from trainshed.store.records.jobs import NewJob
from trainshed.store.records.steps import NewEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStudy:
    """A study that has not ended.

    A study is stored as a job that is never placed and never QUEUED: it is PREPARING until its
    first trial runs.  Each trial has its own row, and a job that runs it.
    """

    uid: int
    state: JobState
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrial:
    """A trial, with the state of its job."""

    trial: TrialRecord
    """The trial; its ``measurements`` are empty, because they are computed from ``reports``."""
    job_uid: int
    job_name: str
    """The id of the trial's job, for ``StoredJobs.job``."""
    job_state: JobState
    job_attempt: int
    job_is_held: bool = False
    """Whether the job waits until a user, or the study, resumes it."""
    job_error: JobError | None = None
    job_start_time: datetime | None = None
    job_end_time: datetime | None = None
    mark: tuple[int, int] = (0, 0)
    """(attempt, position in the engine's reports) up to which reports are stored."""
    reports: tuple[Report, ...] = ()
    """All reports of the trial, of all attempts, in the order in which they arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """The result of a trial, and the state and times of its job."""

    trial: TrialRecord
    """The trial without its parameters, measurements, times and reason."""
    job_uid: int
    job_state: JobState
    job_start_time: datetime | None = None
    job_end_time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTrial:
    """A new trial and the job that will run it; both are stored in one write."""

    trial: TrialRecord
    job: NewJob


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReports:
    """The reports of one trial since the last step; ``mark`` replaces the stored mark."""

    number: int
    mark: tuple[int, int]
    reports: tuple[Report, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyStep:
    """One atomic write about one study.

    The store applies it only if the study's row still has ``version`` and the server's lease is
    valid.  The write increments the version.  ``trials`` replace the stored trials of the same
    numbers, but not their reports.  A final ``state`` sets the end time in the same write.
    """

    uid: int
    version: int
    state: JobState
    server: str | None
    error: JobError | None = None
    start_time: datetime | None = None
    """When the first of the study's trials began to run; None keeps the stored time."""
    new_trials: tuple[NewTrial, ...] = ()
    trials: tuple[TrialRecord, ...] = ()
    reports: tuple[TrialReports, ...] = ()
    events: tuple[NewEvent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialJob:
    """The job of a trial, with the fields that reading its log needs."""

    number: int
    job_uid: JobUid
    end_time: datetime | None = None
    """When the job ended."""
