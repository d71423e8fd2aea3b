"""The documents of a stream's events.  Each also has ``topic``, as the caller wrote it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainshed.service.jobs.job_lists import JobRow
from trainshed.service.jobs.story_answers import JobSummary
from trainshed.service.nodes.node_service import EngineHealth, NodeSummary
from trainshed.wire.native_v1 import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChange(Answer):
    """The event ``queue``: jobs of a project's list that have changed."""

    jobs: Sequence[JobRow]
    """The rows of jobs that are new or have changed; those that have ended have an endTime."""
    gone: Sequence[str]
    """The uids of jobs that were deleted.  A uid that the page does not show means nothing."""
    counts: Mapping[str, int]
    """The number of active jobs by state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange(Answer):
    """The event ``job``: a job has changed, or its reason to wait has."""

    summary: JobSummary | None = None
    """The job; absent if it was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChange(Answer):
    """The event ``log``: a job's log has new lines, or its oldest lines were removed."""

    total: int | None = None
    """The number of its lines; absent for a study, and until those of a long log are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesChange(Answer):
    """The event ``nodes``: nodes or engines have changed."""

    nodes: Sequence[NodeSummary]
    """The nodes that are new or have changed."""
    gone: Sequence[str]
    """The names of nodes that are no longer reported."""
    engines: Sequence[EngineHealth]
    """All engines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyChange(Answer):
    """The event ``study``: trials of a study have changed."""

    trials: Sequence[int]
    """The numbers of the trials that are new, have changed or have new measurements."""
    total: int
    """The number of its trials."""
    states: Mapping[str, int]
    """The number of its trials by state."""
