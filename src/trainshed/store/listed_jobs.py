"""The query and the rows of the list of all jobs."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from trainshed.model.resource_names import AttemptNumber, JobUid
from trainshed.model.status import JobState


class ListedKind(enum.Enum):
    """The kind of a row in the list of all jobs."""

    AI_PLATFORM_JOB = "AI_PLATFORM_JOB"
    CUSTOM_JOB = "CUSTOM_JOB"
    TUNING_JOB = "TUNING_JOB"
    """A study; one of AI Platform is a training job with hyperparameters."""
    TRAINING_PIPELINE = "TRAINING_PIPELINE"
    """A pipeline and its custom job: both are one row."""
    TRIAL = "TRIAL"
    """The job of one trial of a study; listed only if the query has this kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobListQuery:
    """The query for one page, the newest jobs first; empty and None fields do not filter."""

    project: str | None
    """None for all projects."""
    states: frozenset[JobState] = frozenset()
    kinds: frozenset[ListedKind] = frozenset()
    """Empty for all kinds except ``TRIAL``."""
    creator: str = ""
    label: tuple[str, str | None] | None = None
    """A label's key and value; a value of None matches any value."""
    text: str = ""
    """A part of a display name or id; ignores case."""
    since: datetime | None = None
    """Only jobs created at this time or later."""
    is_open: bool = False
    """Only jobs that have not ended."""
    page_size: int = 100
    after: tuple[int, int] | None = None
    """(create time in ns, uid) of the last row of the previous page."""


class JobListRow(NamedTuple):
    """A job of any kind in a list.  A named tuple: a page has thousands of them."""

    uid: int
    name: str
    """The resource name; for a training pipeline the name of the pipeline, not of its job."""
    display_name: str
    """For a job without a display name, its id."""
    project: str
    kind: ListedKind
    state: JobState
    reason: str | None
    """Why the job waits; None if it does not wait or the scheduler has not considered it yet."""
    attempt: AttemptNumber
    restarts: int
    gpus: Mapping[str, int]
    """The job's GPUs by type; for a study the GPUs of one trial."""
    replicas: int
    """The number of replicas; for a study those of one trial."""
    node: str
    """The first node of the newest attempt, by name; empty if no node is known."""
    nodes: int
    """The number of nodes of the newest attempt."""
    creator: str
    create_ns: int
    start_ns: int | None
    end_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedJob:
    """A job whose log may have lines of a range of time, and its create and end times in ns."""

    uid: JobUid
    create_ns: int
    end_ns: int | None
