"""``jobs list --watch``: open jobs and their changes, also over a kill of the server."""

import json
import subprocess
import threading
from contextlib import contextmanager

import pytest

from cli.conftest import PARENT, new_server, pool
from server_process import TRAINSHED
from trainshed.client.faults import Unreachable
from trainshed.client.job_changes import JobChanges

WAITS = "import time; time.sleep(600)"
DEADLINE_S = 120


@contextmanager
def watching(server, *words):
    """The JSON lines of the command, as they come; it is ended after the block."""
    command = [TRAINSHED, "jobs", "list", "--watch", *words]
    process = subprocess.Popen(
        [*command, "--url", server.url, "--token-file", server.data_dir / "admin-token"],
        stdout=subprocess.PIPE,
        text=True,
    )
    timer = threading.Timer(DEADLINE_S, process.kill)
    timer.start()
    try:
        yield process.stdout
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        process.stdout.close()


def create(server, name):
    document = {"displayName": name, "jobSpec": {"workerPoolSpecs": [pool(WAITS)]}}
    status, job = server.call("POST", f"/v1/{PARENT}/customJobs", document)
    assert status == 200, job
    return job["name"]


def next_row(lines, name, state):
    """Read rows until a job is in a state; other rows are other changes."""
    for line in lines:
        row = json.loads(line)
        if (row["displayName"], row["state"]) == (name, state):
            return row
    raise AssertionError(f"the command has ended before {name} was {state}")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_changes_are_printed_also_those_while_the_server_was_killed(tmp_path):
    server = new_server(tmp_path)
    try:
        first = create(server, "first")
        server.wait_for(f"/v1/{first}", {"JOB_STATE_RUNNING"})
        with watching(server, "--format", "json") as lines:
            assert next_row(lines, "first", "RUNNING")["kind"] == "CUSTOM_JOB"
            create(server, "second")
            next_row(lines, "second", "RUNNING")
            server.kill()
            server.start()
            server.call("POST", f"/v1/{first}:cancel", {})
            assert "endTime" in next_row(lines, "first", "CANCELLED")
            create(server, "third")
            next_row(lines, "third", "RUNNING")
    finally:
        for job in server.call("GET", f"/v1/{PARENT}/customJobs")[1]["customJobs"]:
            server.call("POST", f"/v1/{job['name']}:cancel", {})
            server.wait_for(f"/v1/{job['name']}", {"JOB_STATE_CANCELLED"})
        server.stop()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--label", "team"], "omit --label"),
        (["--since", "1h"], "omit --since"),
        (["--kind", "trial"], "omit --kind trial"),
        (["--limit", "3"], "omit --limit"),
        (["--format", "yaml"], "--format must be text or json with --watch, got yaml"),
    ],
)
def test_flags_of_a_list_that_ends_are_refused(trainshed, flags, words):
    run = trainshed("jobs", "list", "--watch", *flags, "--url", "http://127.0.0.1:1")
    assert run.code == 2
    assert words in run.err


class Scripted:
    """A server whose streams and lists follow a script."""

    def __init__(self, streams, lists):
        self.streams, self.lists = iter(streams), iter(lists)

    def events(self, _path, query):
        assert query == {"topic": "queue:demo"}
        for event in next(self.streams):
            if isinstance(event, Exception):
                raise event
            yield event

    def call(self, _verb, path, _document=None, query=None):
        assert path.endswith("/projects/demo/jobs")
        wants_open, rows = next(self.lists)
        assert ("open" in query) is wants_open
        return {"jobs": rows}


def row(uid, state, **fields):
    return {"uid": uid, "state": state, **fields}


def test_rows_come_once_and_ends_that_were_missed_are_read():
    waits, runs, ended = row("1", "QUEUED"), row("1", "RUNNING"), row("1", "FAILED", endTime="t")
    ready, gone = ("ready", {}), Unreachable("the server is away")
    server = Scripted(
        [
            [ready, ("queue", {"jobs": [runs]}), ("resync", {}), gone],
            [gone],
            [ready, ("away", {"message": "no database"}), ready],
        ],
        [(True, [waits]), (True, [runs]), (True, []), (False, [ended]), (True, [])],
    )
    notes = []
    rows = JobChanges(server, "demo", notes.append, pause=lambda _: None).rows()
    assert [next(rows) for _ in range(3)] == [waits, runs, ended]
    with pytest.raises(RuntimeError):  # the script has ended
        next(rows)
    assert notes == ["the server has ended the stream; trying again"] * 2 + [
        "no database",
        "the server has ended the stream; trying again",
    ]


def test_a_server_that_was_never_reached_ends_the_command():
    server = Scripted([[Unreachable("no server answers")]], [])
    with pytest.raises(Unreachable, match="no server answers"):
        next(JobChanges(server, "demo", print).rows())
