"""What the store's contract is written with: a clock that is moved by hand, jobs, and steps."""
# ruff: noqa: S101 - a step that does not fit is a failed test

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from trainshed.lifecycle.events import Command
from trainshed.model.job import JobSpec
from trainshed.model.resources import Demand, GroupDemand, JobDemand, Seat
from trainshed.model.roles import Dialect, Role
from trainshed.model.status import JobState
from trainshed.store.opening import Store
from trainshed.store.records import JobRecord, Kind, NewEvent, NewJob, Step

NS_PER_S: Final = 1_000_000_000
#: 2026-11-21T00:00:00Z
_FIRST_NS: Final = 1_795_219_200 * NS_PER_S

PROJECT: Final = "census"
SERVER: Final = "server-a"
LEASE_S: Final = 30.0
DEMAND: Final = JobDemand(
    region="us-central1",
    groups=(
        GroupDemand(
            role=Role.PRIMARY, count=1, each=Demand(gpu_type="NVIDIA_TESLA_T4", gpu_count=2)
        ),
        GroupDemand(role=Role.WORKER, count=2, each=Demand(vcpus=4, memory_gb=15.0)),
    ),
)
SEATS: Final = (
    Seat(role=Role.PRIMARY, index=0, node="n1"),
    Seat(role=Role.WORKER, index=0, node="n1"),
    Seat(role=Role.WORKER, index=1, node="n2"),
)
PLACED: Final = NewEvent(kind="PLACED", message="placed on 2 nodes", data={"nodes": ["n1", "n2"]})


class HandClock:
    """Nanoseconds since 1970 that stand still until they are moved."""

    def __init__(self) -> None:
        """Begin somewhere in 2026."""
        self.now_ns = _FIRST_NS

    def __call__(self) -> int:
        """The time in ns."""
        return self.now_ns

    def forward(self, seconds: float) -> None:
        """Move it."""
        self.now_ns += int(seconds * NS_PER_S)


def new_job(**changes: Any) -> NewJob:
    """An admitted job of a project; ``changes`` are fields of NewJob or of its spec."""
    of_job = {key: changes.pop(key) for key in list(changes) if key in NewJob.__slots__}
    spec = JobSpec(dialect=Dialect.AIPLATFORM_V1, display_name="census", **changes)
    new = NewJob(
        kind=Kind.CUSTOM_JOB,
        project=PROJECT,
        location="us-central1",
        spec=spec,
        expanded=replace(spec, region="us-central1"),
        demand=DEMAND,
        creator="ada",
    )
    return replace(new, **of_job)


def add(store: Store, **changes: Any) -> JobRecord:
    """Store a new job; its record."""
    record, is_new = store.add_job(new_job(**changes))
    assert is_new
    return record


def read(store: Store, uid: int) -> JobRecord:
    """The job of a uid, which is there."""
    record = store.job_by_uid(uid)
    assert record is not None
    return record


def go(store: Store, uid: int, state: JobState, **fields: Any) -> JobRecord:
    """Take a step from the row as it is now; the record after it."""
    step = Step(uid=uid, version=read(store, uid).version, state=state, **fields)
    assert list(store.apply([step])) == [True]
    return read(store, uid)


def place(store: Store, uid: int, owner: str = SERVER) -> JobRecord:
    """Give a waiting job its seats."""
    return go(
        store,
        uid,
        JobState.PREPARING,
        seats=SEATS,
        owner=owner,
        events=(PLACED,),
        commands=(Command.LAUNCH,),
    )


@contextmanager
def refused(kind: type[Exception]) -> Iterator[None]:
    """Fail unless the block raises; the kit does not need pytest."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def kinds(store: Store, uid: int) -> list[str]:
    """The kinds of a job's events, in order."""
    return [event.kind for event in store.events(uid)]
