"""Values of the list of all jobs: which rows a page has, and what a row is."""

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
    TRAINING_PIPELINE = "TRAINING_PIPELINE"
    """With the custom job that does its work: both are one row."""
    TRIAL = "TRIAL"
    """The job of one trial of a study; listed only if the query has this kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobListQuery:
    """One page of the list of all kinds: newest first.  What is empty or None does not filter."""

    project: str | None
    """None: all projects."""
    states: frozenset[JobState] = frozenset()
    kinds: frozenset[ListedKind] = frozenset()
    """Empty: all but ``TRIAL``."""
    creator: str = ""
    label: tuple[str, str | None] | None = None
    """A key with its value, or None for any value."""
    text: str = ""
    """Part of a display name or of an id, in small or capital letters."""
    since: datetime | None = None
    """Created then or later."""
    page_size: int = 100
    after: tuple[int, int] | None = None
    """(create time in ns, uid) of the last row of the page before."""


class JobListRow(NamedTuple):
    """A job of any kind in a list.  A named tuple: a page has thousands of them."""

    uid: int
    name: str
    """Its resource name; of a training pipeline the pipeline's own."""
    display_name: str
    """An AI Platform job has its id here."""
    project: str
    kind: ListedKind
    state: JobState
    reason: str | None
    """Why it waits, if it does and the scheduler has looked at it."""
    attempt: AttemptNumber
    restarts: int
    gpus: Mapping[str, int]
    """GPUs of the whole job by type; of a study those of one trial."""
    replicas: int
    """Of a study those of one trial."""
    node: str
    """The first by name of the nodes of the newest attempt; empty where none is known."""
    nodes: int
    """The number of nodes of the newest attempt."""
    creator: str
    create_ns: int
    start_ns: int | None
    end_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedJob:
    """A job whose log may have lines of a range of time, and when it began and ended, in ns."""

    uid: JobUid
    create_ns: int
    end_ns: int | None
