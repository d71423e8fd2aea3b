"""Records of one write about a job, and of its events, commands and replicas."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from trainshed.lifecycle.events import Command
from trainshed.model.explanation import Explanation
from trainshed.model.resources import Claim, Seat
from trainshed.model.restarts import Cause, Restarts
from trainshed.model.status import JobError, JobState
from trainshed.model.stopping import StopOrder

#: The kind of the event by which an administrator fences an attempt.
FENCED: Final = "FENCED"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """A new event of a job.  ``kind`` is an upper-case word that scripts may match."""

    kind: str
    message: str
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event of a job; ``seq`` ascends in the whole store, ``stamp_ns`` within the job."""

    seq: int
    uid: int
    attempt: int
    stamp_ns: int
    kind: str
    message: str
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCommand:
    """A command that the engine has not confirmed yet; ``seq`` is the order of commands."""

    seq: int
    uid: int
    attempt: int
    kind: Command
    stop: StopOrder | None = None
    """How to perform a STOP; None for the server's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRow:
    """The state of one replica of an attempt, as last observed."""

    role: str
    index: int
    task_name: str
    node: str
    """Empty if the engine has not reported the node."""
    state: str
    """PLACED, RUNNING, SUCCEEDED, FAILED or STOPPED."""
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One atomic write about one job: its new state with events and commands.

    The store applies it only if the row still has ``version``.  Entering PREPARING with ``seats``,
    or ENQUEUED, opens the next attempt (number ``attempt + 1``).  A final state sets ``end_time``.
    ``replicas`` replace the stored rows of the current attempt.
    """

    uid: int
    version: int
    state: JobState
    error: JobError | None = None
    events: tuple[NewEvent, ...] = ()
    commands: tuple[Command, ...] = ()
    seats: tuple[Seat, ...] = ()
    claim: Claim | None = None
    """The claim of an attempt whose nodes the engine chooses; such an attempt has no seats."""
    engine: str = ""
    """The engine of a new attempt; empty for the first engine."""
    placed: tuple[Seat, ...] = ()
    """The seats that the engine reported for the attempt; empty keeps the stored seats."""
    refused: Explanation | None = None
    """Why the engine refused the attempt; the job waits until the engine accepts it."""
    held: Explanation | None = None
    """Why the job is held from now on: it waits until a user resumes it."""
    replicas: tuple[ReplicaRow, ...] | None = None
    owner: str | None = None
    """The server that reconciles the job from now on; None keeps the stored server."""
    server: str | None = None
    """Applied only if this server's lease is valid; None for steps of callers of the API."""
    stop: StopOrder | None = None
    """How to perform the STOP in ``commands``; None for the server's default."""
    restarts: Restarts | None = None
    """The new counts of restarts; None keeps the stored counts."""
    charged: Cause | None = None
    """The cause of the restart that the step begins; None: it begins none."""
    ran_s_max: float | None = None
    """The largest run time, in seconds, of an attempt that leaves RUNNING; None for no limit.

    The server may observe the end of an attempt late.
    """


class CommittedChange(NamedTuple):
    """A committed change of a job, for counters; times are nanoseconds since 1970."""

    uid: int
    project: str
    kind: str
    """The value of its ``JobKind``."""
    state: JobState
    """The state after the change."""
    attempt: int
    """The number of the newest attempt; 0 before the first."""
    at_ns: int
    create_ns: int
    is_study: bool
    is_new: bool = False
    """Whether the change adds the job."""
    placed: int | None = None
    """The number of replicas that got nodes, if the change opens an attempt; 0: a claim."""
    begins_running: bool = False
    ends: bool = False
    """Whether the change ends the job."""
    has_run: bool = False
    """Whether the job has ever been RUNNING."""
    ran_ns: int = 0
    """The time in RUNNING before the change, over all attempts."""
    error: JobError | None = None
    """The error of a job that ends; None for others."""
    charged: Cause | None = None
    """The cause of the restart that the change begins; None: it begins none."""
    notices: tuple[bool, ...] = ()
    """For each replica that its events name and that had a notice: whether it ended in time."""
    trials: tuple[tuple[str, bool], ...] = ()
    """The state of each trial that ends, and whether it was stopped early, of a study's change."""
