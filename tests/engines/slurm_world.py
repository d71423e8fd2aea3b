"""A Slurm engine of a test: its fake cluster, its attempts, and what happens to them."""

import time
from contextlib import closing
from pathlib import Path

import pytest

from engines.fake_slurm import FakeSlurm
from trainshed.engines.base import EngineContext
from trainshed.engines.slurm import attempt as slurm_attempt
from trainshed.engines.slurm import factory, poll
from trainshed.engines.supervise.record import records
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.records import Began, Ended, Ready
from trainshed.model.attempt import AttemptKey, Outcome, Phase, ReplicaExit
from trainshed.model.launch_plan import Environment, LaunchPlan, ReplicaPlan
from trainshed.model.resources import Claim, Demand, GroupDemand, JobDemand
from trainshed.model.roles import Role
from trainshed.model.stopping import StopOrder

KEY = AttemptKey(4611686018427387904, 1)
NAME = f"ts-here-{KEY.uid}"
SECRET = "s3cr3t-of-the-server"
DEADLINE_S = 20.0
ORDER = StopOrder(grace_s=30.0)


@pytest.fixture
def no_spare_time(monkeypatch):
    """What is given up after some seconds is given up at once."""
    monkeypatch.setattr(slurm_attempt, "SPARE_S", 0.0)


def eventually(look):
    deadline = time.monotonic() + DEADLINE_S
    while not (answer := look()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return answer


def claim(project="vision", **more):
    demand = Demand(vcpus=1, memory_gb=1.0)
    groups = (GroupDemand(role=Role.PRIMARY, count=1, each=demand),)
    return Claim(
        engine="slurm", demand=JobDemand(region=None, groups=groups), project=project, **more
    )


def gpu_claim(gpu_type):
    demand = Demand(gpu_type=gpu_type, gpu_count=2)
    groups = (GroupDemand(role=Role.PRIMARY, count=1, each=demand),)
    return Claim(engine="slurm", demand=JobDemand(region=None, groups=groups))


def plan_of(words=("true",), env=None):
    only = ReplicaPlan(
        role=Role.PRIMARY, index=0, task_name="primary-0", argv=tuple(words), env=env or {}
    )
    return LaunchPlan(
        job_id="j", attempt=1, replicas=(only,), environment=Environment(python="/usr/bin/python3")
    )


class World:
    """One installation, one cluster."""

    def __init__(self, folder):
        self.folder, self.slurm, self.engines = folder, FakeSlurm(), []
        self.spool = folder / "spool"
        self.spool.mkdir()

    def engine(self, *, serves=True, **options):
        """As after a restart of the server, or of what only looks."""
        context = EngineContext(
            jobs_dir=self.folder / "data" / "jobs",
            name="slurm",
            installation="here",
            buckets=self.folder / "buckets",
            options={"spool": str(self.spool), "lost_after_s": 0, "poll_s": 0.02, **options},
        )
        environ = {"HOME": "/root", "TOKEN": SECRET, "SLURM_CONF": "/etc/s.conf"}
        engine = factory.make(context, environ=environ, run=self.slurm)
        self.engines.append(engine)
        if serves:
            engine.listen(lambda _: None)
        return engine

    def attempt(self, key=KEY):
        return AttemptFolder(str(self.spool / "here" / "jobs" / str(key.uid) / str(key.attempt)))

    def begin(self, key=KEY, job="1"):
        """What a launcher does when it has the first node."""
        folder = self.attempt(key)
        with Path(folder.path, "claim").open("x", encoding="ascii") as file:
            file.write(f"{job} n1\n")
        self.record(Began(1, 1, "boot"), Ready(("primary-0",)), key=key)

    def record(self, *entries, key=KEY):
        for entry in entries:
            records.append(self.attempt(key).records, entry, durably=False)


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setattr(poll, "FAST_S", 0.02)
    monkeypatch.setattr(poll, "TICK_S", 0.01)
    world = World(tmp_path)
    yield world
    for engine in world.engines:
        with closing(engine):
            pass


def until(engine, *phases, key=KEY):
    return eventually(lambda: [o for o in engine.observe([key]) if o.phase in phases])[0]


def launched(world, job=None, **options):
    engine = world.engine(**options)
    engine.launch(KEY, plan_of(), job or claim())
    until(engine, Phase.WAITING)
    return engine


def begun(world, state="RUNNING"):
    engine = launched(world)
    world.slurm.set("1", state)
    world.begin()
    until(engine, Phase.READY)
    return engine


def exit_of(code=None, signal=None, *, interrupted=False, message="it ended"):
    status = code if code is not None else 128 + signal
    one = ReplicaExit(Role.PRIMARY, 0, "primary-0", code, signal, 1.0, stopped_by_us=interrupted)
    return Ended(Outcome(status, message, (one,), interrupted=interrupted))


def interrupt():
    raise KeyboardInterrupt


def killed_while_it_submits(world):
    """A server that does not live to read what sbatch says."""
    world.slurm.before_answer = interrupt
    with pytest.raises(KeyboardInterrupt):
        world.engine().launch(KEY, plan_of(), claim())
    world.slurm.before_answer = lambda: None


def set_forward(monkeypatch):
    """By 400 days."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 400 * 86_400)


def answers(engine, count):
    """Wait for so many more answers of Slurm, and look at each."""
    until_number = engine._poller.last_answer.number + count
    return eventually(
        lambda: [
            observation
            for observation in engine.observe([KEY])
            if engine._poller.last_answer.number >= until_number
        ]
    )[0]
