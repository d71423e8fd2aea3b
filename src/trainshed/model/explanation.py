"""Why a job waits: a reason from a closed set, what blocks it, and what would start it."""

import enum
from dataclasses import dataclass


class Reason(enum.Enum):
    """Why a job waits.  The set is closed: scripts may rely on the names."""

    NOT_LOOKED_AT = "NOT_LOOKED_AT"
    """The scheduler has not come to it yet; never longer than two seconds."""
    QUOTA = "QUOTA"
    """The project's quota of an accelerator in the region is in use."""
    CAPACITY = "CAPACITY"
    """The nodes that could hold it are in use."""
    RESERVED = "RESERVED"
    """It would fit, and would delay an older job's reserved start."""
    BEHIND_QUEUE = "BEHIND_QUEUE"
    """An older or more urgent job of the same demand waits already."""
    DRAINED = "DRAINED"
    """The nodes that could hold it take no new replicas."""
    NO_SUCH_NODE = "NO_SUCH_NODE"
    """No node of the fleet, even empty, can hold it."""
    ENGINE_QUEUE = "ENGINE_QUEUE"
    """Others are before it in the queue of the engine that it was handed over to."""
    ENGINE_FULL = "ENGINE_FULL"
    """Its engine takes no more jobs for now; it is handed over as soon as it does."""
    ENGINE_AWAY = "ENGINE_AWAY"
    """Its engine does not answer; nothing is done about its jobs until it does."""
    HELD = "HELD"
    """A user or an administrator has held or suspended it at its engine."""
    NOT_STARTING = "NOT_STARTING"
    """It has places, and some of its replicas do not come up."""
    IMAGE = "IMAGE"
    """An image cannot be had where it is to run."""
    VOLUME = "VOLUME"
    """A volume cannot be had where it is to run."""


@dataclass(frozen=True)
class Change:
    """One change of the request that would admit the job at once.

    ``field`` is a model field's value (``accelerator_count``, ``replica_count``, ``region``);
    ``role`` the group's role name, empty for the whole job.
    """

    field: str
    asked: str
    accepted: str
    text: str
    """``would start now with 2 instead of 4 NVIDIA_TESLA_T4``."""
    role: str = ""


@dataclass(frozen=True)
class Explanation:
    """Why a job waits, known within two seconds.

    ``message`` is one sentence.  ``blockers`` name the causes: jobs (``projects/P/jobs/J``),
    quotas, nodes; at most ten, the rest counted in the last one.
    """

    reason: Reason
    message: str
    blockers: tuple[str, ...] = ()
    change: Change | None = None
    position: int | None = None
    """Its place in the queue of its engine, where the engine says it; the next one's is 1."""
    since_s: float | None = None
    """Since when that is so, in seconds since 1970, where it was the engine that said it."""
