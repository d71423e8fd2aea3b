"""Rows of jobs, as values: new, stored, waiting, and holding places."""

import enum
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

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
from trainshed.store.records.steps import NewEvent


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
    """A job that was admitted.  If ``job_id`` is empty, the uid becomes its id.

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
    """Sentences at the head of its log."""
    events: "tuple[NewEvent, ...]" = ()
    """Its first events, after the one that names the submitter."""
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
    """How often its engine refused it since one of its attempts had nodes."""

    @property
    def name(self) -> str:
        """The name by which clients know the job."""
        job = self.job
        return resource_name(self.kind.value, job.project, job.location, job.job_id)

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
    """Its labels that begin with ``trainshed-``: wishes that an engine may support."""
    ran_s: float = 0.0
    """How long it has been RUNNING, all attempts together."""
    refused: datetime | None = None
    """When its engine last refused it."""
    refusals: int = 0
    """How often its engine refused it since one of its attempts had nodes."""

    @property
    def running_s_left(self) -> float | None:
        """How long it may still be RUNNING; no limit if None."""
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
    """Its resource name, for other jobs' explanations."""
    kind: JobKind = JobKind.CUSTOM_JOB
    engine: str = ""
    """The name of its engine; empty: the first engine."""
    claim: Claim | None = None
    """With a claim, ``seats`` are those that its engine has reported so far."""
    enqueued: bool = False
    """Whether it waits in its engine's own queue."""

    @property
    def place(self) -> SeatsOrClaim:
        """The seats or the claim for its launch."""
        return self.seats if self.claim is None else self.claim

    @property
    def replicas(self) -> Sequence[Seat]:
        """A seat for every replica; without a node if the engine has not reported it."""
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
    """Whether an explanation is stored."""


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
