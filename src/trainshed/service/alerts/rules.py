"""Decides which alerts hold, from facts that the server read; each rule is a pure function.

deploy/observability/prometheus/alerts.yml has the same conditions, and more, for Prometheus.
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed.model.texts import format_duration

#: Seconds for which a condition holds before it is an alert.
HUNG_S: Final = 600.0
IDLE_S: Final = 1800.0
STUCK_S: Final = 900.0
LOST_S: Final = 180.0
#: The wait from which a queue with free GPUs counts as stuck.
WAIT_S: Final = 3600.0
#: The part of a disk that must be free.
FREE_PART: Final = 0.1
_PERCENT: Final = 100


class AlertKind(enum.Enum):
    """The conditions; the set is closed."""

    REPLICA_HUNG = "REPLICA_HUNG"
    GPU_HELD_IDLE = "GPU_HELD_IDLE"
    QUEUE_STUCK = "QUEUE_STUCK"
    NODE_LOST = "NODE_LOST"
    DISK_NEARLY_FULL = "DISK_NEARLY_FULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class HungReplica:
    """A replica without progress; ``job`` is the job's full name."""

    project: str
    job: str
    task_name: str
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldGpu:
    """A GPU that a job holds, and the seconds for which the job ran nothing on it."""

    node: str
    gpu: int
    project: str
    job: str
    user: str = ""
    """The creator of the job; empty for calls without a token."""
    idle_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The queue, and since when it has looked stuck; None: it does not."""

    oldest_wait_s: float
    waits_for_capacity: int
    """The number of jobs that wait with the reason CAPACITY."""
    gpus_free: int

    @property
    def looks_stuck(self) -> bool:
        """Whether jobs wait for nodes although GPUs are free."""
        return self.oldest_wait_s > WAIT_S and self.waits_for_capacity > 0 and self.gpus_free > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFacts:
    """All that the rules read.  Times are seconds since 1970."""

    now_s: float
    hung: Sequence[HungReplica] = ()
    held_gpus: Sequence[HeldGpu] = ()
    queue: QueueState | None = None
    stuck_since_s: float | None = None
    """Since when the queue has looked stuck without a break; None: it does not."""
    nodes_seen_s: Mapping[str, float] | None = None
    """When an engine last reported each node."""
    disks: Mapping[str, tuple[int, int]] | None = None
    """The free bytes and the size of each disk, by what is on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A condition that holds."""

    kind: AlertKind
    subject: str
    """What it is about: a replica, a GPU, a node or a disk; unique with ``kind``."""
    message: str
    """What was measured, and what to do next."""
    since_s: float
    """Since when the condition holds, in seconds since 1970."""
    project: str | None = None
    """The project of the job; None: no job is concerned."""
    job: str | None = None
    node: str = ""
    task: str = ""
    """The replica that is concerned."""
    page: str = "/console/"
    """The page of the console that shows it."""


def list_alerts(facts: AlertFacts) -> Sequence[Alert]:
    """Return the alerts that hold, those of the machines first."""
    return [
        *_list_disks(facts),
        *_list_lost_nodes(facts),
        *_list_stuck_queue(facts),
        *_list_idle_gpus(facts),
        *_list_hung(facts),
    ]


def _list_disks(facts: AlertFacts) -> Iterator[Alert]:
    for what, (free, size) in (facts.disks or {}).items():
        if free < size * FREE_PART:
            percent = _PERCENT * free / size
            yield Alert(
                kind=AlertKind.DISK_NEARLY_FULL,
                subject=what,
                message=f"{percent:.1f} % of the disk of the {what} is free: delete old jobs "
                "(trainshed jobs delete JOB) or files of others, or make the disk larger",
                since_s=facts.now_s,
                page="/console/nodes",
            )


def _list_lost_nodes(facts: AlertFacts) -> Iterator[Alert]:
    for node, seen_s in (facts.nodes_seen_s or {}).items():
        if facts.now_s - seen_s >= LOST_S:
            age = format_duration(facts.now_s - seen_s)
            yield Alert(
                kind=AlertKind.NODE_LOST,
                subject=node,
                node=node,
                message=f"no engine has reported {node} for {age}: check that its machine, its "
                "engine and its server run (trainshed doctor)",
                since_s=seen_s,
                page="/console/nodes",
            )


def _list_stuck_queue(facts: AlertFacts) -> Iterator[Alert]:
    queue, since_s = facts.queue, facts.stuck_since_s
    if queue and queue.looks_stuck and since_s is not None and facts.now_s - since_s >= STUCK_S:
        yield Alert(
            kind=AlertKind.QUEUE_STUCK,
            subject="queue",
            message=f"the oldest job has waited for {format_duration(queue.oldest_wait_s)} while "
            f"{queue.gpus_free} GPUs are free: read why (trainshed jobs explain JOB)",
            since_s=since_s,
        )


def _list_idle_gpus(facts: AlertFacts) -> Iterator[Alert]:
    for held in facts.held_gpus:
        if held.idle_s >= IDLE_S:
            gpu = f"GPU {held.gpu} of {held.node}"
            user = held.user or "its owner"
            yield Alert(
                kind=AlertKind.GPU_HELD_IDLE,
                subject=gpu,
                message=f"{held.job} holds {gpu} and has run nothing on it for "
                f"{format_duration(held.idle_s)}: ask {user}, or cancel it (trainshed jobs "
                f"cancel {held.job})",
                since_s=facts.now_s - held.idle_s,
                node=held.node,
                project=held.project,
                job=held.job,
                page="/console/nodes",
            )


def _list_hung(facts: AlertFacts) -> Iterator[Alert]:
    for replica in facts.hung:
        if facts.now_s - replica.since_s >= HUNG_S:
            age = format_duration(facts.now_s - replica.since_s)
            yield Alert(
                kind=AlertKind.REPLICA_HUNG,
                subject=f"{replica.job} {replica.task_name}",
                message=f"replica {replica.task_name} of {replica.job} has shown no progress since "
                f"its hang was reported {age} ago: read the stacks of its threads (trainshed jobs "
                "events JOB)",
                since_s=replica.since_s,
                task=replica.task_name,
                project=replica.project,
                job=replica.job,
            )
