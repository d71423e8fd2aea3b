"""Orders for the only node, as an administrator gives them, and what clients see of it."""

import statistics
import subprocess
import time
from pathlib import Path

import pytest

from conformance.gcloud import needs_gcloud
from e2e import fleet
from e2e.chaos import check_doctor, doctor
from e2e.support import custom_job, good, ml_job, native, serving, submit, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
#: Its jobs run without walls (conftest.py).
JOBS_TELL_BY_FILES = True

HERE = Path(__file__).parent
SDK = HERE.parents[1] / ".venv-google" / "bin" / "python"
#: A job that waits says why within two seconds.
PROMISED_S = 2.0
RUNS_ON = "import time; print('began', flush=True); time.sleep(7200)"

#: Ends at once when it is asked to, and succeeds the second time.
TWICE = """\
import os, sys, time
attempt = os.environ["TRAINSHED_ATTEMPT"]
for number in range(50):
    print("attempt", attempt, "line", number, flush=True)
if attempt == "1":
    time.sleep(7200)
"""
#: The same, and waits for a file then.  gcloud looks at nothing that is younger than 5 s, and may
#: leave right at a job's end.
FOLLOWED = (
    TWICE
    + """\
while not os.path.exists({go!r}):
    time.sleep(0.05)
"""
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("orders") / "data") as server:
        fleet.make_bucket(server)
        yield server
        check_doctor(server)


@pytest.fixture(autouse=True)
def node_is_back(server):
    """Whatever became of a test, the next one has its node."""
    yield
    fleet.resume(server)


def test_the_command_waits_until_the_node_is_empty(server):
    name = fleet.begun(server, custom_job("commanded", TWICE), "attempt 1")
    node = fleet.node_of(server)
    words = fleet.trainshed(server, "nodes", "maintain", node, "--notice", "1m", "--wait")
    assert name in words
    assert "1m" in words or "60" in words
    job = native(server, name)
    assert job["state"] == "QUEUED", job
    assert "MAINTENANCE" in fleet.trainshed(server, "nodes", "list")
    fleet.trainshed(server, "nodes", "resume", node)
    assert fleet.ended(server, name)["state"] == "SUCCEEDED"


def test_a_drained_node_takes_nothing_new_and_what_runs_there_runs_on(server):
    old = fleet.begun(server, custom_job("old", RUNS_ON))
    node = fleet.node_of(server)
    fleet.trainshed(server, "nodes", "drain", node)
    times = []
    for number in range(5):
        began = time.monotonic()
        new = submit(server, custom_job(f"new-{number}"))
        waiting = wait_until(
            lambda name=new: fleet.reason(native(server, name)), lambda: "no reason"
        )
        times.append(time.monotonic() - began)
        assert f"{node} is drained" in waiting["message"] or waiting["reason"] == "BEHIND_QUEUE"
    assert statistics.median(times) < PROMISED_S, times
    assert native(server, old)["state"] == "RUNNING"
    fleet.resume(server)
    assert fleet.ended(server, new)["state"] == "SUCCEEDED"
    job = native(server, old)
    assert (job["state"], job["attempt"]) == ("RUNNING", 1)
    fleet.cancel(server, old)


def test_a_node_in_maintenance_breaks_no_promise(server):
    name = fleet.begun(server, custom_job("looked-at", TWICE), "attempt 1")
    fleet.maintained(server, name)
    code, failures = doctor(server)
    assert code == 0, failures
    fleet.resume(server)
    assert fleet.ended(server, name)["attempt"] == 2


@pytest.mark.full
@needs_gcloud
@pytest.mark.skipif(not SDK.exists(), reason="no Vertex SDK is installed; make test installs it")
def test_googles_clients_ride_through_and_print_every_line_once(server, gcloud_at, tmp_path):
    go, printed = tmp_path / "go", tmp_path / "printed"
    followed = fleet.begun(server, ml_job("followed", FOLLOWED.format(go=str(go))), "attempt 1")
    with (
        fleet.ended_after(start_sdk(server)) as sdk,
        fleet.ended_after(follow(server, gcloud_at, printed, "followed")) as gcloud,
    ):
        run = wait_until(lambda: sdk_job(server), lambda: str(sdk.poll()), timeout_s=240)
        fleet.wait_for_words(server, run, "attempt 1")
        fleet.running(server, run)
        for name in (followed, run):
            fleet.maintained(server, name)
        fleet.resume(server)
        words, complaints = sdk.communicate(timeout=240)
        assert sdk.returncode == 0, complaints
        assert "RETURNED JOB_STATE_SUCCEEDED" in words
        wait_until(
            lambda: "attempt 2 line 49" in printed.read_text(), printed.read_text, timeout_s=240
        )
        go.touch()
        for name in (followed, run):
            job = fleet.ended(server, name)
            assert (job["state"], job["attempt"]) == ("SUCCEEDED", 2)
        assert gcloud.wait(timeout=240) == 0, printed.read_text()
    lines = printed.read_text().splitlines()
    own = [line.rpartition("\t")[2].strip() for line in lines if "\tmaster-replica-0\t" in line]
    assert own == [f"attempt {a} line {n}" for a in "12" for n in range(50)], lines
    assert sum("queued again for attempt 2" in line for line in lines) == 1


def follow(server, gcloud_at, printed, job_id):
    """gcloud, printing a job's log into a file as it comes."""
    argv = ("ai-platform", "jobs", "stream-logs", job_id, "--polling-interval=1")
    variables = {**gcloud_at(server.url, server.token), "PYTHONUNBUFFERED": "1"}
    return fleet.start_gcloud(argv, variables, printed)


def start_sdk(server):
    return subprocess.Popen(
        [SDK, "-W", "ignore", HERE / "vertex_run.py", server.url, server.token, TWICE],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def sdk_job(server):
    """The job that the SDK has made."""
    path = "/v1/projects/demo-proj/locations/us-central1/customJobs"
    page = good(server.call("GET", f'{path}?filter=display_name%3D"ridden"'))
    return next((job["name"] for job in page.get("customJobs", [])), None)
