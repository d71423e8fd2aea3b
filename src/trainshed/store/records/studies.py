"""Rows of studies and trials, and one write about a study, as values."""

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
    """A study that has not ended, as a pass over all studies reads it.

    A study is the job of its name, which is never placed and never QUEUED: it is PREPARING until
    its first trial runs.  A trial is a row of its own beside the job that does its work.
    """

    uid: int
    state: JobState
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrial:
    """A trial, and how its job stands."""

    trial: TrialRecord
    """The trial; its ``measurements`` are empty, because they are computed from ``reports``."""
    job_uid: int
    job_name: str
    """The id of its job; ``job`` of the store finds it with ``trial_kind``."""
    job_state: JobState
    job_attempt: int
    job_error: JobError | None = None
    job_start_time: datetime | None = None
    job_end_time: datetime | None = None
    mark: tuple[int, int] = (0, 0)
    """(attempt, mark of the engine) up to which reports are stored."""
    reports: tuple[Report, ...] = ()
    """All that was stored, in the order in which it came, over all attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTrial:
    """A trial that begins, with the job that is to do its work; both are stored at once."""

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
    """One write about one study: all of it, or nothing.

    Applied only if the study's row still has ``version`` and the server's lease is valid.  Writing
    makes the version grow.  ``trials`` replace the stored ones of the same number (never their
    reports).  A final ``state`` sets the end time in the same write.
    """

    uid: int
    version: int
    state: JobState
    server: str | None
    error: JobError | None = None
    start_time: datetime | None = None
    """When the first of its trials began to run; None leaves the stored time."""
    new_trials: tuple[NewTrial, ...] = ()
    trials: tuple[TrialRecord, ...] = ()
    reports: tuple[TrialReports, ...] = ()
    events: tuple[NewEvent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialJob:
    """The job of a trial, as far as its log needs it."""

    number: int
    job_uid: JobUid
    end_time: datetime | None = None
    """When the job ended."""
