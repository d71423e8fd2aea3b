"""A replica that does nothing for too long: reported with what it does, and ended where asked."""

import os
import re

import pytest

from e2e import fleet
from e2e.chaos import check_doctor
from e2e.support import custom_job, log_lines, native, serving, submit, wait_until
from trainshed.engines.supervise.watch.watch_hang import stacks_argv

pytestmark = pytest.mark.slow

#: Hearts beat once a second at most, and a busy machine lets one miss a few beats.
AFTER_S = 8
CONFIG = f'[hangs]\nafter = "{AFTER_S}s"\n'
RESTART = "restart = true\n[fleet]\ngrace_s = 5.0\n"

#: The primary beats its heart; the worker waits at a pipe, without a sign of life.
#: Its jobs run without walls (conftest.py).
JOBS_TELL_BY_FILES = True

STUCK = """\
import os, threading, time
from trainshed_trainer import heartbeat, on_notice

def waits_for_ever():
    open({go!r}).close()

told = threading.Event()

def tell(notice):
    print("told", notice.reason, flush=True)
    told.set()

on_notice(tell)
print("began", flush=True)
if os.environ["TRAINSHED_ATTEMPT"] == "2":
    raise SystemExit(0)
if os.environ["TRAINSHED_TASK"].startswith("workerpool1"):
    waits_for_ever()
    print("goes on", flush=True)
while not os.path.exists({end!r}) and not told.is_set():
    heartbeat()
    time.sleep(0.2)
if told.is_set():
    raise SystemExit(143)
"""
#: Not the program's own text, which is in its command line.
FRAME = re.compile(r"waits_for_ever \(<string>:5\)")


def stuck(server, folder, name):
    """A job whose worker hangs; a pipe that makes it go on, and a file that makes it end."""
    go, end = folder / f"{name}-go", folder / f"{name}-end"
    os.mkfifo(go)
    code = STUCK.format(go=str(go), end=str(end))
    return submit(server, custom_job(name, code, workers=1)), go, end


def events(server, name, kind, count=1):
    """So many events of a kind, once they are there."""

    def enough_events():
        events = fleet.story(server, name, kind)
        return events if len(events) >= count else None

    return wait_until(enough_events, lambda: fleet.story_text(server, name))


@pytest.fixture(scope="module")
def hung(tmp_path_factory):
    """A server, and a job of it whose worker was found to hang."""
    folder = tmp_path_factory.mktemp("hangs")
    with serving(folder / "data", config=CONFIG) as server:
        name, go, end = stuck(server, folder, "reported")
        events(server, name, "HUNG")
        yield server, name, go, end
        check_doctor(server)


def test_the_one_replica_that_hangs_is_named(hung):
    server, name, _, _ = hung
    (event,) = fleet.story(server, name, "HUNG")
    assert event["data"]["task_name"] == "workerpool1-0"
    assert event["data"]["seconds"] >= AFTER_S
    assert "workerpool1-0 has shown no progress for" in event["message"]
    warned = [
        line["message"]
        for line in log_lines(server, name)
        if line["severity"] == "WARNING" and "no progress" in line["message"]
    ]
    assert warned
    assert all("workerpool1-0" in words for words in warned)


@pytest.mark.skipif(stacks_argv(os.getpid()) is None, reason="make test installs py-spy")
def test_its_log_shows_what_it_was_doing(hung):
    server, name, _, _ = hung
    (event,) = fleet.story(server, name, "HUNG")
    assert FRAME.search(event["data"]["stacks"])
    lines = [line["message"] for line in log_lines(server, name)]
    assert any(line.startswith("workerpool1-0: ") and FRAME.search(line) for line in lines)


def test_by_default_nothing_is_done_to_it_and_it_may_go_on(hung):
    server, name, go, end = hung
    job = native(server, name)
    assert (job["state"], job["attempt"]) == ("RUNNING", 1)
    go.write_text("")
    (recovered,) = events(server, name, "RECOVERED")
    assert recovered["data"]["task_name"] == "workerpool1-0"
    end.touch()
    job = fleet.ended(server, name)
    assert (job["state"], job["attempt"]) == ("SUCCEEDED", 1)
    assert len(fleet.story(server, name, "HUNG")) == 1
    assert "restarts" not in job, "it has used none"


def test_where_it_is_asked_for_the_job_is_started_again(tmp_path):
    with serving(tmp_path / "data", config=CONFIG + RESTART) as server:
        name, _, _ = stuck(server, tmp_path, "again")
        job = fleet.ended(server, name)
        assert (job["state"], job["attempt"]) == ("SUCCEEDED", 2), fleet.story_text(server, name)
        assert job["restarts"] == {"maintenance": 0, "infra": 1, "user": 0}
        assert fleet.output_lines(server, name) == ["began", "told hang", "began"]
        (order,) = fleet.story(server, name, "RESTART_ORDERED")
        assert order["data"]["reason"] == "hang"
        assert "workerpool1-0" in order["message"]
        goodput = native(server, name, "/goodput")
        (hung,) = fleet.story(server, name, "HUNG")
        assert goodput["attempts"][0]["seconds"]["stalled"] > hung["data"]["seconds"] - 1
        assert (goodput["goodput"], goodput["at_most"] < 1) == (None, True)
        check_doctor(server)
