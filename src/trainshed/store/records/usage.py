"""Records of the use of machines: the time of attempts by day, and sums of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trainshed.model.job import JobSpec
from trainshed.model.resources import JobDemand
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


class UsingJob(NamedTuple):
    """A job with what is stored of its use of machines."""

    record: JobRecord
    spec: JobSpec
    """The spec that was launched."""
    demand: JobDemand
    events: Sequence[StoredEvent] | None
    """All events in order; None: too many to be read together with those of other jobs."""
    primaries: Mapping[int, str]
    """The task name of the primary replica, by attempt."""


class JobUse(NamedTuple):
    """The rows of a job, which replace all that are stored, and its event if it has a new one."""

    job: JobRecord
    rows: Sequence[UsageRow]
    event: NewEvent | None = None
