"""An allocation that is kept for the next attempt of its job, on a real cluster."""

import os
import sys
import time
from contextlib import closing, contextmanager

import pytest

from e2e import fleet
from e2e.support import good, native, serving, submit, wait_until
from slurm.support import a_job, come_to, table
from slurm.world import options
from trainshed.engines.base import EngineContext
from trainshed.engines.registry import open_engine
from trainshed.model.attempt import AttemptKey, Phase
from trainshed.model.launch_plan import Environment, LaunchPlan, ReplicaPlan
from trainshed.model.resources import Claim, Demand, GroupDemand, JobDemand
from trainshed.model.roles import Role
from trainshed.model.stopping import StopOrder, StopReason

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

HOLD_S = 300
#: Of this many attempts the last one is well.
DIES = """\
import os, pathlib
folder = pathlib.Path({folder!r})
number = len(list(folder.iterdir())) + 1
(folder / str(number)).touch()
print("attempt", number, flush=True)
if number < {attempts}:
    os.kill(os.getpid(), 9)
"""
HANGS = """\
import os, pathlib, time
flag = pathlib.Path({flag!r})
if not flag.exists():
    flag.touch()
    time.sleep(600)
"""


@contextmanager
def keeping(cluster, folder, more="", **settings):
    """A server of which programs that fail are tried again, in the same allocation."""
    text = table(cluster, **{"hold_s": HOLD_S, **settings})
    with serving(folder, config=f"{text}\n[restarts]\nuser = 3\n{more}") as server:
        fleet.make_bucket(server)
        yield server


def claims(cluster, server):
    """The numbers of the jobs of Slurm's that each attempt of its only job has run in."""
    installation = (server.data_dir / "installation").read_text().strip()
    (job,) = (cluster.shared / "spool" / installation / "jobs").iterdir()
    attempts = sorted(int(path.name) for path in job.iterdir())
    return [(job / str(number) / "claim").read_text().split()[0] for number in attempts]


def test_a_program_that_fails_is_tried_again_in_the_same_allocation(cluster, tmp_path):
    marks = cluster.shared / "dies"
    marks.mkdir()
    with keeping(cluster, tmp_path / "data") as server:
        name = submit(server, a_job("dies", DIES.format(folder=str(marks), attempts=3)))
        job = fleet.ended(server, name)
        assert (job["state"], job["attempt"]) == ("SUCCEEDED", 3), fleet.story_text(server, name)
        assert fleet.output_lines(server, name) == ["attempt 1", "attempt 2", "attempt 3"]
        first, *later = claims(cluster, server)
        assert later == [first, first]
        story = fleet.story_text(server, name)
        for number in (1, 2):
            assert f"in the allocation kept from attempt {number} (Slurm job {first})" in story
        cluster.wait_for(lambda: not cluster.jobs())


@pytest.mark.full
def test_a_job_that_hangs_goes_on_in_the_same_allocation(cluster, tmp_path):
    more = "[hangs]\nrestart = true\n"
    with keeping(cluster, tmp_path / "data", more, hang_s=3) as server:
        name = submit(server, a_job("hangs", HANGS.format(flag=str(cluster.shared / "hung"))))
        job = fleet.ended(server, name)
        assert (job["state"], job["attempt"]) == ("SUCCEEDED", 2), fleet.story_text(server, name)
        first, second = claims(cluster, server)
        assert first == second


@pytest.mark.full
def test_a_server_that_is_killed_meanwhile_finds_what_was_kept(cluster, tmp_path):
    """The program fails while no server lives."""
    marks = cluster.shared / "alone"
    marks.mkdir()
    code = f"import time\nprint('began', flush=True)\ntime.sleep(3)\n{DIES}"
    with keeping(cluster, tmp_path / "data") as server:
        name = fleet.begun(server, a_job("alone", code.format(folder=str(marks), attempts=2)))
        server.kill()
        cluster.wait_for(lambda: any(marks.iterdir()))
        server.start()
        job = fleet.ended(server, name)
        assert (job["state"], job["attempt"]) == ("SUCCEEDED", 2)
        first, second = claims(cluster, server)
        assert first == second


