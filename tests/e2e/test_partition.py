"""A server, or its database, stands still for longer than a lease: no job notices.

``TRAINSHED_CHAOS=full`` makes it a minute.
"""

import contextlib
import os
import signal
import time

import pytest

from e2e.chaos import (
    OUTAGE_S,
    cancel,
    check_count,
    check_doctor,
    check_ran_once,
    counting,
    events,
    replica_texts,
    started,
)
from e2e.support import (
    FINAL,
    PARENT,
    custom_job,
    prepared,
    serving,
    submit,
    wait_until,
)
from postgres_server import running_postgres

#: Its jobs run without walls (conftest.py).
JOBS_TELL_BY_FILES = True

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FOREVER = "import time; print('began', flush=True); time.sleep(7200)"
#: What a job comes to that is stopped by nobody.
ENDS = {
    "talks": "SUCCEEDED",
    "ends early": "SUCCEEDED",
    "fails early": "FAILED",
    "early gang": "SUCCEEDED",
    "ends late": "SUCCEEDED",
    "silent": "CANCELLED",
}


class Jobs:
    """A few that write all the time, and end when they are told; one that is cancelled at last."""

    def __init__(self, server, folder):
        self._folder = folder
        self.names = {
            kind: submit(server, custom_job(kind, self._code(kind), workers=int("gang" in kind)))
            for kind in ENDS
        }
        self.extra = []
        for name in self.names.values():
            server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
            wait_until(lambda name=name: replica_texts(server, name))

    def _code(self, kind):
        if kind == "silent":
            return FOREVER
        return counting(self._go(kind), status=3 * kind.startswith("fails"))

    def _go(self, kind):
        return self._folder / kind.replace(" ", "-")

    def end(self, when):
        """Let those end whose name says so."""
        for kind in self.names:
            if when in kind:
                self._go(kind).touch()

    def check(self, server):
        """Every job has come to its end, at the first attempt and with every line."""
        cancel(server, self.names["silent"])
        for kind, state in ENDS.items():
            job = server.wait_for(f"/v1/{self.names[kind]}", FINAL)
            assert job["state"] == f"JOB_STATE_{state}", job
        for kind, name in self.names.items():
            check_ran_once(server, name)
            story = events(server, name)
            assert story.count("PLACED") == story.count("RUNNING") == 1, story
            if kind != "silent":
                check_count(replica_texts(server, name))
        for name in self.extra:
            assert server.wait_for(f"/v1/{name}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
            check_ran_once(server, name)


@contextlib.contextmanager
def standing_still(server):
    """Suspend a server for longer than its lease lives; what is done in it happens at once."""
    began = time.monotonic()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
        time.sleep(max(0.0, began + OUTAGE_S - time.monotonic()))
    finally:
        os.kill(server.pid, signal.SIGCONT)


def test_a_server_that_stands_still_goes_on_where_it_was(tmp_path):
    with serving(tmp_path / "data") as server:
        jobs = Jobs(server, tmp_path)
        jobs.extra = [submit(server, custom_job("just submitted")) for _ in range(3)]
        with standing_still(server):
            jobs.end("early")
        jobs.end("late")
        jobs.end("talks")
        jobs.check(server)
        check_doctor(server)


@pytest.fixture
def database():
    """A PostgreSQL that may be stopped: nobody else uses it."""
    with running_postgres() as server:
        yield server


def two_servers(url, folder):
    """Both on one database and one folder."""
    return started(*(prepared(folder, "--database", url) for _ in range(2)))


@pytest.mark.full
def test_another_server_takes_over_meanwhile(postgres, tmp_path):
    url = postgres.new_database()
    with two_servers(url, tmp_path / "data") as (first, second):
        jobs = Jobs(first, tmp_path)
        jobs.extra = [submit(first, custom_job("just submitted")) for _ in range(3)]
        with standing_still(first):
            jobs.end("early")
            jobs.extra += [submit(second, custom_job("meanwhile")) for _ in range(3)]
            for kind in ("ends early", "fails early", "early gang"):
                job = second.wait_for(f"/v1/{jobs.names[kind]}", FINAL)
                assert job["state"] == f"JOB_STATE_{ENDS[kind]}"
        jobs.end("late")
        jobs.end("talks")
        jobs.check(first)
        check_doctor(second, "--database", url)


def test_a_database_that_is_away_is_waited_for(database, tmp_path):
    url = database.new_database()
    with two_servers(url, tmp_path / "data") as both:
        jobs = Jobs(both[0], tmp_path)
        jobs.extra = [submit(server, custom_job("just submitted")) for server in both]
        database.stop()
        began = time.monotonic()
        try:
            jobs.end("early")
            for server in both:
                check_refusals(server, jobs.names["talks"])
            time.sleep(max(0.0, began + OUTAGE_S - time.monotonic()))
            check_refusals(both[0], jobs.names["talks"])
            assert all(not server.has_ended for server in both)
        finally:
            database.start()
        jobs.extra.append(wait_until(lambda: submitted(both[1])))
        jobs.end("late")
        jobs.end("talks")
        jobs.check(both[0])
        check_doctor(both[0], "--database", url)


def check_refusals(server, name):
    """Whatever is asked, the answer says in Google's form that the database is away."""
    for answer in (
        server.call("GET", f"/v1/{name}"),
        server.call("GET", f"/v1/{PARENT}/customJobs"),
        server.call("POST", f"/v1/{PARENT}/customJobs", custom_job("refused")),
        server.call("POST", f"/v1/{name}:cancel", {}),
        server.call("GET", f"/trainshed/v1/projects/demo-proj/jobs/{name.rpartition('/')[2]}"),
    ):
        status, body = answer
        assert status == 503, answer
        assert body["error"]["status"] == "UNAVAILABLE"
        assert body["error"]["code"] == 503
        assert "database" in body["error"]["message"], body


def submitted(server):
    """The name of a job that was accepted; None while the database is not back."""
    status, body = server.call("POST", f"/v1/{PARENT}/customJobs", custom_job("afterwards"))
    assert status in {200, 503}, body
    return body.get("name")
