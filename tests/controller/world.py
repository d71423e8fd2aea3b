"""A world for controllers: a real store, simulated nodes, and time that a test moves."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from databases import new_database
from trainshed.controller import Controller, Pace
from trainshed.engines.several import Engines
from trainshed.launch.names import task_name
from trainshed.lifecycle.deadlines import limits_of
from trainshed.model.attempt import AttemptKey, Phase
from trainshed.model.job import Accelerator, JobSpec, ReplicaGroup, Scheduling
from trainshed.model.launch_plan import Environment, LaunchPlan, ReplicaPlan
from trainshed.model.resources import (
    Claim,
    Demand,
    GroupDemand,
    JobDemand,
    Node,
    NodeState,
    Seat,
)
from trainshed.model.roles import Dialect, Role
from trainshed.model.status import JobState
from trainshed.store.decisions import cancel_step
from trainshed.store.opening import Store, open_store
from trainshed.store.records.jobs import JobKind, JobRecord, NewJob
from trainshed.testing.fake_engine import FakeEngine, Script

START = datetime(2026, 11, 21, tzinfo=UTC)
T4 = "NVIDIA_TESLA_T4"


class Clock:
    """Seconds since the start of the world; every look at it costs a microsecond."""

    def __init__(self):
        self.s = 0.0

    def monotonic(self):
        return self.s

    def now(self):
        return START + timedelta(seconds=self.s)

    def ns(self):
        self.s += 1e-6
        return int(START.timestamp()) * 10**9 + int(self.s * 1e9)


def nodes(count=4, *, gpus=0, slots=8, **more) -> list[Node]:
    has = {T4: gpus} if gpus else {}
    return [Node(name=f"node-{n}", gpus=has, slots=slots, **more) for n in range(count)]


def compose(record: JobRecord, attempt: int, place) -> LaunchPlan:
    """A plan that only names its replicas: nothing reads more of it here."""
    seats = seats_of(place.demand) if isinstance(place, Claim) else place
    return LaunchPlan(
        job_id=record.job.job_id,
        attempt=attempt,
        replicas=tuple(
            ReplicaPlan(
                role=seat.role,
                index=seat.index,
                task_name=task_name(Dialect.AIPLATFORM_V1, seat.role, seat.index),
                argv=("python",),
            )
            for seat in seats
        ),
        environment=Environment(python="python"),
    )


def seats_of(demand: JobDemand) -> list[Seat]:
    """A seat on no node for every replica."""
    return [
        Seat(role=group.role, index=index, node="")
        for group in demand.groups
        for index in range(group.count)
    ]


class World:
    """Everything that outlives a controller."""

    def __init__(
        self,
        folder: Path,
        fleet: list[Node],
        *,
        script: Callable[[AttemptKey, LaunchPlan], Script] = lambda _key, _plan: Script(),
        url: str = "",
        stranger: Phase = Phase.UNKNOWN,
        **traits,
    ):
        self.clock = Clock()
        self.engine = FakeEngine(
            fleet, script=script, monotonic=self.clock.monotonic, stranger=stranger, **traits
        )
        self.store: Store = open_store(url or new_database(folder), self.clock.ns)
        # jobs belong to servers by their uids: one after another, so that each server has some
        self.store._db.new_uid = count(1 << 40).__next__
        self.submitted = 0

    def close(self):
        self.store.close()
        assert self.engine.violations == []

    def controller(self, server="server-a", **more) -> Controller:
        """A server that has just started."""
        started = Controller(
            self.store,
            more.pop("engines", None) or Engines.from_engine(self.engine),
            server=server,
            compose=more.pop("compose", compose),
            clock=self.clock.now,
            monotonic=self.clock.monotonic,
            pace=more.pop("pace", Pace(grace_s=1.0)),
            **more,
        )
        started.lease_once()
        started.fleet_once()
        return started

    def submit(  # noqa: PLR0913 - what jobs of tests differ in
        self, *, replicas=1, gpus=0, priority=0, project="demo", scheduling=None, kind=None
    ) -> int:
        """A job's uid; ``replicas`` are one primary and workers, each with ``gpus``.

        Its limits are what ``scheduling`` says, as submitting would have it.
        """
        self.submitted += 1
        size = Demand(vcpus=4, memory_gb=15.0, gpu_type=T4 if gpus else None, gpu_count=gpus)
        counts = {Role.PRIMARY: 1, Role.WORKER: replicas - 1}
        spec = JobSpec(
            dialect=Dialect.AIPLATFORM_V1,
            display_name=f"job {self.submitted}",
            groups=tuple(
                ReplicaGroup(
                    role=role,
                    count=count,
                    machine_type="n1-standard-4",
                    accelerator=Accelerator(type=T4, count=gpus) if gpus else None,
                )
                for role, count in counts.items()
                if count
            ),
            scheduling=scheduling or Scheduling(priority=priority),
        )
        limits = limits_of(spec.scheduling)
        demand = JobDemand(
            region="us-central1",
            groups=tuple(
                GroupDemand(role=group.role, count=group.count, each=size) for group in spec.groups
            ),
        )
        new = NewJob(
            kind=kind or JobKind.CUSTOM_JOB,
            project=project,
            location="us-central1",
            spec=spec,
            expanded=spec,
            demand=demand,
            creator="tester",
            running_s_max=limits.running_s_max,
            waiting_s_max=limits.waiting_s_max,
        )
        return self.store.add_job(new)[0].uid

    def cancel(self, uid: int) -> bool:
        """What the API does: read, step, and again when the job has moved on."""
        while (step := cancel_step(self.job(uid))) is not None:
            if self.store.apply([step])[0]:
                return True
        return False

    def job(self, uid: int) -> JobRecord:
        record = self.store.job_by_uid(uid)
        assert record is not None
        return record

    def state(self, uid: int) -> JobState:
        return self.job(uid).job.status.state

    def states(self, uids) -> set[JobState]:
        return {self.state(uid) for uid in uids}

    def error(self, uid: int):
        return self.job(uid).job.status.error

    def story(self, uid: int) -> list[str]:
        return [event.kind for event in self.store.events(uid)]

    def messages(self, uid: int) -> str:
        return "\n".join(event.message for event in self.store.events(uid))

    def maintain(self, name: str, notice_s: float = 120.0) -> None:
        assert self.store.set_node_state("fake", name, NodeState.MAINTENANCE, notice_s)

    def resume(self, name: str) -> None:
        assert self.store.set_node_state("fake", name, NodeState.READY)

    def node(self, uid: int) -> str:
        """The node of a job's first replica."""
        return self.store.replicas(uid)[0].node

    def key(self, uid: int) -> AttemptKey:
        return AttemptKey(uid, self.job(uid).attempt)


def go(controller: Controller, rounds: int = 1) -> None:
    """Every step, in the order in which a job meets them."""
    for _ in range(rounds):
        controller.lease_once()
        work(controller)


def work(controller: Controller) -> None:
    """The same while its leases are young."""
    controller.deadlines_once()
    controller.maintain_once()
    controller.schedule_once()
    controller.perform_once()
    controller.observe_once()


def runs(seconds: float | None = None, **more):
    """A script under which every attempt runs so long."""
    return lambda _key, _plan: Script(runs_s=seconds, **more)


def explained(world, uid):
    return world.job(uid).job.explanation
