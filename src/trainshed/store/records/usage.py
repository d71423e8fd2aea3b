"""Records of the use of machines: the time of attempts by day, and sums of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trainshed.model.job import JobSpec
from trainshed.model.resources import JobDemand
from trainshed.model.roles import Role
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.steps import NewEvent, StoredEvent


class ChangedSeats(NamedTuple):
    """A job that got or released seats, or ended."""

    mark: int
    uid: int
    is_held: bool
    """Whether it holds seats or a claim now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """The time of all machines of one type in an attempt on one day."""

    attempt: int
    machine_type: str
    day: int
    """Days since 1970, in UTC."""
    gpus: int
    """Of all machines of this type, as ``vcpus``."""
    vcpus: float
    placed_ns: int
    end_ns: int | None
    """None: the attempt has not ended."""
    seconds: Mapping[str, float]
    """By use (``model.time_use.HELD_USES``); uses that are absent have none."""
    energy_j: float | None
    """None: not measured."""
    hour_price: float | None
    """The price of an hour of all machines of this type; None without a price."""
    currency: str = ""
    price_source: str = ""
    price_date: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRow:
    """The time of one GPU, or of the machines of one type on a node, in an attempt on one day.

    The rows of a machine type add up to its ``UsageRow``.
    """

    attempt: int
    machine_type: str
    day: int
    """Days since 1970, in UTC."""
    engine: str
    node: str
    """Empty: unknown."""
    gpu: str
    """The UUID; empty for machines without GPUs, and for GPUs that were not measured."""
    gpu_index: int | None
    """The driver's number of the GPU; None: unknown."""
    gpu_type: str
    gpus: int
    """1, or the number of GPUs without a name; 0: machines without GPUs."""
    vcpus: float
    seconds: Mapping[str, float]
    """By use, of one GPU or machine."""
    energy_j: float | None
    hour_price: float | None
    """The price of an hour of this part of the machines; None without a price."""
    currency: str = ""


class AttemptUse(NamedTuple):
    """The time of an attempt until its rows were last written, over all days and machine types."""

    uid: int
    attempt: int
    placed_ns: int
    end_ns: int | None
    """None: the attempt has not ended."""
    held_s: float
    productive_s: float
    idle_s: float
    """Seconds that would count as productive or unknown, in which no GPU ran a kernel."""
    unknown_s: float
    gpu_seconds: float
    """The held time of all GPUs."""
    energy_j: float | None
    """None: not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSum:
    """The sum of rows with one key, size and price."""

    user: str
    """The creator of the job; empty for other keys."""
    key: str | int
    """The project, user, machine type, day or job by which rows were added."""
    machine_type: str
    gpus: int
    vcpus: float
    hour_price: float | None
    currency: str
    price_source: str
    price_date: str
    seconds: Mapping[str, float]
    energy_j: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSum:
    """The sum of rows of one GPU, or of the machines without GPUs of one node, at one price."""

    engine: str
    node: str
    gpu: str
    gpu_index: int | None
    gpu_type: str
    usage: UsageSum


class MachineHolder(NamedTuple):
    """For how long the jobs of a user in a project held a GPU, or a node's machines without."""

    engine: str
    node: str
    gpu: str
    project: str
    user: str
    held_s: float
    """In GPU-seconds; in vCPU-seconds for machines without GPUs."""
    idle_s: float


class UsingReplica(NamedTuple):
    """Where a replica of an attempt ran."""

    attempt: int
    role: str
    task_name: str
    engine: str
    """Empty: the first engine."""
    node: str
    """Empty: unknown."""


class UsingJob(NamedTuple):
    """A job with what is stored of its use of machines."""

    record: JobRecord
    spec: JobSpec
    """The spec that was launched."""
    demand: JobDemand
    events: Sequence[StoredEvent] | None
    """All events in order; None: too many to be read together with those of other jobs."""
    replicas: Mapping[int, Sequence[UsingReplica]]
    """By attempt."""

    def find_primary(self, attempt: int) -> str | None:
        """Return the task name of the primary replica of an attempt; None: unknown."""
        replicas = self.replicas.get(attempt, ())
        primary = Role.PRIMARY.value
        return next((one.task_name for one in replicas if one.role == primary), None)


class JobUse(NamedTuple):
    """The rows of a job, which replace all that are stored, and its event if it has a new one."""

    job: JobRecord
    rows: Sequence[UsageRow]
    event: NewEvent | None = None
    machines: Sequence[MachineRow] = ()
    """The same time by GPU and node."""
