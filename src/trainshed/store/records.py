"""What the store keeps, as values: jobs, studies and trials, nodes, pipelines, tokens and keys."""

import enum
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from trainshed.lifecycle.events import Command
from trainshed.model.access import AccessRole
from trainshed.model.attempt import Report
from trainshed.model.explanation import Explanation
from trainshed.model.filters import AllOf, Filter
from trainshed.model.job import JobSpec
from trainshed.model.resource_names import (
    CUSTOM_JOBS,
    JOBS,
    TRIALS,
    TUNING_JOBS,
    AttemptNumber,
    JobUid,
    resource_name,
)
from trainshed.model.resources import Claim, JobDemand, Node, NodeState, Seat, SeatsOrClaim
from trainshed.model.restarts import Restarts
from trainshed.model.roles import Role
from trainshed.model.status import Job, JobError, JobState
from trainshed.model.stopping import StopOrder
from trainshed.model.trials import TrialRecord


class JobKind(enum.Enum):
    """The collections that jobs are listed in; the value is the word in the resource name."""

    ML_JOB = JOBS
    CUSTOM_JOB = CUSTOM_JOBS
    TUNING_JOB = TUNING_JOBS
    TRIAL = TRIALS
    """The job of one trial of an ml v1 job; no client lists them.  The id is ``JOB/trials/N``."""


