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
    found = new_server(tmp_path / "data")
    yield found
    found.stop()


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
    status, found = server.call("POST", f"/v1/{PARENT}/customJobs", document)
    assert status == 200, found
    name = found["name"]
    server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    yield name
    saved.touch()
    server.call("POST", f"/v1/{name}:cancel", {})
    server.wait_for(f"/v1/{name}", FINAL)


def number(name):
    return name.rpartition("/")[2]


def until(look, wanted, seconds=60):
    deadline = time.monotonic() + seconds
    while not wanted(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def was_looked_at(found):
    return found["waiting"]["reason"] != "NOT_LOOKED_AT"


def test_a_job_goes_through_a_maintenance_and_on(command, server, job, saved):
    def state():
        path = f"/trainshed/v1/projects/local/jobs/{number(job)}"
        return server.call("GET", path)[1]

    def node():
        (found,) = command("nodes", "--format", "json").json
        return found

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
    found = until(state, lambda found: found["state"] == "QUEUED" and was_looked_at(found))
    assert NODE in found["waiting"]["message"]
    assert f"waits: {found['waiting']['reason']}: " in command("jobs", "explain", number(job)).out

    saved.unlink()
    assert command("nodes", "resume", NODE).out.strip() == f"{NODE} takes new replicas"
    again = until(state, lambda found: found["state"] == "RUNNING")
    assert (again["attempt"], again["restarts"]) == (2, {"maintenance": 1, "infra": 0, "user": 0})
    until(lambda: server.log_of(job), lambda log: "attempt 2" in log)
    (listed,) = command("nodes", "--format", "json").json
    assert (listed["state"], "notice" in listed) == ("READY", False)
    found = command("doctor")
    assert found.code == 0, found.out


def test_a_drained_node_keeps_what_runs_and_takes_nothing_new(command, server, job):
    assert command("nodes", "drain", NODE).out.splitlines()[0].endswith(f"1 job on {NODE} runs on")
    document = {"displayName": "next", "jobSpec": {"workerPoolSpecs": [pool("")]}}
    name = server.call("POST", f"/v1/{PARENT}/customJobs", document)[1]["name"]
    told = until(lambda: command("jobs", "explain", number(name)).out, lambda text: NODE in text)
    assert "waits" in told
    assert server.call("GET", f"/v1/{job}")[1]["state"] == "JOB_STATE_RUNNING"
    assert command("nodes", "resume", NODE).code == 0
    server.wait_for(f"/v1/{name}", {"JOB_STATE_SUCCEEDED"})
