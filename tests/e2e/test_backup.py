"""A database that is lost under its server is noticed, and a backup brings everything back."""

import json
import shutil
import threading
from urllib.error import HTTPError

import pytest

from e2e.chaos import check_count, check_doctor, check_ran_once, counting, replica_texts
from e2e.support import FINAL, PARENT, custom_job, good, serving, submit, wait_until
from server_process import TRAINSHED, finished

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

JOBS_TELL_BY_FILES = True


def trainshed(*words, code=0):
    """What a command prints as JSON; its complaint where it fails."""
    argv = [TRAINSHED, *words, "--format", "json"]
    ran = finished(argv)
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    return json.loads(ran.stdout) if ran.stdout else ran.stderr


def results(report):
    return {row["id"]: row["result"] for row in report["checks"]}


def job_names(server):
    return {
        job["name"] for job in good(server.call("GET", f"/v1/{PARENT}/customJobs"))["customJobs"]
    }


def is_healthy(server):
    try:
        return server.is_healthy()
    except HTTPError:
        return False


def test_a_lost_database_is_noticed_and_a_backup_of_the_running_server_brings_it_back(tmp_path):
    go, folder = tmp_path / "go", tmp_path / "backup"
    with serving(tmp_path / "data") as server:
        data = server.data_dir
        done = submit(server, custom_job("done"))
        server.wait_for(f"/v1/{done}", FINAL)
        runs = submit(server, custom_job("runs", counting(go)))
        wait_until(lambda: replica_texts(server, runs))
        server.wait_for(f"/v1/{runs}", {"JOB_STATE_RUNNING"})
        jobs, end = job_names(server), threading.Event()
        busy = threading.Thread(target=press_on, args=(server, end))
        busy.start()
        backup = trainshed("backup", folder, "--data-dir", data)
        end.set()
        busy.join()
        assert backup["jobs"] >= len(jobs)
        report = trainshed("doctor", "--data-dir", folder)
        assert {"FAILED", "unseen"}.isdisjoint(results(report).values()), report
        assert "this is a backup" in report["lookedAt"]

        (data / "trainshed.db").rename(tmp_path / "away")
        status, answer = server.call("POST", f"/v1/{PARENT}/customJobs", custom_job("late"))
        assert status == 503
        assert "database was removed or replaced" in answer["error"]["message"]
        assert not is_healthy(server)
        complaint = trainshed("restore", folder, "--data-dir", data, code=1)
        assert f"is in use by another server (process {server.pid})" in complaint
        server.kill()
        (tmp_path / "away").rename(data / "trainshed.db")
        assert trainshed("restore", folder, "--data-dir", data)["before"]
        server.start()
        assert jobs <= job_names(server)
        go.touch()
        assert server.wait_for(f"/v1/{runs}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
        check_ran_once(server, runs)
        check_count(replica_texts(server, runs))
        check_doctor(server)


def press_on(server, end):
    """Submit jobs while the backup is made; few, for each costs a process."""
    for _ in range(10):
        if not end.is_set():
            submit(server, custom_job("more", "pass"))


def test_a_backup_is_checked_to_the_byte_and_put_back_elsewhere_with_its_logs(tmp_path):
    folder, other = tmp_path / "backup", tmp_path / "other"
    with serving(tmp_path / "data") as server:
        name = submit(server, custom_job("done"))
        server.wait_for(f"/v1/{name}", FINAL)
        texts = replica_texts(server, name)
        server.stop()
        trainshed("backup", folder, "--data-dir", server.data_dir)
        complaint = trainshed("backup", folder, "--data-dir", server.data_dir, code=2)
        assert "is not empty" in complaint
        (segment,) = folder.glob("jobs/*/*/log/*.jsonl")
        whole = segment.read_bytes()
        segment.write_bytes(whole[:-5])
        checks = results(trainshed("doctor", "--data-dir", folder, code=1))
        assert checks["backups-are-whole"] == "FAILED"
        complaint = trainshed("restore", folder, "--data-dir", other, code=2)
        assert "has changed since the backup" in complaint
        assert not other.exists()
        segment.write_bytes(whole)
        complaint = trainshed("serve", "--port", "0", "--data-dir", folder, code=2)
        assert "must not be a backup" in complaint
        trainshed("restore", folder, "--data-dir", server.data_dir)
        shutil.rmtree(server.data_dir / "jobs")
        trainshed("restore", folder, "--data-dir", server.data_dir)
        server.start()
        assert replica_texts(server, name) == texts