#: Those of AI Platform: their names have no location.
ML_KINDS: Final = frozenset({JobKind.ML_JOB, JobKind.TRIAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job that was admitted.  ``job_id`` empty lets the store name it after its uid.

    ``expanded`` is the spec with tiers, machines and devices filled in: what is launched.
    ``retry_key`` recognises a client's repetition of one create (docs/sources/gcloud.md 8.3).
    """

    kind: JobKind
    project: str
    location: str
    job_id: str = ""
    spec: JobSpec
    expanded: JobSpec
    demand: JobDemand
    creator: str
    notes: tuple[str, ...] = ()
    """Sentences at the head of its log."""
    events: "tuple[NewEvent, ...]" = ()
    """Its first events, behind the one that says who has submitted it."""
    retry_key: str | None = None
    running_s_max: float | None = None
    """How long it may be RUNNING, all attempts together; no limit if None."""
    waiting_s_max: float | None = None
    """How long it may wait before its first RUNNING; no limit if None.

    A job whose spec ``is_study`` is stored as PREPARING: it is never placed.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job as it is stored.  ``version`` grows with every write of its row."""

    uid: JobUid
    kind: JobKind
    job: Job
    version: int
    attempt: AttemptNumber
    """The number of the newest attempt; 0 before the first."""
    creator: str
    owner: str | None
    """The server that reconciles it while it is active."""
    restarts: Restarts = field(default_factory=Restarts)
    ran_s: float = 0.0
    """How long it has been RUNNING, all attempts together."""
    refusals: int = 0
    """As in ``WaitingJob``."""

    @property
    def name(self) -> str:
        """The name by which clients know the job."""
        job = self.job
        return resource_name(self.kind.value, job.project, job.location, job.job_id)

    @property
    def active(self) -> "Active":
        """What steps need of it."""
        state = self.job.status.state
        return Active(
            uid=self.uid,
            state=state,
            version=self.version,
            attempt=self.attempt,
            restarts=self.restarts,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A queued job, as far as the scheduler needs it."""

    uid: JobUid
    project: str
    priority: int
    create_time: datetime
    demand: JobDemand
    running_s_max: float | None
    version: int
    attempt: AttemptNumber
    name: str = ""
    """Its resource name (``projects/P/jobs/J``), for other jobs' explanations."""
    kind: JobKind = JobKind.CUSTOM_JOB
    wants: Mapping[str, str] = field(default_factory=dict)
    """Its labels that begin with ``trainshed-``: wishes that an engine may know."""
    ran_s: float = 0.0
    """How long it has been RUNNING, all attempts together."""
    refused: datetime | None = None
    """When its engine last did not take it."""
    refusals: int = 0
    """How often that was so since one of its attempts had places."""

    @property
    def running_s_left(self) -> float | None:
        """How long it may still be RUNNING; no limit if None."""
        return None if self.running_s_max is None else max(0.0, self.running_s_max - self.ran_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """An attempt that holds places or a claim (ENQUEUED to RUNNING, RESTARTING or CANCELLING)."""

    uid: JobUid
    project: str
    attempt: AttemptNumber
    demand: JobDemand
    seats: tuple[Seat, ...]
    since: datetime
    running_s_max: float | None
    name: str = ""
    """Its resource name, for other jobs' explanations."""
    kind: JobKind = JobKind.CUSTOM_JOB
    engine: str = ""
    """Empty: the first one."""
    claim: Claim | None = None
    """With it the seats are those that its engine has named, as far as it has."""
    enqueued: bool = False
    """Whether it lies in its engine's own queue."""

    @property
    def place(self) -> SeatsOrClaim:
        """What it is launched with."""
        return self.seats if self.claim is None else self.claim

    @property
    def replicas(self) -> Sequence[Seat]:
        """A seat for every replica; on no node where that is not known."""
        if self.claim is None:
            return self.seats
        seats = {(seat.role, seat.index): seat for seat in self.seats}
        return [seats.get((seat.role, seat.index), seat) for seat in _seatless(self.claim)]


def _seatless(claim: Claim) -> Iterator[Seat]:
    counts = Counter[Role]()
    for group in claim.demand.groups:
        counts[group.role] += group.count
    for role, count in counts.items():
        yield from (Seat(role=role, index=i, node="", engine=claim.engine) for i in range(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """A job with an attempt that this server reconciles."""

    uid: JobUid
    state: JobState
    version: int
    attempt: AttemptNumber
    restarts: Restarts = field(default_factory=Restarts)
    explained: bool = False
    """Whether it is stored why it waits."""


#: The kind of an administrator's word that nothing of an attempt lives.
FENCED: Final = "FENCED"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """One sentence of a job's story.  ``kind`` is an upper-case word that scripts may match."""

    kind: str
    message: str
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What one attempt taught: all of it is written, or nothing."""

    project: str
    key: str
    """Of the trainer and its machines."""
    document: str
    """The calibration from now on."""
    model: str
    machine_type: str
    accelerator: str
    jobs: int
    """How many attempts had taught it before; 0: there was none."""
    content: Mapping[str, object]
    """How its prediction did; empty for an attempt that nothing was predicted of."""
    event: NewEvent | None = None
    """For the story of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOutcome:
    """How the prediction of an attempt did, and where it stands among those of its project."""

    create_ns: int
    uid: int
    attempt: int
    content: Mapping[str, object]

    @property
    def place(self) -> tuple[int, int, int]:
        """Where the next page goes on."""
        return self.create_ns, self.uid, self.attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationHead:
    """Of what jobs of a project have taught: one trainer on one kind of machine."""

    key: str
    jobs: int
    update_ns: int
    model: str
    machine_type: str
    accelerator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCalibration(CalibrationHead):
    """The same with what they have taught."""

    document: str


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCommand:
    """A command that has not been confirmed yet, in the order in which it was given."""

    seq: int
    uid: int
    attempt: int
    kind: Command
    stop: StopOrder | None = None
    """With a STOP: how; the server's own way if None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRow:
    """What is known of one replica of an attempt."""

    role: str
    index: int
    task_name: str
    node: str
    """Empty: its engine has not said it."""
    state: str
    """PLACED, RUNNING, SUCCEEDED, FAILED or STOPPED."""
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One write about one job: its new state with events and commands, or nothing.

    Applied only if the row still has ``version``.  Entering PREPARING with ``seats``, or ENQUEUED,
    opens the next attempt (number ``attempt + 1``); a final state sets ``end_time`` in the same
    write.  ``replicas`` replace what is known of the current attempt's.
    """

    uid: int
    version: int
    state: JobState
    error: JobError | None = None
    events: tuple[NewEvent, ...] = ()
    commands: tuple[Command, ...] = ()
    seats: tuple[Seat, ...] = ()
    claim: Claim | None = None
    """What the attempt holds that an engine is to place; with it the attempt has no seats."""
    engine: str = ""
    """Of the attempt that is opened; empty: the first one."""
    placed: tuple[Seat, ...] = ()
    """Where the engine has placed the current attempt; empty leaves what is known."""
    refused: Explanation | None = None
    """Why the engine did not take the attempt; the job waits for that."""
    replicas: tuple[ReplicaRow, ...] | None = None
    owner: str | None = None
    """The server that reconciles the job from now on; None leaves it."""
    server: str | None = None
    """Applied only while this server's lease is valid; None for callers of the API."""
    stop: StopOrder | None = None
    """How the STOP among the commands is to be performed."""
    restarts: Restarts | None = None
    """The counts from now on; None leaves them."""
    ran_s_max: float | None = None
    """How long the attempt that leaves RUNNING has run at the most: it may be long since it ended,
    and nobody may have looked.  None: until now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """One page of a list: newest first."""

    project: str
    kind: JobKind
    location: str | None = None
    filter: Filter = field(default_factory=AllOf)
    page_size: int = 100
    after: tuple[int, int] | None = None
    """(create time in ns, uid) of the last row of the page before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A job whose time to wait or to run is over, by the clock of the store."""

    uid: int
    state: JobState
    version: int
    attempt: int
    has_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node as an engine last reported it."""

    engine: str
    node: Node
    seen_time: datetime
    replicas: int = 0
    """Replicas that hold a place on it."""
    notice_s: float | None = None
    """In MAINTENANCE: the seconds of notice that replicas get."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStateRow:
    """What an administrator has said of a node that is not READY."""

    engine: str
    name: str
    state: NodeState
    notice_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A training pipeline: the caller's document around a real job (docs/sources/vertex.md 4.4).

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
    model_id: str = ""
    """Of its model's row; empty where it has none."""
    model_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewModel:
    """A version of a model.  ``model_id`` empty lets the store name it after its own number."""

    project: str
    location: str
    model_id: str = ""
    document: str
    """Its Model as JSON text, without what the server writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """A version of a model that is there.  ``pipeline_uid`` is None for one that was uploaded."""

    uid: int
    project: str
    location: str
    model_id: str
    version: int
    document: str
    pipeline_uid: int | None
    create_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A long-running operation; all are over before they are answered."""

    name: str
    project: str
    done: bool
    create_time: datetime
    made: str = ""
    """The full name of the version of a model that it made; empty for a delete."""


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
    expire_time: datetime | None = None
    """None: it does not end by itself."""
    last_use_time: datetime | None = None
    """To the minute; None: nobody used it yet."""
    bucket: str | None = None
    """The bucket, or ``*`` for all, that it opens and nothing else; None: no such bound."""
    parent: str | None = None
    """The id of the token or key whose holder made it: what ends that one ends this one."""


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
class OpenStudy:
    """A study that is not over: what a pass over all of them begins with.

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
    """Its ``measurements`` are left empty: ``reports`` has what they are made of."""
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
    """What one trial has reported since; ``mark`` replaces the stored one."""

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
    """When the first of its trials began to run; None leaves what is known."""
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
