"""Records of jobs: new, stored, waiting, and holding seats or a claim."""

import enum
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from trainshed.model.explanation import Reason
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
from trainshed.model.resources import Claim, JobDemand, Seat, SeatsOrClaim
from trainshed.model.restarts import Restarts
from trainshed.model.roles import Role
from trainshed.model.status import Job, JobState
from trainshed.model.study_start import StudyStart
from trainshed.store.records.steps import NewEvent


class JobKind(enum.Enum):
    """The collections that jobs are listed in; the value is the word in the resource name."""

    ML_JOB = JOBS
    CUSTOM_JOB = CUSTOM_JOBS
    TUNING_JOB = TUNING_JOBS
    TRIAL = TRIALS
    """The job of one trial of an ml v1 job; its id is ``JOB/trials/N``.."""


#: The kinds of AI Platform; their resource names have no location.
ML_KINDS: Final = frozenset({JobKind.ML_JOB, JobKind.TRIAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job that passed admission.  If ``job_id`` is empty, the uid becomes its id.

    ``expanded`` is the spec with tiers, machines and devices filled in; the server launches it.
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
    """Sentences that begin the job's log."""
    events: "tuple[NewEvent, ...]" = ()
    """The job's first events, after the event ACCEPTED."""
    study_start: StudyStart | None = None
    """What a study has before its first trial; None: nothing."""
    retry_key: str | None = None
    running_s_max: float | None = None
    """How many seconds the job may be RUNNING, all attempts together; None for no limit."""
    waiting_s_max: float | None = None
    """How many seconds the job may wait before it is first RUNNING; None for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A stored job.  ``version`` grows with every write of its row."""

    uid: JobUid
    kind: JobKind
    job: Job
    version: int
    attempt: AttemptNumber
    """The number of the newest attempt; 0 before the first."""
    creator: str
    owner: str | None
    """The server that reconciles the job; None while the job holds no seats or claim."""
    restarts: Restarts = field(default_factory=Restarts)
    ran_s: float = 0.0
    """How many seconds the job has been RUNNING, all attempts together."""
    refusals: int = 0
    """How often its engine refused the job since an attempt of the job last had nodes."""

    @property
    def name(self) -> str:
        """The resource name of the job."""
        job = self.job
        return resource_name(self.kind.value, job.project, job.location, job.job_id)

    @property
    def is_held(self) -> bool:
        """Whether the job waits until a user, or its study, resumes it."""
        return self.refusals < 0

    @property
    def is_paused(self) -> bool:
        """Whether the job is held because its study has paused the trial."""
        why = self.job.explanation
        return self.is_held and why is not None and why.reason is Reason.PAUSED

    @property
    def active(self) -> "Active":
        """The fields that a step needs."""
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
    """A queued job, with the fields that the scheduler needs."""

    uid: JobUid
    project: str
    priority: int
    create_time: datetime
    demand: JobDemand
    running_s_max: float | None
    version: int
    attempt: AttemptNumber
    name: str = ""
    """The resource name (``projects/P/jobs/J``), for the explanations of other jobs."""
    kind: JobKind = JobKind.CUSTOM_JOB
    wants: Mapping[str, str] = field(default_factory=dict)
    """The job's labels that begin with ``trainshed-``: wishes that an engine may support."""
    ran_s: float = 0.0
    """How many seconds the job has been RUNNING, all attempts together."""
    refused: datetime | None = None
    """When its engine last refused the job."""
    refusals: int = 0
    """How often its engine refused the job since an attempt of the job last had nodes."""

    @property
    def running_s_left(self) -> float | None:
        """How many more seconds the job may be RUNNING; None for no limit."""
        return None if self.running_s_max is None else max(0.0, self.running_s_max - self.ran_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """An attempt that holds seats or a claim (ENQUEUED to RUNNING, RESTARTING or CANCELLING)."""

    uid: JobUid
    project: str
    attempt: AttemptNumber
    demand: JobDemand
    seats: tuple[Seat, ...]
    since: datetime
    running_s_max: float | None
    name: str = ""
    """The resource name, for the explanations of other jobs."""
    display_name: str = ""
    creator: str = ""
    kind: JobKind = JobKind.CUSTOM_JOB
    engine: str = ""
    """The name of the engine; empty for the first engine."""
    claim: Claim | None = None
    """With a claim, ``seats`` are the seats that the engine has reported so far."""
    enqueued: bool = False
    """Whether the attempt waits in the queue of its engine."""

    @property
    def place(self) -> SeatsOrClaim:
        """The seats, or the claim if there is one."""
        return self.seats if self.claim is None else self.claim

    @property
    def replicas(self) -> Sequence[Seat]:
        """The seats of all replicas; the node is empty until the engine has reported it."""
        if self.claim is None:
            return self.seats
        seats = {(seat.role, seat.index): seat for seat in self.seats}
        return [seats.get((seat.role, seat.index), seat) for seat in _empty_seats(self.claim)]


def _empty_seats(claim: Claim) -> Iterator[Seat]:
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
    """Whether an explanation is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """The query for one page of a list, the newest rows first."""

    project: str
    kind: JobKind
    location: str | None = None
    filter: Filter = field(default_factory=AllOf)
    page_size: int = 100
    after: tuple[int, int] | None = None
    """(create time in ns, uid) of the last row of the previous page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A job that has used up its waiting time or run time, by the clock of the store."""

    uid: int
    state: JobState
    version: int
    attempt: int
    has_run: bool
