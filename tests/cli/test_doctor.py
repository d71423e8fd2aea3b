"""``trainshed doctor`` on a data directory in which a server has lived, and on damaged copies."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from cli.conftest import FINAL, PARENT, new_server, pool
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.workbench.doctor import examine

RUNNING = "print('begun', flush=True); import time; time.sleep(600)"


def submitted(server, code):
    document = {"displayName": "made", "jobSpec": {"workerPoolSpecs": [pool(code)]}}
    status, job = server.call("POST", f"/v1/{PARENT}/customJobs", document)
    assert status == 200, job
    return job["name"]


def failed(run):
    return {row["id"] for row in run.json["checks"] if row["result"] == "FAILED"}


def texts(run):
    return " ".join(finding["text"] for row in run.json["checks"] for finding in row["findings"])


def wait_for_supervisors(data):
    """They outlive what they have written of the end by a moment."""
    deadline = time.monotonic() + 60
    while any(AttemptFolder(path).is_held() for path in data.glob("jobs/*/*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """A stopped server's directory with a job that succeeded, one that failed, one cancelled."""
    server = new_server(tmp_path_factory.mktemp("lived") / "data")
    try:
        names = [submitted(server, code) for code in ("print(1)", "raise SystemExit(3)", RUNNING)]
        for name in names[:2]:
            server.wait_for(f"/v1/{name}", FINAL)
        server.wait_for(f"/v1/{names[2]}", {"JOB_STATE_RUNNING"})
        server.call("POST", f"/v1/{names[2]}:cancel", {})
        server.wait_for(f"/v1/{names[2]}", {"JOB_STATE_CANCELLED"})
        wait_for_supervisors(server.data_dir)
    finally:
        server.stop()
    return server.data_dir


@pytest.fixture
def data(lived, tmp_path, monkeypatch):
    """A copy of it, to be damaged; nobody is at work there, so that looks need no time between."""
    monkeypatch.setattr(examine, "PAUSE_S", 0.0)
    sockets = shutil.ignore_patterns("ports")
    shutil.copytree(lived, tmp_path / "copy", symlinks=True, ignore=sockets)
    return tmp_path / "copy"


@pytest.fixture
def doctor(trainshed):
    def run(folder, *words):
        return trainshed("doctor", "--data-dir", folder, "--format", "json", *words)

    return run


def test_beside_a_server_at_work_and_after_its_kill_every_promise_holds(trainshed, tmp_path):
    server = new_server(tmp_path / "data")
    name = submitted(server, RUNNING)
    try:
        server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
        beside = trainshed("doctor", "--data-dir", server.data_dir)
        server.kill()
        after = trainshed("doctor", "--data-dir", server.data_dir)
        server.start()
        again = trainshed("doctor", "--data-dir", server.data_dir)
    finally:
        server.call("POST", f"/v1/{name}:cancel", {})
        server.wait_for(f"/v1/{name}", FINAL)
        server.stop()
    for run in (beside, after, again):
        assert run.code == 0, run.out
        assert "promises hold" in run.out
    assert f"the server is process {server.address['pid']}" in again.out
    assert "no server runs" in after.out
    assert "1 jobs" in after.out


def test_an_end_leaves_nothing_to_find(lived, doctor):
    run = doctor(lived)
    assert run.code == 0, run.out
    assert {row["result"] for row in run.json["checks"]} <= {"ok", "noted"}
    assert run.json["lookedAt"].startswith("3 jobs, 3 folders of attempts")


def test_each_promise_is_printed_with_its_id(lived, trainshed):
    lines = trainshed("doctor", "--data-dir", lived).out.splitlines()
    assert any(
        line.startswith("ok") and line.endswith("[over-has-no-process]") for line in lines
    ), lines


def first(folder, pattern):
    return next(path for path in sorted(folder.glob(pattern)) if path.stat().st_size)


def execute(folder, statement):
    with closing(sqlite3.connect(folder / "trainshed.db")) as database, database:
        assert database.execute(statement).rowcount


def test_a_log_that_was_damaged_is_told_with_its_attempt(data, doctor):
    segment = first(data, "jobs/*/1/log/*.jsonl")
    segment.write_bytes(segment.read_bytes() + b"\0\0\0\n")
    run = doctor(data)
    assert (run.code, failed(run)) == (1, {"logs-are-whole"})
    assert f"{segment.parents[2].name}/1" in texts(run)


def test_records_that_were_damaged_are_told(data, doctor):
    records = first(data, "jobs/*/1/records.jsonl")
    records.write_bytes(b"\0\0\0\n" + records.read_bytes())
    run = doctor(data)
    assert (run.code, failed(run)) == (1, {"records-are-whole"})


@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("UPDATE jobs SET end_ns = NULL WHERE state = 'SUCCEEDED'", "over-has-an-end"),
        ("UPDATE jobs SET error = NULL WHERE state = 'FAILED'", "over-has-an-end"),
        ("UPDATE jobs SET held_ns = 1 WHERE state = 'CANCELLED'", "over-holds-nothing"),
        ("UPDATE jobs SET attempt = 2 WHERE state = 'FAILED'", "attempts-have-seats"),
        ("DELETE FROM events", "every-job-has-its-story"),
        ("DELETE FROM replicas WHERE uid = (SELECT min(uid) FROM jobs)", "attempts-have-seats"),
    ],
)
def test_rows_that_break_a_promise_are_told(data, doctor, statement, check):
    execute(data, statement)
    run = doctor(data)
    assert (run.code, failed(run)) == (1, {check})


def test_a_process_that_outlived_its_job_is_named(data, doctor):
    uid = first(data, "jobs/*/1/records.jsonl").parents[1].name
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env={**os.environ, "TRAINSHED_JOB": f"{uid}/1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        run = doctor(data)
        process.stdin.close()
    assert (run.code, failed(run)) == (1, {"over-has-no-process"})
    assert f"process {process.pid}" in texts(run)
    assert doctor(data).code == 0


def test_a_token_that_others_may_read_is_told_with_what_to_do(data, doctor, trainshed):
    (data / "admin-token").chmod(0o640)
    assert failed(doctor(data)) == {"secrets-are-private"}
    assert f"-> chmod go= {data}/admin-token" in trainshed("doctor", "--data-dir", data).out


@pytest.mark.parametrize("damage", [b"", b"no database", None])
def test_without_its_database_a_directory_is_not_called_whole(data, doctor, trainshed, damage):
    if damage is None:
        (data / "trainshed.db").unlink()
    else:
        (data / "trainshed.db").write_bytes(damage)
    run = doctor(data)
    assert run.code == 2
    assert {row["result"] for row in run.json["checks"]} >= {"ok", "unseen"}
    as_text = trainshed("doctor", "--data-dir", data)
    assert "the database cannot be read: " in as_text.out
    assert "could not be checked" in as_text.out
    assert "Traceback" not in as_text.out + as_text.err


def test_pages_that_were_overwritten_are_found_or_said(data, doctor):
    database = data / "trainshed.db"
    content = bytearray(database.read_bytes())
    for place in range(4096, len(content), 4096):
        content[place : place + 512] = b"\xff" * 512
    database.write_bytes(content)
    run = doctor(data)
    assert run.code in (1, 2)
    assert "Traceback" not in run.out + run.err


def test_a_directory_that_is_none_is_refused(trainshed, tmp_path):
    run = trainshed("doctor", "--data-dir", tmp_path / "none")
    assert run.code == 2
    assert "there is no data directory" in run.err
