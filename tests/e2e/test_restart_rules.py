"""What is tried again, how often, and of what a job has failed when it is not."""

import os
import re
import signal

import pytest

from e2e import fleet
from e2e.altered_server import altered
from e2e.chaos import check_doctor, records
from e2e.support import custom_job, good, native, processes_of, serving, submit, wait_until
from examples.cluster import needs

pytestmark = pytest.mark.slow

CONFIG = "[restarts]\nuser = 2\ninfra = 1\n"

#: Dies of a signal as often as its argument says, and succeeds after that.
DIES = """\
import os, signal
attempt = int(os.environ["TRAINSHED_ATTEMPT"])
print("attempt", attempt, flush=True)
if attempt <= {times}:
    os.kill(os.getpid(), signal.{signal})
"""
SLEEPS = "import os, time; print('pid', os.getpid(), flush=True); time.sleep(7200)"

#: Takes memory until somebody minds; nothing in it can be swapped or shared.
GREEDY = """\
import os
taken = []
while True:
    taken.append(os.urandom(1 << 20) * 2)
"""
#: A worker of torchrun: saves when it is told to stop, and goes on from there.
ELASTIC = """\
import os, sys, time
from trainshed_trainer import latest_checkpoint, notice, save_atomically
notice()
rank, world = os.environ["RANK"], os.environ["WORLD_SIZE"]
found = latest_checkpoint(pattern=f"rank{rank}-*")
print("rank", rank, "of", world, "from", found and found.name, flush=True)
while found is None:
    time.sleep(0.05)
    if notice():
        path = os.path.join(os.environ["AIP_CHECKPOINT_DIR"], f"rank{rank}-5")
        save_atomically(path, lambda out: out.write(b"weights"))
        sys.exit(143)
"""
TORCHRUN = ["python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("restarts") / "data", config=CONFIG) as server:
        fleet.make_bucket(server)
        yield server
        check_doctor(server)


def failed(server, name):
    """A job that has failed: what the native API and Google's say."""
    end = fleet.ended(server, name)
    assert end["state"] == "FAILED", fleet.story_text(server, name)
    return end, good(server.call("GET", f"/v1/{name}"))["error"]


def dies(times, signame="SIGSEGV"):
    return DIES.format(times=times, signal=signame)


def test_a_program_that_a_signal_ends_is_tried_again_within_its_budget(server):
    lucky = submit(server, custom_job("lucky", dies(2)))
    unlucky = submit(server, custom_job("unlucky", dies(9)))
    end = fleet.ended(server, lucky)
    assert (end["state"], end["attempt"]) == ("SUCCEEDED", 3), fleet.story_text(server, lucky)
    assert end["restarts"] == {"maintenance": 0, "infra": 0, "user": 2}
    assert fleet.output_lines(server, lucky) == ["attempt 1", "attempt 2", "attempt 3"]
    again = [event["message"] for event in fleet.story(server, lucky, "RESTARTING")]
    assert all("SIGSEGV" in message for message in again)
    assert [message[-10:] for message in again] == ["attempt 2.", "attempt 3."]

    end, error = failed(server, unlucky)
    assert (end["attempt"], end["restarts"]["user"]) == (3, 2)
    assert error["code"] == 3
    assert "workerpool0-0 exited with a non-zero status of 139 (SIGSEGV)" in error["message"]
    assert "error" not in good(server.call("GET", f"/v1/{lucky}")), "of its early attempts"


@pytest.mark.parametrize(
    "status",
    [1, pytest.param(2, marks=pytest.mark.full), pytest.param(128, marks=pytest.mark.full)],
)
def test_a_program_that_says_that_it_failed_is_not_tried_again(server, status):
    name = submit(server, custom_job(f"exit-{status}", f"raise SystemExit({status})"))
    end, error = failed(server, name)
    assert end["attempt"] == 1
    assert f"non-zero status of {status}." in error["message"]


def test_who_may_not_run_twice_does_not_for_a_signal_either(server):
    document = custom_job("once", dies(1))
    document["jobSpec"]["scheduling"] = {"disableRetries": True}
    end, error = failed(server, submit(server, document))
    assert end["attempt"] == 1
    assert "SIGSEGV" in error["message"]


def test_a_killed_supervisor_takes_its_replicas_along_and_counts_as_a_loss(server):
    name = submit(server, custom_job("lost", SLEEPS, workers=1))
    for attempt in (1, 2):
        fleet.running(server, name, attempt)
        (began,) = records(
            server.data_dir / "jobs" / native(server, name)["uid"] / str(attempt), "Began"
        )
        replicas = {pid for pid, _ in processes_of(server)} - {server.pid, began["pid"]}
        assert replicas
        os.kill(began["pid"], signal.SIGKILL)
        wait_until(lambda gone=replicas: not gone & {pid for pid, _ in processes_of(server)})
    end, error = failed(server, name)
    assert end["restarts"] == {"maintenance": 0, "infra": 1, "user": 0}
    assert error["code"] == 14
    assert "Attempt 2 was lost" in error["message"]
    assert "all 1 restarts are used up" in error["message"]


def test_want_of_memory_is_named_with_the_most_that_was_used(tmp_path):
    with serving(tmp_path / "data", program=altered("little-memory")) as server:
        name = submit(server, custom_job("greedy", GREEDY))
        end, error = failed(server, name)
        assert end["attempt"] == 1, "by default no program is tried again"
        assert error["code"] == 3
        assert re.search(
            r"137 \(SIGKILL\): out of memory; peak memory 6[0-4] MiB\.", error["message"]
        ), error
        (ended,) = fleet.ends_of(server, name, 1).values()
        assert ended["data"]["oom"] is True
        assert 60 << 20 <= ended["data"]["peak_memory_bytes"] <= 64 << 20


@pytest.mark.full
@needs("torch")
def test_torchrun_inside_a_job_saves_at_a_notice_and_goes_on(server, tmp_path):
    document = custom_job("elastic")
    spec = document["jobSpec"]
    spec["baseOutputDirectory"] = {"outputUriPrefix": "gs://results/elastic"}
    container = spec["workerPoolSpecs"][0]["containerSpec"]
    container |= {"command": TORCHRUN, "args": ["--no-python", "python", "-c", ELASTIC]}
    container["env"] = [{"name": "TMPDIR", "value": str(tmp_path)}]  # torchrun leaves it full
    name = submit(server, document)
    try:
        for rank in "01":
            fleet.wait_for_words(server, name, f"rank {rank} of 2 from None")
        fleet.maintained(server, name)
    finally:
        fleet.resume(server)
    end = fleet.ended(server, name)
    assert end["state"] == "SUCCEEDED", fleet.story_text(server, name)
    words = "\n".join(fleet.output_lines(server, name))
    assert set(re.findall(r"rank (\d) of 2 from (rank\d-5)", words)) == {
        ("0", "rank0-5"),
        ("1", "rank1-5"),
    }
    (ended,) = fleet.ends_of(server, name, 1).values()
    assert ended["data"]["notice_honoured"], "torchrun hands the signal on"
