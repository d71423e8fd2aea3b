"""A replica over its memory limit has failed by itself; the program's budget has its restart."""

import signal
from dataclasses import replace

import pytest

from k8s.emulator.pods.cgroups import find_parent
from k8s.world import KubernetesWorld
from trainshed.lifecycle.outcome import AttemptFacts, judge
from trainshed.model.resources import Claim, Demand, GroupDemand, JobDemand
from trainshed.model.restarts import Budgets, Cause
from trainshed.model.roles import Role
from trainshed.model.status import JobState
from trainshed.testing.engine_steps import FINAL, eventually, new_key, ready, until
from trainshed.testing.engine_world import WAITS, FakeProgram

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]

KILLED = 128 + signal.SIGKILL
FACTS = AttemptFacts(attempt=1, budgets=Budgets(user=1))
LIMIT_GB = 0.0625


@pytest.fixture
def world(live_cluster, tmp_path):
    world = KubernetesWorld(live_cluster, tmp_path)
    yield world
    world.close()


def test_a_container_that_the_kernel_kills_whole_has_failed(world, live_cluster):
    """As kubelets let the kernel do since 1.28: the warden cannot record the end of its program."""
    engine, key = ready(world, WAITS, WAITS)
    pod = world.pods_of(key)[-1]
    assert "-worker-" in pod["metadata"]["name"]
    live_cluster.runtime.exhaust_memory(pod["metadata"]["uid"], "main")
    observation = until(engine, key, *FINAL)
    assert (observation.outcome.exit_code, observation.fault) == (KILLED, None)
    assert observation.outcome.message.startswith("worker-0 was killed by SIGKILL: out of memory")
    assert judge(JobState.RUNNING, observation, FACTS).charged is Cause.USER
    eventually(lambda: not world.pods_of(key), "the pods are gone")


def test_a_program_that_the_kernel_kills_alone_has_failed(world):
    if find_parent() is None:
        pytest.skip(
            "no memory control group may be made here: run as root, with a writable cgroup2"
        )
    engine, key = world.engine(), new_key()
    plan = world.plan(key, FakeProgram(oom=True))
    demand = Demand(vcpus=1, memory_gb=LIMIT_GB)
    groups = (GroupDemand(role=Role.PRIMARY, count=1, each=demand),)
    claim = Claim(engine=engine.name, demand=JobDemand(region=None, groups=groups))
    engine.launch(key, replace(plan, attempt=key.attempt), claim)
    observation = until(engine, key, *FINAL)
    assert (observation.outcome.exit_code, observation.fault) == (KILLED, None)
    assert judge(JobState.RUNNING, observation, FACTS).charged is Cause.USER
    assert observation.outcome.message.startswith("primary-0 was killed by SIGKILL: out of memory")
