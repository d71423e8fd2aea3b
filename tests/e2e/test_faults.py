"""What can befall a machine: a full disk, a read-only one, a locked database.

Each time the server says what is wrong, loses nothing that it acknowledged, starts nothing again,
and goes on when the fault is gone.
"""

import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

from e2e.chaos import (
    OUTAGE_S,
    cancel,
    check_count,
    check_doctor,
    check_ran_once,
    counting,
    replica_texts,
    started,
)
from e2e.disks import full, read_only, small_disk
from e2e.support import (
    FINAL,
    PARENT,
    custom_job,
    good,
    metrics_of,
    native,
    prepared,
    serving,
    submit,
    wait_until,
)
from server_process import TRAINSHED, finished
from trainshed.store import database_file

#: Its jobs run without walls (conftest.py).
JOBS_TELL_BY_FILES = True

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FOREVER = "import time; print('began', flush=True); time.sleep(7200)"
#: Room for the server, and more than the doctor asks for.
DISK_MIB = 128
#: Jobs that are cancelled on a full disk.
CROWD = 10


class Running:
    """Three jobs at work: one ends while the fault lasts, one afterwards, one is cancelled."""

    def __init__(self, server, folder):
        self._go = {name: folder / name for name in ("early", "late")}
        codes = {name: counting(path) for name, path in self._go.items()}
        self.names = {
            name: submit(server, custom_job(name, code))
            for name, code in {**codes, "forever": FOREVER}.items()
        }
        for name in self.names.values():
            wait_until(lambda name=name: replica_texts(server, name))
            server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})  # written before the fault

    def end(self, name):
        self._go[name].touch()

    def check(self, server):
        """Each has come to its end, at the first attempt and with every line."""
        self.end("late")
        cancel(server, self.names["forever"])
        for name, job in self.names.items():
            document = server.wait_for(f"/v1/{job}", FINAL)
            state = "CANCELLED" if name == "forever" else "SUCCEEDED"
            assert document["state"] == f"JOB_STATE_{state}", document
            check_ran_once(server, job)
            if name != "forever":
                check_count(replica_texts(server, job))


