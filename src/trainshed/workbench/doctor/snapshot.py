"""A snapshot of a data directory, and checks on it, as values."""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainshed.engines.base import LivingProcess
from trainshed.engines.network.leftovers import JobNetworkCounts
from trainshed.model.attempt import AttemptKey, Phase
from trainshed.model.status import FINAL, JobState
from trainshed.store.audit import AuditedTrial
from trainshed.store.clock_jumps import ClockJump
from trainshed.store.records.nodes import NodeRow
from trainshed.store.records.steps import StoredCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """A job's row.  Times are nanoseconds since 1970."""

    uid: int
    name: str
    state: JobState
    attempt: int
    """The number of the newest attempt; 0 before the first."""
    holds: bool
    """Whether the newest attempt holds its places."""
    create_ns: int
    update_ns: int
    end_ns: int | None
    has_error: bool
    is_explained: bool
    """Whether the job has an explanation for waiting."""
    owner: str | None
    """The server that reconciles the job; None if no server does."""
    is_study: bool = False
    """Whether the job is a tuning job; the jobs of its trials have seats, the job itself has
    none."""

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return self.state in FINAL

    @property
    def key(self) -> AttemptKey:
        return AttemptKey(self.uid, self.attempt)

    @property
    def label(self) -> str:
        """The name of the job in findings."""
        return f"{self.name} ({self.uid}/{self.attempt}, {self.state.value})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatFacts:
    """The node of one replica, and its demand."""

    node: str
    engine: str = ""
    """Empty in rows of old versions, which had one engine."""
    vcpus: int = 0
    memory_gb: float = 0.0
    gpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsFacts:
    jobs: Mapping[int, JobFacts] = field(default_factory=dict)
    attempts: Mapping[AttemptKey, tuple[SeatFacts, ...]] = field(default_factory=dict)
    claims: frozenset[AttemptKey] = frozenset()
    """Attempts that an engine's own queue places; their nodes may not be known yet."""
    fenced: frozenset[AttemptKey] = frozenset()
    """Fenced attempts: an administrator has confirmed that no process of them runs."""
    replicas: Mapping[AttemptKey, int] = field(default_factory=dict)
    """The number of rows of replicas."""
    commands: Sequence[StoredCommand] = ()
    trials: Sequence[AuditedTrial] = ()
    nodes: Sequence[NodeRow] = ()
    stamps: Mapping[int, int] = field(default_factory=dict)
    """The time of each job's last event; jobs without events are left out."""
    leases: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """(holder, end in nanoseconds) by the lease's name: ``server:NAME`` or ``scheduler``."""
    buckets: frozenset[str] = frozenset()
    """Buckets that have a project."""
    jumps: Sequence[ClockJump] = ()
    """The jumps of the clock while no server used the database."""
    damage: Sequence[str] = ()
    """Damage that the database reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """The log of one attempt; ``wrong`` has one sentence for each fault in it."""

    first_ns: int | None = None
    last_ns: int | None = None
    lines: int = 0
    is_torn: bool = False
    """Whether its last line has no newline."""
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFacts:
    """The folder of one attempt."""

    path: Path
    is_private: bool = True
    is_held: bool = False
    """Whether the supervisor of the attempt runs."""
    suspended: int | None = None
    """The pid of its supervisor, if that process is suspended."""
    records: tuple[Mapping[str, Any], ...] = ()
    wrong_records: tuple[str, ...] = ()
    log: LogFacts = field(default_factory=LogFacts)

    def has(self, *kinds: str) -> bool:
        """Whether there is a record of one of these kinds."""
        return any(record.get("is") in kinds for record in self.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFacts:
    """The data directory without the folders of attempts."""

    free_bytes: int
    free_files: int | None
    """None where the file system does not count them."""
    open_modes: Mapping[str, int] = field(default_factory=dict)
    """Modes of private files that other users may read, by name."""
    future_s: float = 0.0
    """The seconds by which the newest file is ahead of the clock."""
    buckets: tuple[str, ...] = ()
    """The folders of buckets."""
    old_uploads: tuple[str, ...] = ()
    """Upload sessions that cannot be continued any more."""
    unreadable_notes: tuple[str, ...] = ()
    """Unreadable metadata of objects."""
    wrong_backup: tuple[str, ...] = ()
    """Faults of a backup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The snapshot.  Parts that could not be read are empty, and ``unseen`` has the reason."""

    now_ns: int
    machine: str
    """The name of this machine as a node."""
    server_pid: int | None
    """The pid of the data directory's server; None if no server runs."""
    files_max: int
    """The number of files that the server, or a new one, may have open."""
    rows: RowsFacts = field(default_factory=RowsFacts)
    folders: Mapping[AttemptKey, FolderFacts] = field(default_factory=dict)
    processes: tuple[LivingProcess, ...] = ()
    networks: JobNetworkCounts = field(default_factory=JobNetworkCounts)
    lost_holder: int | None = None
    """The process that held the server's ports, if it has ended."""
    elsewhere: Mapping[AttemptKey, Phase] = field(default_factory=dict)
    """Attempts of this installation that engines on other machines report."""
    disk: DiskFacts | None = None
    is_backup: bool = False
    """Whether this is a backup, in which neither a server nor a job runs."""
    unseen: Mapping[str, str] = field(default_factory=dict)


class CheckPart(enum.Enum):
    """The parts of a snapshot that a check needs."""

    ROWS = "the database"
    DISK = "the data directory"
    PROCESSES = "the processes"
    ENGINES = "the engines"
    WORK = "what is at work"
    """Always readable; a backup has no running work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """A violation of an invariant.

    ``subject`` is its job, attempt or file, by which repeated findings are recognised.
    """

    subject: str
    text: str
    advice: str
    is_failure: bool = True
    """False for a remark that violates no invariant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """An invariant and the function that checks it.  ``name`` is its id in docs/invariants.md."""

    name: str
    promise: str
    parts: frozenset[CheckPart]
    find: Callable[[Snapshot], Iterable[DoctorFinding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of a check."""

    check: Check
    findings: tuple[DoctorFinding, ...] = ()
    unseen: str = ""
    """Why the check could not run; empty if it ran."""

    @property
    def word(self) -> str:
        """The result as a word: ``ok``, ``noted``, ``FAILED`` or ``unseen``."""
        if self.unseen:
            return "unseen"
        if any(finding.is_failure for finding in self.findings):
            return "FAILED"
        return "noted" if self.findings else "ok"


def check(
    name: str, promise: str, *parts: CheckPart
) -> Callable[[Callable[[Snapshot], Iterable[DoctorFinding]]], Check]:
    """Return a decorator that makes a check of a function over a snapshot."""

    def decorate(find: Callable[[Snapshot], Iterable[DoctorFinding]]) -> Check:
        return Check(name=name, promise=promise, parts=frozenset(parts), find=find)

    return decorate
