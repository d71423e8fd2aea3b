"""The observed state of a job, which only the controller writes."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trainshed.model.explanation import Explanation
from trainshed.model.job import JobSpec


class JobState(enum.Enum):
    """The states of a job; both dialects have a word for each (docs/sources/gcloud.md 10.3)."""

    QUEUED = "QUEUED"
    ENQUEUED = "ENQUEUED"
    """The job is in its engine's own queue; clients see it as queued."""
    PREPARING = "PREPARING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    """An attempt is being ended so that the next one can begin; clients see the job as running."""
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_final(self) -> bool:
        """Whether the state cannot change any more."""
        return self in FINAL

    @property
    def waits(self) -> bool:
        """Whether the job waits for nodes, in the server's queue or in its engine's."""
        return self in _WAITING


FINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
_WAITING = frozenset({JobState.QUEUED, JobState.ENQUEUED})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """Why a job failed or was cancelled; ``code`` is a google.rpc.Code number."""

    code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The status of a job.

    Times are aware datetimes in UTC; ``end_time`` is set only if the state is final.
    """

    state: JobState = JobState.QUEUED
    create_time: datetime | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    update_time: datetime | None = None
    error: JobError | None = None
    queue_position: int | None = None
    """The position in the queue while the job waits, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job: its identity, its spec, and its observed status."""

    project: str
    location: str
    job_id: str
    spec: JobSpec
    status: JobStatus = field(default_factory=JobStatus)
    etag: bytes = b""
    labels: Mapping[str, str] | None = None
    """The current labels, which a patch may change; None: the labels of the spec."""
    explanation: Explanation | None = None
    """Why a waiting job waits."""
