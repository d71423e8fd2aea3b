"""SIGKILL of the server while jobs run: they go on, and nothing they write is lost or doubled."""

import json

import psutil
import pytest

from e2e.chaos import PAUSE_S, records
from e2e.support import (
    FINAL,
    PROJECT,
    custom_job,
    good,
    log_lines,
    native,
    processes_of,
    serving,
    submit,
    wait_until,
)

#: Its jobs run without walls (conftest.py).
JOBS_TELL_BY_FILES = True

pytestmark = pytest.mark.slow

#: Writes 1, 2, 3 ... until a file is there, then how many it were.
COUNT = """\
import itertools, os, time
for number in itertools.count(1):
    print(number, flush=True)
    time.sleep({pause_s})
    if os.path.exists({go!r}):
        print("last", number, flush=True)
        break
"""
FAIL = COUNT + "raise SystemExit(3)\n"
NEVER_ENDS = "import time; print('began', flush=True); time.sleep(7200)"
#: Pages of a length that no run of lines is a multiple of.
PAGE_SIZE = 313


class Poller:
    """Reads a job's log as gcloud does: again and again, each time from the last entry on.

    The entry that was seen last comes back and is dropped; all others must be new ones.
    """

    def __init__(self, server, name):
        self._server = server
        self._job = name.rpartition("/")[2]
        self._from = "1970-01-01T01:00:00.000000000Z"
        self.entries = []

    def poll(self):
        """One poll; whether it brought anything."""
        entries = list(self._pages())
        if self.entries and entries and entries[0] == self.entries[-1]:
            entries = entries[1:]
        self.entries += entries
        if entries:
            self._from = entries[-1]["timestamp"]
        return bool(entries)

    def _pages(self):
        document = {
            "filter": f'resource.type="ml_job" AND resource.labels.job_id="{self._job}"'
            f' AND timestamp>="{self._from}"',
            "orderBy": "timestamp asc",
            "pageSize": PAGE_SIZE,
            "resourceNames": [f"projects/{PROJECT}"],
        }
        while True:
            page = good(self._server.call("POST", "/v2/entries:list", document))
            yield from page.get("entries", [])
            if not page.get("nextPageToken"):
                return
            document["pageToken"] = page["nextPageToken"]

    def texts(self):
        """What the replica wrote, as it was polled."""
        return [text_of(entry) for entry in self.entries if task_of(entry) == "workerpool0-0"]


def task_of(entry):
    return entry["resource"]["labels"].get("task_name")


def text_of(entry):
    return entry["textPayload"] if "textPayload" in entry else entry["jsonPayload"]["message"]


def replica_lines(server, name):
    lines = log_lines(server, name, task="workerpool0-0")
    stamps = [line["time"] for line in lines]
    assert stamps == sorted(set(stamps)), "stamps ascend strictly"
    return [line["message"] for line in lines]


def check_lines(texts):
    """1 to N, each once and in order, then N."""
    *numbers, last = texts
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
    assert last == f"last {len(numbers)}"


def stamp(text):
    """Times of different widths, made comparable."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return f"{whole}.{fraction:0<9}"


def test_running_jobs_survive_two_kills_of_the_server(tmp_path):
    names = ("talks", "talks-too", "ends-alone", "fails", "cancelled")
    go = {name: tmp_path / f"{name}-may-end" for name in names}
    code = {name: COUNT.format(go=str(path), pause_s=PAUSE_S) for name, path in go.items()}
    code |= {"fails": FAIL.format(go=str(go["fails"]), pause_s=PAUSE_S), "cancelled": NEVER_ENDS}
    with serving(tmp_path / "data") as server:
        jobs = {name: submit(server, custom_job(name, code[name])) for name in code}
        pollers = {name: Poller(server, jobs[name]) for name in ("talks", "talks-too")}
        for job in jobs.values():
            server.wait_for(f"/v1/{job}", {"JOB_STATE_RUNNING"})
            wait_until(lambda job=job: replica_lines(server, job))
        for poller in pollers.values():
            wait_until(poller.poll)

        server.kill()
        runner = runner_of(server, jobs["ends-alone"])
        assert runner, "a killed server takes no runner with it"
        go["ends-alone"].touch()
        wait_until(lambda: not psutil.pid_exists(runner))
        server.start()

        ended = server.wait_for(f"/v1/{jobs['ends-alone']}", FINAL)
        assert ended["state"] == "JOB_STATE_SUCCEEDED", ended
        for poller in pollers.values():
            wait_until(poller.poll)
        good(server.call("POST", f"/v1/{jobs['cancelled']}:cancel", {}))
        go["talks-too"].touch()
        server.kill()
        server.start()
        go["talks"].touch()
        go["fails"].touch()

        ends = {name: server.wait_for(f"/v1/{job}", FINAL) for name, job in jobs.items()}
        assert {name: end["state"].removeprefix("JOB_STATE_") for name, end in ends.items()} == {
            "talks": "SUCCEEDED",
            "talks-too": "SUCCEEDED",
            "ends-alone": "SUCCEEDED",
            "fails": "FAILED",
            "cancelled": "CANCELLED",
        }
        assert "3" in ends["fails"]["error"]["message"]
        assert ends["cancelled"]["error"]["code"] == 1

        for name in ("talks", "talks-too", "ends-alone", "fails"):
            check_lines(replica_lines(server, jobs[name]))
        for name, poller in pollers.items():
            while poller.poll():
                pass
            check_lines(poller.texts())
            ids = [(entry["timestamp"], entry["insertId"]) for entry in poller.entries]
            assert ids == sorted(set(ids)), "what gcloud prints is printed once"
            assert poller.texts() == replica_lines(server, jobs[name])
        for name, job in jobs.items():
            assert native(server, job)["attempt"] == 1, "no healthy job was started again"
            last = log_lines(server, job, task="workerpool0-0")[-1]["time"]
            assert stamp(ends[name]["endTime"]) > stamp(last)
            kinds = [event["kind"] for event in native(server, job, "/events")["events"]]
            assert kinds.count("PLACED") == kinds.count("RUNNING") == 1, json.dumps(kinds)
        wait_until(lambda: [pid for pid, _ in processes_of(server)] == [server.pid])


def runner_of(server, name):
    """The pid of the process that owns the replicas of a job."""
    folder = server.data_dir / "jobs" / name.rpartition("/")[2] / "1"
    (began,) = records(folder, "Began")
    return began["pid"] if psutil.pid_exists(began["pid"]) else None