@pytest.mark.full
def test_a_node_that_is_to_be_empty_is_not_kept(cluster, tmp_path):
    """The next attempt waits in the queue as any other, elsewhere."""
    marks = cluster.shared / "drained"
    marks.mkdir()
    go = cluster.shared / "go-drained"
    code = (
        f"import os, time\nprint('began', flush=True)\nwhile not os.path.exists({str(go)!r}):\n"
        f"    time.sleep(0.05)\n{DIES}"
    )
    with keeping(cluster, tmp_path / "data") as server:
        name = fleet.begun(server, a_job("drained", code.format(folder=str(marks), attempts=2)))
        wait_until(lambda: native(server, name)["replicas"][0]["node"])  # it may print before
        node = native(server, name)["replicas"][0]["node"]
        cluster.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
        try:
            wait_until(lambda: _state(server, node) == "DRAINED", timeout_s=90)
            go.touch()
            come_to(server, name, "SUCCEEDED")
        finally:
            cluster.run("scontrol", "update", f"nodename={node}", "state=resume")
        first, second = claims(cluster, server)
        assert first != second
        assert native(server, name)["replicas"][0]["node"] != node


def _state(server, node):
    """As an engine has it that starts no attempts on it."""
    rows = good(server.call("GET", "/trainshed/v1/nodes"))["nodes"]
    return next(row["state"] for row in rows if row["name"].endswith(node))


KEY = AttemptKey(4_611_686_018_427_400_000 + os.getpid(), 1)
KILLED = "import os\nos.kill(os.getpid(), 9)"
END = StopOrder(grace_s=1.0, reason=StopReason.END)


def _plan():
    argv = (sys.executable, "-c", KILLED)
    only = ReplicaPlan(role=Role.PRIMARY, index=0, task_name="primary-0", argv=argv)
    environment = Environment(python=sys.executable)
    return LaunchPlan(job_id="j", attempt=1, replicas=(only,), environment=environment)


def _claim():
    demand = Demand(vcpus=1, memory_gb=1.0)
    groups = (GroupDemand(role=Role.PRIMARY, count=1, each=demand),)
    return Claim(engine="slurm", demand=JobDemand(region=None, groups=groups))


@contextmanager
def held(cluster, folder, hold_s):
    """An engine, and an attempt of it that has failed and whose allocation is kept."""
    (cluster.shared / "spool").mkdir(exist_ok=True)
    context = EngineContext(
        jobs_dir=folder / "jobs",
        name="slurm",
        installation=f"held{int(hold_s)}",
        buckets=folder / "buckets",
        options=options(cluster, hold_s=hold_s, poll_s=0.5),
    )
    with closing(open_engine("slurm", context)) as engine:
        engine.launch(KEY, _plan(), _claim())
        cluster.wait_for(lambda: engine.observe([KEY])[0].phase is Phase.ENDED)
        yield engine


def comments(cluster):
    return cluster.jobs("%k")


@pytest.mark.full
def test_squeue_shows_what_is_kept_until_the_job_is_over(cluster, tmp_path):
    with held(cluster, tmp_path, HOLD_S) as engine:
        cluster.wait_for(lambda: comments(cluster) == [f"{KEY} kept"])
        assert [attempt.living for attempt in engine.list_attempts()] == [()]
        engine.stop(KEY, END)
        cluster.wait_for(lambda: not comments(cluster))
        cluster.wait_for(lambda: engine.forget(KEY.uid))


@pytest.mark.full
def test_nothing_is_kept_for_longer_than_it_may(cluster, tmp_path):
    """Also where no server comes back."""
    with held(cluster, tmp_path, 3) as engine:
        engine.close()
        began = time.monotonic()
        cluster.wait_for(lambda: not comments(cluster))
        assert time.monotonic() - began < HOLD_S
