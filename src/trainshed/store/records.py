"""What the store keeps, as values."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trainshed.model.access import AccessRole
from trainshed.model.explanation import Explanation
from trainshed.model.filters import AllOf, Filter
from trainshed.model.job import JobSpec
from trainshed.model.resources import JobDemand, Node, Seat
from trainshed.model.status import Job, JobError, JobState


class Kind(enum.Enum):
    """The collections that jobs are listed in; the value is the word in the resource name."""

    ML_JOB = "jobs"
    CUSTOM_JOB = "customJobs"
    TUNING_JOB = "hyperparameterTuningJobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job that was admitted.  ``job_id`` empty lets the store name it after its uid.

    ``expanded`` is the spec with tiers, machines and devices filled in: what is launched.
    ``retry_key`` recognises a client's repetition of one create (contracts/gcloud.md 8.3).
    """

    kind: Kind
    project: str
    location: str
    job_id: str = ""
    spec: JobSpec
    expanded: JobSpec
    demand: JobDemand
    creator: str
    notes: tuple[str, ...] = ()
    """What the job is told at the head of its log."""
    retry_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job as it is stored.  ``version`` grows with every write of its row."""

    uid: int
    kind: Kind
    job: Job
    version: int
    attempt: int
    """The number of the newest attempt; 0 before the first."""
    creator: str
    owner: str | None
    """The server that reconciles it while it is active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A queued job, as far as the scheduler needs it."""

    uid: int
    project: str
    priority: int
    create_time: datetime
    demand: JobDemand
    running_s_max: float | None
    version: int
    attempt: int
    name: str = ""
    """Its resource name (``projects/P/jobs/J``), for other jobs' explanations."""
    kind: Kind = Kind.CUSTOM_JOB


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """An attempt that holds places now (PREPARING, RUNNING or CANCELLING)."""

    uid: int
    project: str
    attempt: int
    demand: JobDemand
    seats: tuple[Seat, ...]
    since: datetime
    running_s_max: float | None
    name: str = ""
    """Its resource name, for other jobs' explanations."""
    kind: Kind = Kind.CUSTOM_JOB


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """A job with an attempt that this server reconciles."""

    uid: int
    state: JobState
    version: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """One sentence of a job's story.  ``kind`` is an upper-case word that scripts may match."""

    kind: str
    message: str
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """A sentence of a job's story; ``seq`` ascends in the store, ``stamp_ns`` within the job."""

    seq: int
    uid: int
    attempt: int
    stamp_ns: int
    kind: str
    message: str
    data: Mapping[str, object]


class CommandKind(enum.Enum):
    """What an engine is to be asked; performed after the commit, safe to repeat."""

    LAUNCH = "LAUNCH"
    STOP = "STOP"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCommand:
    """A command that has not been confirmed yet, in the order in which it was given."""

    seq: int
    uid: int
    attempt: int
    kind: CommandKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRow:
    """What is known of one replica of an attempt."""

    role: str
    index: int
    task_name: str
    node: str
    state: str
    """PLACED, RUNNING, SUCCEEDED, FAILED or STOPPED."""
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One write about one job: its new state with events and commands, or nothing (DESIGN 5.5).

    Applied only if the row still has ``version``.  Entering PREPARING with ``seats`` opens the
    next attempt (number ``attempt + 1``); a final state sets ``end_time`` in the same write.
    ``replicas`` replace what is known of the current attempt's.
    """

    uid: int
    version: int
    state: JobState
    error: JobError | None = None
    events: tuple[NewEvent, ...] = ()
    commands: tuple[CommandKind, ...] = ()
    seats: tuple[Seat, ...] = ()
    replicas: tuple[ReplicaRow, ...] | None = None
    owner: str | None = None
    """The server that reconciles the job from now on; None leaves it."""
    server: str | None = None
    """Applied only while this server's lease is valid; None for callers of the API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """One page of a list: newest first."""

    project: str
    kind: Kind
    location: str | None = None
    filter: Filter = field(default_factory=AllOf)
    page_size: int = 100
    after: tuple[int, int] | None = None
    """(create time in ns, uid) of the last row of the page before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A training pipeline: the caller's document around a real job (contracts/vertex-sdk.md 4.4).

    Its state is its child's; nothing of it is kept twice.
    """

    uid: int
    project: str
    location: str
    display_name: str
    document: str
    """The caller's TrainingPipeline as JSON text."""
    labels: Mapping[str, str]
    task_definition: str
    child_uid: int
    create_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A long-running operation; deletes are over before they are answered."""

    name: str
    project: str
    done: bool
    create_time: datetime
    metadata: str = "{}"
    response: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A bearer token; the text itself is known to its holder only."""

    token_id: str
    digest: str
    """SHA-256 of the token, in hexadecimal."""
    name: str
    project: str
    role: AccessRole
    create_time: datetime
    revoked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A registered public key of a service account that signs its own tokens."""

    key_id: str
    email: str
    public_key: str
    """PEM."""
    project: str
    role: AccessRole
    create_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node as an engine last reported it."""

    engine: str
    node: Node
    seen: datetime
    replicas: int = 0
    """Replicas that hold a place on it."""


__all__ = [
    "Active",
    "CommandKind",
    "Explanation",
    "Holding",
    "JobQuery",
    "JobRecord",
    "Kind",
    "NewEvent",
    "NewJob",
    "NodeRow",
    "Operation",
    "Pipeline",
    "ReplicaRow",
    "SigningKey",
    "Step",
    "StoredCommand",
    "StoredEvent",
    "Token",
    "Waiting",
]
