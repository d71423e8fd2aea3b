"""What the store's contract is written with: a clock moved by hand, jobs, studies, and steps."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import insert, select

from trainshed.lifecycle.events import Command
from trainshed.model.attempt import Report
from trainshed.model.job import JobSpec
from trainshed.model.resources import Claim, Demand, GroupDemand, JobDemand, Seat
from trainshed.model.roles import Dialect, Role
from trainshed.model.status import JobState
from trainshed.model.study import Metric, ParameterKind, ParameterSpec, StudySpec, TrialSpec
from trainshed.model.trials import TrialRecord, TrialState
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind, JobRecord, NewJob
from trainshed.store.records.steps import NewEvent, Step
from trainshed.store.records.studies import NewTrial, StoredTrial, StudyStep, TrialReports
from trainshed.store.records.usage import UsageRow
from trainshed.store.tables import JOBS
from trainshed.store.writer import Transaction

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
CLAIM: Final = Claim(
    engine="cluster",
    demand=DEMAND,
    project=PROJECT,
    running_s_max=3600.0,
    priority=3,
    wants={"trainshed-slurm-partition": "long"},
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
    spec = JobSpec(**{"dialect": Dialect.AIPLATFORM_V1, "display_name": "census", **changes})
    new = NewJob(
        kind=JobKind.CUSTOM_JOB,
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


def fill_queue(store: Store, uid: int, *, jobs: int) -> None:
    """Store so many copies of a waiting job."""

    def copy_row(tx: Transaction) -> None:
        row = tx.connection.execute(select(JOBS).where(JOBS.c.uid == uid)).one()
        copies = [
            {**row._mapping, "uid": uid + place, "job_id": f"copy-{place}"}
            for place in range(1, jobs + 1)
        ]
        tx.connection.execute(insert(JOBS), copies)

    store._db.write(copy_row)


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


def hand_over(store: Store, uid: int, owner: str = SERVER) -> JobRecord:
    """Give a waiting job a claim on the queue of an engine."""
    return go(
        store,
        uid,
        JobState.ENQUEUED,
        claim=CLAIM,
        engine=CLAIM.engine,
        owner=owner,
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


STUDY: Final = StudySpec(
    metrics=(Metric(metric_id="accuracy"),),
    parameters=(ParameterSpec(parameter_id="lr", kind=ParameterKind.DOUBLE, bounds=(0.0, 1.0)),),
    trial_count_max=9,
)


def add_study(store: Store, **changes: Any) -> JobRecord:
    """Store a new study of ml v1; ``changes`` are fields of NewJob or of its spec."""
    defaults = {"kind": JobKind.ML_JOB, "job_id": "tune", "study": STUDY}
    return add(store, **{**defaults, **changes})


def trial_job(number: int, study_id: str = "tune", **changes: Any) -> NewJob:
    """The job of a trial of ml v1."""
    trial = TrialSpec(trial_id=str(number), parameters=(("lr", "0.5"),), study_job_id=study_id)
    defaults = {"kind": JobKind.TRIAL, "job_id": f"{study_id}/trials/{number}", "study": STUDY}
    return new_job(**{**defaults, "trial": trial, **changes})


def vertex_trial_job(number: int) -> NewJob:
    """The job of a trial of Vertex, to which the store gives a name."""
    return trial_job(number, kind=JobKind.CUSTOM_JOB, job_id="")


def trial(number: int, **changes: Any) -> TrialRecord:
    """A trial under way."""
    return replace(TrialRecord(number=number, values=(("lr", 0.5),)), **changes)


def new_trials(*numbers: int) -> tuple[NewTrial, ...]:
    """Trials of ml v1 with their jobs."""
    return tuple(NewTrial(trial=trial(n), job=trial_job(n)) for n in numbers)


def reported(number: int, *values: float, mark: int = 1, attempt: int = 1) -> TrialReports:
    """What a trial has reported, at steps 0, 1, 2 and so on."""
    reports = [Report(tag="accuracy", value=v, step=s) for s, v in enumerate(values)]
    return TrialReports(number=number, mark=(attempt, mark), reports=tuple(reports))


def step_of(store: Store, uid: int, **fields: Any) -> StudyStep:
    """A step from the row as it is now; it stays in its state unless ``fields`` have another."""
    record = read(store, uid)
    defaults = {"version": record.version, "state": record.job.status.state, "server": None}
    return StudyStep(uid=uid, **{**defaults, **fields})


def advance(store: Store, uid: int, **fields: Any) -> Sequence[StoredTrial]:
    """Take a step, which fits; the trials after it."""
    assert store.apply_study(step_of(store, uid, **fields))
    return store.trials(uid)


def ended(number: int) -> TrialRecord:
    """A trial that has come to nothing."""
    return trial(number, state=TrialState.INFEASIBLE, infeasible_reason="it failed")


def end(store: Store, uid: int, state: JobState = JobState.SUCCEEDED) -> None:
    """End a study whose trials have all ended."""
    advance(store, uid, state=state)


#: The day of ``usage_row``, in days since 1970.
USAGE_DAY = 20_778


def usage_row(day: int = USAGE_DAY, **changes: Any) -> UsageRow:
    """The time of the machines of one type on a day."""
    values: dict[str, Any] = {
        "attempt": 1,
        "machine_type": "a2-highgpu-1g",
        "gpus": 2,
        "vcpus": 24.0,
        "placed_ns": 1,
        "end_ns": 2,
        "seconds": {"productive": 60.0, "starting": 4.0},
        "energy_j": 7.0,
        "hour_price": 3.0,
        "currency": "USD",
        "price_source": "list",
        "price_date": "2026-07-30",
    }
    return UsageRow(day=day, **{**values, **changes})
