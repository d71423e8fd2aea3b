"""The machine's clock is set, by an hour or by 400 days: nothing ends early, late or twice."""

from pathlib import Path

import pytest

from e2e.chaos import (
    cancel,
    check_count,
    check_doctor,
    check_ran_once,
    counting,
    replica_texts,
    started,
)
from e2e.support import (
    FINAL,
    custom_job,
    good,
    ml_job,
    native,
    prepared,
    submit,
    wait_until,
)
from forked import ForkServer
from server_process import SERVER_MODULES

#: Its jobs run without walls (conftest.py).
JOBS_TELL_BY_FILES = True

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("stepped_server.py")
HOUR_S = 3600
DAYS_400_S = 400 * 24 * HOUR_S
#: Half an hour to run, or to wait: a clock that is set must not use them up.
HALF = f"{HOUR_S // 2}s"
FOREVER = "import time; print('began', flush=True); time.sleep(7200)"
FINAL_OF_ML = {"SUCCEEDED", "FAILED", "CANCELLED"}
CONFIG = "[fleet]\nslots = 3\n"


class Clock:
    """The clock of a server."""

    def __init__(self, path):
        self.path = path
        modules = ("e2e.stepped_imports", *SERVER_MODULES)
        self.forks = ForkServer(*modules, STEPPED_SECONDS=str(path), OPENBLAS_NUM_THREADS="1")
        self.set(0)

    def set(self, seconds):
        new = self.path.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self.path)


@pytest.fixture(scope="module")
def clock(tmp_path_factory):
    return Clock(tmp_path_factory.mktemp("clock") / "seconds.txt")


def stepped_server(folder, clock):
    """A server that goes by the clock; gRPC would mix it with the machine's own."""
    clock.set(0)
    server = prepared(folder, "--grpc-port", "none", config=CONFIG)
    server.program = (PROGRAM, clock.path)
    server.forks = clock.forks
    return started(server)


def limited(name, code="print('trained')", limit=HALF):
    """A job that may run for half an hour, or as long as is said."""
    document = custom_job(name, code)
    document["jobSpec"]["scheduling"] = {"timeout": limit}
    return document


def waiting_gang(server):
    """One of three replicas, while two others run on three places."""
    limits = {"maxWaitTime": HALF, "maxRunningTime": HALF}
    document = ml_job("waits", scheduling=limits, workerType="n1-standard-16", workerCount="2")
    training = document["trainingInput"]
    training["workerConfig"] = training["masterConfig"]
    return submit(server, document)


def test_a_clock_that_is_set_ends_nothing(tmp_path, clock):
    go = tmp_path / "go"
    with stepped_server(tmp_path / "data", clock) as (server,):
        talks = submit(server, limited("talks", counting(go)))
        silent = submit(server, limited("silent", FOREVER))
        for name in (talks, silent):
            wait_until(lambda name=name: replica_texts(server, name))
            server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})  # its first line may be earlier
        waits = waiting_gang(server)

        for ahead_s, words in ((HOUR_S, "ahead of"), (-HOUR_S, "behind"), (HOUR_S, "ahead of")):
            lines = len(server.output().splitlines())
            clock.set(ahead_s)
            wait_until(lambda words=words, lines=lines: has_logged_since(server, lines, words))
            check_alive(server, (talks, silent), waits)
        server.kill()
        server.start()
        check_alive(server, (talks, silent), waits)
        clock.set(0)
        check_alive(server, (talks, silent), waits)

        go.touch()
        assert server.wait_for(f"/v1/{talks}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
        cancel(server, silent)
        assert server.wait_for(f"/v1/{silent}", FINAL)["state"] == "JOB_STATE_CANCELLED"
        assert server.wait_for(f"/v1/{waits}", FINAL_OF_ML)["state"] == "SUCCEEDED"
        for name in (talks, silent, waits):
            check_ran_once(server, name)
            assert 0 < native(server, name, "/goodput")["seconds"]["held"] < HOUR_S
        check_count(replica_texts(server, talks))
        check_doctor(server)


def test_a_server_that_starts_400_days_ahead_ends_no_job(tmp_path, clock):
    """What runs, waits or has ended stays; the end of a limit is as far away as before."""
    go = tmp_path / "go"
    with stepped_server(tmp_path / "data", clock) as (server,):
        over = submit(server, limited("over"))
        assert server.wait_for(f"/v1/{over}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
        talks = submit(server, limited("talks", counting(go)))
        silent = submit(server, limited("silent", FOREVER))
        for name in (talks, silent):
            wait_until(lambda name=name: replica_texts(server, name))
            server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
        waits = waiting_gang(server)
        for seconds in (DAYS_400_S, 0):
            server.kill()
            clock.set(seconds)
            server.start()
            check_alive(server, (talks, silent), waits)
            lines = [line for line in server.output().splitlines() if "clock has moved" in line]
            assert len(lines) == (1 if seconds else 2), lines
            assert server.log_of(over), "its log is kept"
        go.touch()
        assert server.wait_for(f"/v1/{talks}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
        cancel(server, silent)
        assert server.wait_for(f"/v1/{waits}", FINAL_OF_ML)["state"] == "SUCCEEDED"
        for name in (talks, silent, waits):
            check_ran_once(server, name)
            assert 0 < native(server, name, "/goodput")["seconds"]["held"] < HOUR_S


def has_logged_since(server, lines, words):
    """Whether the server has said anew that its clock was set."""
    messages = [line for line in server.output().splitlines()[lines:] if "clock was set" in line]
    return any(f"s {words} the server's" in line for line in messages)


def check_alive(server, running, waits):
    """All is as it was: what runs goes on and writes, what waits waits, and new jobs run.

    The new one fits in before the gang could begin, which can be told only by a clock that did not
    jump.
    """
    before = len(replica_texts(server, running[0]))
    wait_until(lambda: len(replica_texts(server, running[0])) > before)
    for name in running:
        job = good(server.call("GET", f"/v1/{name}"))
        assert job["state"] == "JOB_STATE_RUNNING", job
    new = submit(server, limited("new", limit="60s"))
    assert server.wait_for(f"/v1/{new}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
    assert good(server.call("GET", f"/v1/{waits}"))["state"] == "QUEUED"
