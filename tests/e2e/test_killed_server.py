"""SIGKILL of the server during hundreds of submits: every acknowledged job is there, once."""

import contextlib
import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e.chaos import FULL
from e2e.support import (
    PARENT,
    PROJECT,
    KeepAlive,
    all_pages,
    custom_job,
    good,
    ml_job,
    native,
    serving,
    submit,
    wait_until,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JOBS = 1000 if FULL else 160
CLIENTS = 8
#: The server is killed each time so many submits have been acknowledged.
KILLED_AT = (JOBS * 3 // 20, JOBS * 2 // 5, JOBS * 4 // 5)
#: One place, and a job that has it: all others wait, and cost nothing.
ONE_SLOT = "[fleet]\nslots = 1\n"
HOLDER = "import time; time.sleep(7200)"
#: What of an answer changes by itself.
CHANGING = ("state", "errorMessage", "jobPosition", "labels", "etag", "updateTime")


class Submits:
    """All submits, by eight clients, each repeated until it is acknowledged.

    Half of them are AI Platform's, whose ids the caller chooses; half are Vertex's, which gcloud
    names by the id of its run, so that its repetitions are recognised.
    """

    def __init__(self, server):
        self._server = server
        self._numbers = iter(range(JOBS))
        self._lock = threading.Lock()
        self.acknowledged = {}
        self.conflicts = set()

    def run(self):
        with contextlib.closing(KeepAlive(self._server)) as client:
            while (number := self._next()) is not None:
                self._submit(client, number)

    def _next(self):
        with self._lock:
            return next(self._numbers, None)

    def _submit(self, client, number):
        path, document, headers = request_of(number)
        while True:
            try:
                status, found = client.call("POST", path, document, headers)
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)  # the server is down; its next address is told by a file
                continue
            if status == 409:  # the killed server had stored it and could not say so any more
                found = None
                self.conflicts.add(number)
            else:
                assert status == 200, found
            self.acknowledged[number] = found
            return


def request_of(number):
    if number % 2:
        return f"/v1/projects/{PROJECT}/jobs", ml_job(f"job_{number}", f"print({number})"), {}
    run = {"User-Agent": f"gcloud/500.0.0 invocation-id/{number:032x} environment/None"}
    return f"/v1/{PARENT}/customJobs", custom_job(f"job_{number}", f"print({number})"), run


def submit_while_killed(server):
    submits = Submits(server)
    with ThreadPoolExecutor(CLIENTS) as pool:
        running = [pool.submit(submits.run) for _ in range(CLIENTS)]
        for count in KILLED_AT:
            wait_until(
                lambda: len(submits.acknowledged) >= count,  # noqa: B023  # used at once
                lambda: str(running),
                timeout_s=240,
            )
            server.kill()
            server.start()
        for each in running:
            each.result()
    assert len(submits.acknowledged) == JOBS
    return submits


def lasting(document):
    return {key: value for key, value in document.items() if key not in CHANGING}


def check_that_all_are_there_once(server, submits):
    ml_jobs = all_pages(server, f"/v1/projects/{PROJECT}/jobs?pageSize=100", "jobs")
    vertex = all_pages(server, f"/v1/{PARENT}/customJobs?pageSize=300", "customJobs")
    by_number = {
        int(word.partition("_")[2]): found
        for found in [*ml_jobs, *vertex]
        if (word := found.get("jobId") or found["displayName"]).startswith("job_")
    }
    assert len(ml_jobs) + len(vertex) == JOBS + 1, "each is there once, and the one that runs"
    assert sorted(by_number) == list(range(JOBS))
    for number, acknowledged in submits.acknowledged.items():
        found = by_number[number]
        if acknowledged is not None:
            assert lasting(found) == lasting(acknowledged)
        assert f"print({number})" in json.dumps(found)


@pytest.fixture(params=["postgresql", pytest.param("sqlite", marks=pytest.mark.full)])
def server(request, tmp_path):
    flags = ()
    if request.param == "postgresql":
        flags = ("--database", request.getfixturevalue("postgres").new_database())
    with serving(tmp_path / "data", *flags, config=ONE_SLOT) as found:
        yield found


def test_every_acknowledged_job_is_there_once(server):
    holder = submit(server, custom_job("holder", HOLDER))
    server.wait_for(f"/v1/{holder}", {"JOB_STATE_RUNNING"})

    submits = submit_while_killed(server)

    check_that_all_are_there_once(server, submits)
    server.kill()
    server.start()
    check_that_all_are_there_once(server, submits)
    assert native(server, holder)["attempt"] == 1
    assert native(server, holder)["state"] == "RUNNING"
    good(server.call("POST", f"/v1/{holder}:cancel", {}))
    server.wait_for(f"/v1/{holder}", {"JOB_STATE_CANCELLED"})