def check_each_ran(server, names):
    """Every job that was acknowledged is there, and has run once."""
    for name in names:
        assert server.wait_for(f"/v1/{name}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
        check_ran_once(server, name)


def check_refusal(answer):
    status, body = answer
    assert status == 503, answer
    assert (body["error"]["code"], body["error"]["status"]) == (503, "UNAVAILABLE")
    assert "database" in body["error"]["message"]


def stories(server, names):
    """What the stories of jobs say, all together."""
    return json.dumps([native(server, name, "/events") for name in names])


@contextmanager
def serving_on_small_disk(folder):
    """A server whose data directory is a disk of its own; its log lies elsewhere."""
    with small_disk(folder / "disk", DISK_MIB) as disk:
        log = folder / "serve.log"
        log.touch()
        (disk / "serve.log").symlink_to(log)
        with started(prepared(disk, config="[fleet]\nslots = 16\n")) as (server,):
            yield server


def test_a_full_disk(tmp_path):
    """What is there comes to its end, and is listed and cancelled; also after a start."""
    with serving_on_small_disk(tmp_path) as server:
        running = Running(server, tmp_path)
        acknowledged = [submit(server, custom_job("before"))]
        crowd = [submit(server, custom_job(f"{n}", FOREVER)) for n in range(CROWD)]
        for name in crowd:
            server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
        wait_until(lambda: has_room_of_its_own(server))
        with full(server.data_dir / "ballast"):
            running.end("early")
            refused = server.call("POST", f"/v1/{PARENT}/customJobs", custom_job("meanwhile"))
            check_refusal(refused)
            assert "disk of the server's database is full" in refused[1]["error"]["message"]
            wait_until(lambda: "no space is left on its disk" in server.output())
            assert metrics_of(server)["trainshed_store_up"] == 1, "it can be read"
            check_cancelled(server, crowd[: CROWD // 2])
            server.wait_for(f"/v1/{running.names['early']}", {"JOB_STATE_SUCCEEDED"})
            server.kill()
            server.start()
            check_cancelled(server, crowd[CROWD // 2 :])
            jobs = good(server.call("GET", f"/v1/{PARENT}/customJobs"))["customJobs"]
            assert len(jobs) == len(running.names) + len(acknowledged) + CROWD
        check_each_ran(server, [*acknowledged, submit(server, custom_job("afterwards"))])
        running.check(server)
        check_doctor(server)


def test_a_cancel_is_taken_where_the_small_disk_of_the_database_is_full(tmp_path):
    """It was answered with 503: the log had no room for it."""
    with small_disk(tmp_path / "disk", 16) as disk:
        flags = ("--database", f"sqlite:///{disk}/trainshed.db")
        with serving(tmp_path / "data", *flags) as server:
            names = [submit(server, custom_job(f"{n}", FOREVER)) for n in range(3)]
            for name in names:
                server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
            with full(disk / "ballast"):
                check_refusal(server.call("POST", f"/v1/{PARENT}/customJobs", custom_job("more")))
                check_cancelled(server, names)


def has_room_of_its_own(server):
    """Whether the database has taken it; a server does so a moment after its start."""
    return (server.data_dir / "trainshed.db-wal").stat().st_size >= database_file.LOG_BYTES


def check_cancelled(server, names):
    for name in names:
        cancel(server, name)
    for name in names:
        server.wait_for(f"/v1/{name}", {"JOB_STATE_CANCELLED"})


def test_a_read_only_data_directory(tmp_path):
    with serving(tmp_path / "data") as server:
        running = Running(server, tmp_path)
        with read_only(server.data_dir):
            running.end("early")
            waiting = [submit(server, custom_job(f"meanwhile {n}")) for n in range(2)]
            wait_until(lambda: "the file system is read-only" in server.output())
            wait_until(lambda: "the file system is read-only" in stories(server, waiting))
            for name in waiting:
                server.wait_for(f"/v1/{name}", {"JOB_STATE_PENDING"})
        check_each_ran(server, [*waiting, submit(server, custom_job("afterwards"))])
        running.check(server)
        check_doctor(server)


def test_a_server_is_not_started_on_a_read_only_data_directory(tmp_path):
    """It says so in a sentence; jobs under way wait for the disk, and the next start finds them."""
    with serving(tmp_path / "data") as server:
        running = Running(server, tmp_path)
        server.kill()
        with read_only(server.data_dir):
            running.end("early")
            argv = [TRAINSHED, "serve", "--port", "0", "--grpc-port", "none"]
            process = finished([*argv, "--data-dir", server.data_dir])
            assert process.returncode
            assert process.stderr.startswith("error: ")
            assert "read-only" in process.stderr.lower()
            assert "Traceback" not in process.stderr
        server.start()
        running.check(server)
        check_doctor(server)


@contextmanager
def locked(path):
    """Hold the one lock under which a database is written."""
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")


def test_a_locked_database(tmp_path):
    """For longer than a write waits for it, and longer than a lease lives."""
    with serving(tmp_path / "data") as server:
        running = Running(server, tmp_path)
        acknowledged = [submit(server, custom_job("before"))]
        with locked(server.data_dir / "trainshed.db"), ThreadPoolExecutor() as pool:
            began = time.monotonic()
            running.end("early")
            path = f"/v1/{PARENT}/customJobs"
            writes = {path: custom_job("meanwhile"), f"/v1/{running.names['forever']}:cancel": {}}
            answers = [pool.submit(server.call, "POST", *write) for write in writes.items()]
            early = good(server.call("GET", f"/v1/{running.names['early']}"))
            assert early["state"] == "JOB_STATE_RUNNING"
            for answer in answers:
                check_refusal(answer.result())
            assert metrics_of(server)["trainshed_store_up"] == 1
            wait_until(lambda: "is locked by another program" in server.output())
            time.sleep(max(0.0, began + OUTAGE_S - time.monotonic()))
        check_each_ran(server, [*acknowledged, submit(server, custom_job("afterwards"))])
        jobs = good(server.call("GET", path))["customJobs"]
        assert "meanwhile" not in {job["displayName"] for job in jobs}
        running.check(server)
        check_doctor(server)
