"""SIGKILL of the server during hundreds of submits: every acknowledged job is there, once.

Jobs that run in networks of their own meanwhile leave nothing of them, also if the server,
supervisors, programs and slirp4netns are killed at once.
"""

import contextlib
import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e.chaos import FULL, check_doctor, records, restarts, some_random, uid_of
from e2e.own_machine import PROGRAM, own_machine
from e2e.support import (
    FINAL,
    PARENT,
    PROJECT,
    KeepAlive,
    all_pages,
    custom_job,
    good,
    log_lines,
    ml_job,
    native,
    serving,
    submit,
    wait_until,
)
from engines.networks import MODES, skip_without_networks

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

    def __init__(self, server, request_of, count=JOBS):
        self._server = server
        self._request_of = request_of
        self._numbers = iter(range(count))
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
        path, document, headers = self._request_of(number)
        while True:
            try:
                status, answer = client.call("POST", path, document, headers)
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)  # the server is down; its next address is told by a file
                continue
            if status == 409:  # the killed server had stored it and could not say so any more
                answer = None
                self.conflicts.add(number)
            else:
                assert status == 200, answer
            self.acknowledged[number] = answer
            return


def of_either_dialect(number):
    if number % 2:
        return f"/v1/projects/{PROJECT}/jobs", ml_job(f"job_{number}", f"print({number})"), {}
    return of_vertex(number, custom_job(f"job_{number}", f"print({number})"))


def of_vertex(number, document):
    run = {"User-Agent": f"gcloud/500.0.0 invocation-id/{number:032x} environment/None"}
    return f"/v1/{PARENT}/customJobs", document, run


def submit_while_killed(server):
    submits = Submits(server, of_either_dialect)
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
        for future in running:
            future.result()
    assert len(submits.acknowledged) == JOBS
    return submits


def lasting(document):
    return {key: value for key, value in document.items() if key not in CHANGING}


def check_that_all_are_there_once(server, submits):
    ml_jobs = all_pages(server, f"/v1/projects/{PROJECT}/jobs?pageSize=100", "jobs")
    vertex = all_pages(server, f"/v1/{PARENT}/customJobs?pageSize=300", "customJobs")
    by_number = {
        int(word.partition("_")[2]): job
        for job in [*ml_jobs, *vertex]
        if (word := job.get("jobId") or job["displayName"]).startswith("job_")
    }
    assert len(ml_jobs) + len(vertex) == JOBS + 1, "each is there once, and the one that runs"
    assert sorted(by_number) == list(range(JOBS))
    for number, acknowledged in submits.acknowledged.items():
        job = by_number[number]
        if acknowledged is not None:
            assert lasting(job) == lasting(acknowledged)
        assert f"print({number})" in json.dumps(job)


@pytest.fixture(params=["postgresql", pytest.param("sqlite", marks=pytest.mark.full)])
def server(request, tmp_path):
    flags = ()
    if request.param == "postgresql":
        flags = ("--database", request.getfixturevalue("postgres").new_database())
    with serving(tmp_path / "data", *flags, config=ONE_SLOT) as server:
        yield server


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


#: Jobs that run while servers are killed, and one of them is killed with all that runs.
SHORT_JOBS = 100
SERVER_KILLS = 10
KILL_OF_ALL = 6
PROJECTS = (PROJECT, "other-proj")
SHORT_JOB = """\
import time
print("began", flush=True)
time.sleep({pause_s})
print("done", flush=True)
"""
NETWORKS = """\
[fleet]
slots = 8
grace_s = 1

[isolation]
mode = "{mode}"
network = "job"
allow_root_jobs = true
"""


def in_own_network(number):
    """A short job of one replica or two, which share a network or have one each."""
    code = SHORT_JOB.format(pause_s=0.5 + number % 7 * 0.5)
    document = custom_job(f"job_{number}", code, workers=number % 3 // 2)
    if number % 2:
        document["labels"] = {"trainshed-network": "replica"}
    path, document, headers = of_vertex(number, document)
    return path.replace(PROJECT, PROJECTS[number % 2]), document, headers


def list_jobs(server):
    """All jobs of both projects."""
    return [
        job
        for project in PROJECTS
        for job in all_pages(
            server, f"/v1/{PARENT}/customJobs?pageSize=100".replace(PROJECT, project), "customJobs"
        )
    ]


def count_ended(server):
    return sum(job["state"] in FINAL for job in list_jobs(server))


def kill_while_jobs_run(server, machine, chance):
    """Ten kills of the server, and one of everything; the jobs that this one has cut off."""
    cut_off = set()
    for kill in range(SERVER_KILLS + 1):
        ended = SHORT_JOBS * kill // (SERVER_KILLS + 2)
        wait_until(
            lambda: count_ended(server) >= ended,  # noqa: B023 - used at once
            lambda: str(list_jobs(server)),
        )
        machine.note_namespaces(machine.processes())
        if kill == KILL_OF_ALL:
            killed = machine.kill_all()
            assert "slirp4netns" in killed.values(), killed
            cut_off = {
                path for path in (server.data_dir / "jobs").glob("*/1") if not has_ended(path)
            }
        server.kill()
        time.sleep(chance.random())
        server.start()
    return {path.parent.name for path in cut_off}


def has_ended(attempt):
    return bool(records(attempt, "Ended"))


def check_run(server, job, *, may_run_twice):
    """It succeeded, and nothing of it was run twice that no kill has cut off."""
    name, task = job["name"], "workerpool0-0"
    record = native(server, name)
    assert record["state"] == "SUCCEEDED", record
    texts = [line["message"] for line in log_lines(server, name, task=task)]
    if record["attempt"] == 1:
        assert texts == ["began", "done"]
        return
    assert may_run_twice, record
    assert (record["attempt"], restarts(server, name)) == (2, {"infra": 1})
    assert texts[-2:] == ["began", "done"]
    assert texts.count("began") <= 2


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES)
def test_kills_of_all_that_runs_jobs_leave_nothing_of_their_networks(mode, tmp_path):
    chance = some_random()
    skip_without_networks(mode, tmp_path)
    with own_machine() as machine:
        config = NETWORKS.format(mode=mode)
        with serving(tmp_path / "data", config=config, program=PROGRAM) as server:
            with ThreadPoolExecutor(1) as pool:
                submits = Submits(server, in_own_network, SHORT_JOBS)
                submitted = pool.submit(submits.run)
                cut_off = kill_while_jobs_run(server, machine, chance)
                submitted.result()
            wait_until(lambda: count_ended(server) == SHORT_JOBS, lambda: str(list_jobs(server)))
            jobs = list_jobs(server)
            names = sorted(job["displayName"] for job in jobs)
            assert names == sorted(f"job_{number}" for number in range(SHORT_JOBS))
            for job in jobs:
                check_run(server, job, may_run_twice=uid_of(job["name"]) in cut_off)
            check_doctor(server, run=machine.run)
        machine.check_nothing_is_left()
