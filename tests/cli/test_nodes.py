"""A node's maintenance from the command line, with a real server and a job that saves its work."""

import os
import time

import pytest

from cli.conftest import ELSEWHERE, FINAL, PARENT, new_server, pool

#: At its notice it takes the time that it needs: until a file is there.
SAVES = """\
import os, signal, sys, time
folder = sys.argv[1]
def save(*_):
    print("saving", flush=True)
    while not os.path.exists(folder + "/saved"):
        time.sleep(0.02)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("attempt", os.environ["TRAINSHED_ATTEMPT"], flush=True)
while True:
    time.sleep(0.05)
"""
NODE = os.uname().nodename


@pytest.fixture
def server(tmp_path):
    server = new_server(tmp_path / "data")
    yield server
    server.stop()


@pytest.fixture
def command(trainshed, server, monkeypatch):
    for name in ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRAINSHED_DATA_DIR", str(server.data_dir))
    return trainshed


@pytest.fixture
def saved(server):
    """The file that a job waits for: in a bucket, which is all that it and a test both see."""
    return server.data_dir / "buckets" / "staging" / "saved"


@pytest.fixture
def job(server, saved):
    """A job that runs on the node; its full name."""
    spec = pool(SAVES)
    spec["containerSpec"]["args"].append("/gcs/staging")
    document = {"displayName": "made", "jobSpec": {"workerPoolSpecs": [spec]}}
    status, job = server.call("POST", f"/v1/{PARENT}/customJobs", document)
    assert status == 200, job
    name = job["name"]
    server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    yield name
    saved.touch()
    server.call("POST", f"/v1/{name}:cancel", {})
    server.wait_for(f"/v1/{name}", FINAL)


def number(name):
    return name.rpartition("/")[2]


def until(look, holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds(observation := look()):
        assert time.monotonic() < deadline, observation
        time.sleep(0.05)
    return observation


def was_looked_at(job):
    return job["waiting"]["reason"] != "NOT_LOOKED_AT"


def test_a_job_goes_through_a_maintenance_and_on(command, server, job, saved):
    def state():
        path = f"/trainshed/v1/projects/local/jobs/{number(job)}"
        return server.call("GET", path)[1]

    def node():
        (row,) = command("nodes", "--format", "json").json
        return row

    until(lambda: server.log_of(job), lambda log: "attempt 1" in log)
    ordered = command("nodes", "maintain", NODE, "--notice", "10m")
    assert ordered.code == 0, ordered.err
    assert f"1 job on {NODE} gets 600 s notice" in ordered.out
    assert job in ordered.out

    until(lambda: server.log_of(job), lambda log: "saving" in log)
    assert state()["state"] == "RESTARTING"
    assert server.call("GET", f"/v1/{job}")[1]["state"] == "JOB_STATE_RUNNING"
    assert "Attempt 1 is being ended" in command("jobs", "explain", number(job)).out
    assert (node()["state"], node()["notice"], node()["replicas"]) == ("MAINTENANCE", "600s", 1)

    saved.touch()
    waited = command("nodes", "maintain", NODE, "--notice", "10m", "--wait")
    assert waited.code == 0, waited.err
    assert f"no replica is left on {NODE}" in waited.err
    view = until(state, lambda view: view["state"] == "QUEUED" and was_looked_at(view))
    assert NODE in view["waiting"]["message"]
    assert f"waits: {view['waiting']['reason']}: " in command("jobs", "explain", number(job)).out

    saved.unlink()
    assert command("nodes", "resume", NODE).out.strip() == f"{NODE} takes new replicas"
    again = until(state, lambda view: view["state"] == "RUNNING")
    assert (again["attempt"], again["restarts"]) == (2, {"maintenance": 1, "infra": 0, "user": 0})
    until(lambda: server.log_of(job), lambda log: "attempt 2" in log)
    (node_row,) = command("nodes", "--format", "json").json
    assert (node_row["state"], "notice" in node_row) == ("READY", False)
    run = command("doctor")
    assert run.code == 0, run.out


def test_a_drained_node_keeps_what_runs_and_takes_nothing_new(command, server, job):
    assert command("nodes", "drain", NODE).out.splitlines()[0].endswith(f"1 job on {NODE} runs on")
    document = {"displayName": "next", "jobSpec": {"workerPoolSpecs": [pool("")]}}
    name = server.call("POST", f"/v1/{PARENT}/customJobs", document)[1]["name"]
    explanation = until(
        lambda: command("jobs", "explain", number(name)).out, lambda text: NODE in text
    )
    assert "waits" in explanation
    assert server.call("GET", f"/v1/{job}")[1]["state"] == "JOB_STATE_RUNNING"
    assert command("nodes", "resume", NODE).code == 0
    server.wait_for(f"/v1/{name}", {"JOB_STATE_SUCCEEDED"})
