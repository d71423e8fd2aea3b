"""The store as its users see it.  ``testing.store_contract`` holds every implementation to it.

All calls are synchronous and thread-safe.  A call that writes returns after its commit: what it
has answered survives a SIGKILL of everything.  Times are the store's own clock.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from trainshed.model.explanation import Explanation
from trainshed.model.job import JobSpec
from trainshed.model.resource_names import JobUid
from trainshed.model.resources import JobDemand, Node, NodeState
from trainshed.store.records import (
    Active,
    Due,
    Holding,
    JobQuery,
    JobRecord,
    Kind,
    NewEvent,
    NewJob,
    NodeOrder,
    NodeRow,
    Operation,
    Pipeline,
    ReplicaRow,
    SigningKey,
    Step,
    StoredCommand,
    StoredEvent,
    Token,
    Waiting,
)
from trainshed.store.records_studies import OpenStudy, StoredTrial, StudyStep, TrialJob


class AlreadyThere(Exception):
    """A job of this project has the id already."""


class StaleEtag(Exception):
    """The row has changed since the caller read it."""


class StoreFault(Exception):
    """The database cannot be used now; the message is for the user."""


class Jobs(Protocol):
    """What use cases ask about jobs."""

    def add_job(self, new: NewJob) -> tuple[JobRecord, bool]:
        """Store a new job: QUEUED or, for a study, PREPARING.

        False with the first one's record for a known ``retry_key``, which is remembered for ten
        minutes.  Raises AlreadyThere.
        """

    def job(self, project: str, kind: Kind, job_id: str) -> JobRecord | None:
        """The job of a name, unless there is none or it was deleted."""

    def job_by_uid(self, uid: int) -> JobRecord | None:
        """The job of a uid, also a deleted one."""

    def jobs_by_uid(self, uids: Collection[int]) -> Mapping[int, JobRecord]:
        """The same for many; what is not there is left out."""

    def expanded(self, uid: int) -> JobSpec:
        """The spec to launch.  Raises KeyError."""

    def demand(self, uid: int) -> JobDemand:
        """What must be free at once for it to begin.  Raises KeyError."""

    def notes(self, uid: int) -> tuple[str, ...]:
        """What the job is to be told in its log."""

    def list_jobs(self, query: JobQuery) -> Sequence[JobRecord]:
        """At most ``page_size`` jobs, newest first."""

    def queue_position(self, uid: int) -> int | None:
        """How many waiting jobs stand before it, by priority and age; None if it does not wait."""

    def set_labels(self, uid: int, labels: Mapping[str, str], etag: bytes | None) -> JobRecord:
        """Replace the labels.  Raises StaleEtag where an etag is given and is not the row's."""

    def delete_job(self, uid: int) -> None:
        """Hide a final job from names and lists, a study with its ml v1 trials; its story stays."""

    def apply(self, steps: Sequence[Step]) -> Sequence[bool]:
        """Perform each step that still fits its row, all in one transaction; say which did."""

    def add_event(self, uid: int, event: NewEvent) -> None:
        """Add a sentence to a job's story without changing its state."""

    def events(self, uid: int, *, after: int = 0, limit: int = 1000) -> Sequence[StoredEvent]:
        """The job's story in order, from behind ``after`` (a seq)."""

    def replicas(self, uid: int, attempt: int | None = None) -> Sequence[ReplicaRow]:
        """The replicas of an attempt, by default the newest one's."""

    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many jobs there are by (project, state)."""


class Work(Protocol):
    """What the controller asks."""

    def join(self, server: str, ttl_s: float) -> None:
        """Take or renew a server's lease."""

    def servers(self) -> Sequence[str]:
        """The servers whose lease is valid, in the order of their names."""

    def leave(self, server: str) -> None:
        """Give the lease back; what the server owned is free at once."""

    def lead(self, server: str, ttl_s: float) -> bool:
        """Take or renew the one scheduler's lease; False while another server holds it."""

    def take_over(self, server: str) -> Sequence[int]:
        """Own every active job whose owner is dead or nobody; their uids."""

    def waiting(
        self, *, limit: int, after: tuple[int, int, int] | None = None
    ) -> Sequence[Waiting]:
        """Queued jobs by priority, then age; ``after`` is (priority, create ns, uid)."""

    def unexplained(self, *, limit: int) -> Sequence[tuple[int, int, int]]:
        """Queued jobs that have no explanation yet, oldest first: (priority, create ns, uid)."""

    def waiting_count(self) -> int:
        """How many jobs are queued."""

    def holding(self) -> Sequence[Holding]:
        """Every attempt that holds places, of all servers."""

    def holding_changed(self, after: int) -> tuple[int, Sequence[Holding], Sequence[int]]:
        """What changed behind a mark: (new mark, attempts that came, uids that hold no more).

        Among the last are jobs that never held any: they were cancelled while they waited.
        """

    def active(self, server: str, *, uids: Collection[int] | None = None) -> Sequence[Active]:
        """The jobs that this server reconciles, or those of them that are named."""

    def commands(
        self, server: str, *, limit: int = 500, uids: Collection[int] | None = None
    ) -> Sequence[StoredCommand]:
        """Unconfirmed commands of the jobs this server owns, oldest first; also of named ones."""

    def confirm(self, seqs: Collection[int]) -> None:
        """Mark commands as performed."""

    def explain(self, found: Mapping[int, Explanation]) -> None:
        """Remember why jobs wait; does not change their versions or etags."""

    def see_nodes(self, engine: str, nodes: Sequence[Node]) -> None:
        """Remember an engine's fleet as it is now; a state set by ``set_node_state`` wins."""

    def set_node_state(self, name: str, state: NodeState, notice_s: float | None = None) -> bool:
        """Drain a node, or take it back; False where there is none.  The notice: MAINTENANCE's."""

    def node_orders(self) -> Sequence[NodeOrder]:
        """The nodes that are not READY because somebody has said so."""

    def due(self, *, limit: int) -> Sequence[Due]:
        """Jobs whose time to wait or to run is over, the longest first."""

    def expired(self, *, ended_before: datetime, limit: int) -> Sequence[JobUid]:
        """Jobs that ended before a time, deleted ones too, oldest first: their uids.

        Left out are those with a command that is still to be performed: something may live.
        """

    def forget(self, uids: Collection[int]) -> None:
        """Drop final jobs with all that is known of them, and the pipelines around them.

        Others are left alone, and those with a command that is still to be performed.
        """

    def nodes(self) -> Sequence[NodeRow]:
        """All nodes that were seen, with what is on them."""

    def fleet(self) -> Sequence[Node]:
        """The nodes alone: nothing is counted, so it may be asked every second."""


