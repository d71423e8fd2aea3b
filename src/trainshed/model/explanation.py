"""Why a job waits: the reason, the causes, and a change that would start the job."""

import enum
from dataclasses import dataclass


class Reason(enum.Enum):
    """Why a job waits.  The set is closed: scripts may rely on the names."""

    NOT_LOOKED_AT = "NOT_LOOKED_AT"
    """The scheduler has not considered the job yet; this lasts at most two seconds."""
    QUOTA = "QUOTA"
    """The project's quota of an accelerator in the region is in use."""
    CAPACITY = "CAPACITY"
    """The nodes that could run the job are in use."""
    RESERVED = "RESERVED"
    """The job fits now, but its start would delay the reserved start of an older job."""
    BEHIND_QUEUE = "BEHIND_QUEUE"
    """An older or more urgent job with the same demand already waits."""
    DRAINED = "DRAINED"
    """The nodes that could run the job accept no new replicas."""
    NO_SUCH_NODE = "NO_SUCH_NODE"
    """No node of the fleet could run the job, even if the node were empty."""
    ENGINE_QUEUE = "ENGINE_QUEUE"
    """Other jobs are before it in the queue of its engine."""
    ENGINE_FULL = "ENGINE_FULL"
    """Its engine accepts no more jobs for now; the server submits the job when the engine does."""
    ENGINE_AWAY = "ENGINE_AWAY"
    """Its engine does not answer; the server changes none of its jobs until it does."""
    HELD = "HELD"
    """A user or an administrator has held or suspended it at its engine."""
    PAUSED = "PAUSED"
    """Its study has paused the trial, and resumes it if other trials turn out to be worse."""
    NOT_STARTING = "NOT_STARTING"
    """Its replicas have nodes, but some of them do not start."""
    IMAGE = "IMAGE"
    """A node cannot pull or read an image of the job."""
    VOLUME = "VOLUME"
    """A node cannot attach a volume of the job."""


@dataclass(frozen=True)
class Change:
    """One change of the request that would admit the job at once.

    ``field`` is a model field's value (``accelerator_count``, ``replica_count``, ``region``);
    ``role`` is the group's role name, empty for the whole job.  ``asked`` is the requested value,
    and ``accepted`` the value with which the job would start.
    """

    field: str
    asked: str
    accepted: str
    text: str
    """``would start now with 2 instead of 4 NVIDIA_TESLA_T4``."""
    role: str = ""


@dataclass(frozen=True)
class Explanation:
    """Why a job waits.  The server computes it within two seconds.

    ``message`` is one sentence.  ``blockers`` name the causes: jobs (``projects/P/jobs/J``),
    quotas, nodes.  At most ten are named; the last entry counts the others.
    """

    reason: Reason
    message: str
    blockers: tuple[str, ...] = ()
    change: Change | None = None
    position: int | None = None
    """The job's position in the queue of its engine, from 1; None if the engine reports none."""
    since_s: float | None = None
    """When the reason began, in seconds since 1970; None unless the engine reported it."""