class Rest(Protocol):
    """Pipelines, operations, projects, buckets, tokens."""

    def add_pipeline(self, new: NewJob, document: str, task_definition: str) -> Pipeline:
        """Store a pipeline and its child job in one write; honours the child's ``retry_key``."""

    def pipeline(self, project: str, uid: int) -> tuple[Pipeline, JobRecord] | None:
        """A pipeline and its child."""

    def list_pipelines(self, query: JobQuery) -> Sequence[tuple[Pipeline, JobRecord]]:
        """Newest first; ``query.kind`` is not looked at, states are the child's."""

    def delete_pipeline(self, uid: int) -> None:
        """Forget a pipeline; its child stays."""

    def add_operation(self, operation: Operation) -> None:
        """Remember an operation."""

    def operation(self, name: str) -> Operation | None:
        """An operation by its full name."""

    def project(self, id_or_number: str) -> tuple[str, str]:
        """(id, number) of a project; made up at first sight, the number from the id alone."""

    def add_bucket(self, name: str, project: str) -> str:
        """Give a bucket to a project unless it has one; the project it belongs to."""

    def bucket(self, name: str) -> tuple[str, datetime] | None:
        """The project of a bucket, and since when."""

    def buckets(self, project: str) -> Sequence[str]:
        """The buckets of a project."""

    def add_token(self, token: Token) -> None:
        """Keep a token."""

    def token(self, digest: str) -> Token | None:
        """The token of a digest, revoked or not."""

    def tokens(self) -> Sequence[Token]:
        """All tokens, oldest first."""

    def revoke_token(self, token_id: str) -> bool:
        """Make a token worthless; False where there is none of this id."""

    def add_key(self, key: SigningKey) -> None:
        """Register a service account's public key."""

    def keys(self, email: str) -> Sequence[SigningKey]:
        """The keys of a service account."""

    def all_keys(self) -> Sequence[SigningKey]:
        """Every registered key."""

    def remove_key(self, key_id: str) -> bool:
        """Forget a key; False where there is none of this id."""


class Studies(Protocol):
    """What is asked about tuning: studies and their trials (``store.records_studies``)."""

    def open_studies(self) -> Sequence[OpenStudy]:
        """Every study that is not over, oldest first; cheap."""

    def trials(self, uid: int) -> Sequence[StoredTrial]:
        """The trials of a study by number, with their reports and how their jobs stand."""

    def trial_jobs(self, uid: int) -> Sequence[TrialJob]:
        """The jobs of a study's trials by number, without what they reported; cheap."""

    def apply_study(self, step: StudyStep) -> bool:
        """Perform a step if it still fits; False if not, and then nothing of it is done.

        Nothing is done either where it raises: AlreadyThere for a trial or the id of a trial's job
        that is taken, KeyError for a trial that is not there.
        """

    def study_of(self, job_uid: int) -> tuple[int, int] | None:
        """(uid of the study, number of the trial) of a trial's job; None for any other job."""


class StoreBase(Jobs, Work, Rest, Studies, Protocol):
    """All of it."""

    def now(self) -> datetime:
        """The store's time, to the microsecond; it does not jump when the wall clock is set."""

    def clock_skew_s(self) -> float:
        """How far the wall clock, which may have been set, is ahead of the store's time."""

    def close(self) -> None:
        """Finish what was begun, then let go of the database."""
