"""Maintenance of the only node: notice, a wait with a reason, and the next attempt by itself."""

import json

import pytest

from e2e import fleet
from e2e.chaos import check_doctor
from e2e.support import (
    FINAL,
    custom_job,
    good,
    native,
    serving,
    submit,
    wait_until,
)

#: Its jobs run without walls (conftest.py).
JOBS_TELL_BY_FILES = True

pytestmark = pytest.mark.slow

#: The grace of a cancel, during which a notice of ten minutes is over.
CONFIG = "[fleet]\ngrace_s = 1.0\n"
#: A notice in seconds whose end is waited for: long enough for a busy machine to honour it.
NOTICE_S = 10

#: Says who it is, and then how it hears of a notice, in each of the three ways.  Workers do not
#: honour it; the primary does, as soon as it was told in all.  The second time they end at once,
#: or when a file is gone that the test has put in the place of HOLD.
LISTENER = """\
import json, os, signal, sys, threading, time
from trainshed_trainer import on_notice

heard = {name: threading.Event() for name in ("signal", "callback")}
signal.signal(signal.SIGTERM, lambda *_: heard["signal"].set())

def called(notice):
    print("callback", notice.reason, notice.until > time.time(), flush=True)
    heard["callback"].set()

on_notice(called)
names = ("AIP_", "TRAINSHED_ATTEMPT", "TRAINSHED_TASK", "CLOUD_ML_JOB_ID")
print("env", json.dumps({k: v for k, v in os.environ.items() if k.startswith(names)}), flush=True)
if os.environ["TRAINSHED_ATTEMPT"] == "2":
    while os.path.exists("HOLD"):
        time.sleep(0.05)
    sys.exit(0)
for event in heard.values():
    event.wait()
with open(os.environ["TRAINSHED_NOTICE_FILE"]) as file:
    print("file", json.load(file)["reason"], flush=True)
if os.environ["TRAINSHED_TASK"].startswith("workerpool1"):
    time.sleep(7200)
sys.exit(143)
"""
HEARD = ("file maintenance", "callback maintenance True")

DEAF = """\
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print("heard", flush=True))
print("began", flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("maintenance") / "data", config=CONFIG) as server:
        fleet.make_bucket(server)
        yield server
        check_doctor(server)


@pytest.fixture(autouse=True)
def node_is_back(server):
    """Whatever became of a test, the next one has its node."""
    yield
    fleet.resume(server)


def test_a_notice_reaches_every_replica_in_three_ways_and_the_job_starts_again(server, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    code = LISTENER.replace("HOLD", str(hold))
    name = submit(server, fleet.in_bucket(custom_job("told", code, workers=1), "told"))
    replicas = ("workerpool0-0", "workerpool1-0")
    first = {task: environment(server, name, task) for task in replicas}
    fleet.running(server, name)

    fleet.maintain(server, NOTICE_S)
    for task in replicas:
        for words in HEARD:
            fleet.wait_for_words(server, name, words, task=task)
    waiting = wait_until(lambda: fleet.reason(native(server, name)), lambda: "no reason")
    assert waiting["reason"] == "DRAINED"
    node = fleet.node_of(server)
    assert f"{node} is in maintenance" in waiting["message"]
    assert waiting["blockers"] == [node]
    job = good(server.call("GET", f"/v1/{name}"))
    assert job["state"] not in FINAL, "to Google's clients it goes on"

    fleet.resume(server)
    second = {task: environment(server, name, task, attempt=2) for task in replicas}
    hold.unlink()
    end = fleet.ended(server, name)
    assert (end["state"], end["attempt"]) == ("SUCCEEDED", 2), fleet.story_text(server, name)
    assert end["restarts"] == {"maintenance": 1, "infra": 0, "user": 0}
    assert tuple(replica["taskName"] for replica in end["replicas"]) == replicas
    for task in replicas:
        assert second[task] == {**first[task], "TRAINSHED_ATTEMPT": "2"}
        assert first[task]["AIP_CHECKPOINT_DIR"].endswith("/results/told/checkpoints/")
    ends = fleet.ends_of(server, name, 1)
    honoured = {task: event["data"]["notice_honoured"] for task, event in ends.items()}
    assert honoured == {"workerpool0-0": True, "workerpool1-0": False}
    assert "ended by itself" in ends["workerpool0-0"]["message"]
    assert "had to be killed" in ends["workerpool1-0"]["message"]
    assert f"replicas have {NOTICE_S} s" in fleet.event_message(server, name, "RESTART_ORDERED")


def environment(server, name, task, attempt=1):
    """What a replica was told of itself."""

    def lines():
        env_lines = [
            line for line in fleet.output_lines(server, name, task) if line.startswith("env ")
        ]
        return env_lines if len(env_lines) >= attempt else None

    env_lines = wait_until(lines, lambda: fleet.story_text(server, name))
    return json.loads(env_lines[attempt - 1].removeprefix("env "))


def test_a_job_that_may_not_run_twice_gets_its_notice_and_fails(server):
    document = custom_job("once", LISTENER)
    document["jobSpec"]["scheduling"] = {"disableRetries": True}
    name = fleet.begun(server, document, "env ")
    fleet.maintain(server, fleet.LONG_S)
    end = fleet.ended(server, name)
    job = good(server.call("GET", f"/v1/{name}"))
    assert (end["state"], end["attempt"]) == ("FAILED", 1)
    assert job["error"]["code"] == 14
    assert "maintenance" in job["error"]["message"]
    assert "disableRetries" in job["error"]["message"]
    assert set(HEARD) <= set(fleet.output_lines(server, name)), "it could save its work"
    assert "will not start again" in fleet.event_message(server, name, "RESTART_ORDERED")


def test_who_cancels_during_a_notice_does_not_wait_for_its_end(server):
    name = fleet.begun(server, custom_job("cancelled", DEAF))
    fleet.maintain(server, fleet.LONG_S)
    fleet.wait_for_words(server, name, "heard")
    good(server.call("POST", f"/v1/{name}:cancel", {}))
    end = fleet.ended(server, name)
    assert (end["state"], end["attempt"]) == ("CANCELLED", 1)
    assert good(server.call("GET", f"/v1/{name}"))["error"]["code"] == 1
    fleet.resume(server)
    other = submit(server, custom_job("afterwards"))
    assert fleet.ended(server, other)["state"] == "SUCCEEDED"
    assert native(server, name)["attempt"] == 1, "it does not come back with the node"


@pytest.mark.full
def test_a_server_that_is_killed_during_the_notice_goes_on_with_it(server):
    honours = fleet.begun(server, custom_job("honours", LISTENER), "env ")
    deaf = fleet.begun(server, custom_job("deaf", DEAF))
    fleet.maintain(server, NOTICE_S)
    fleet.wait_for_words(server, deaf, "heard")
    server.kill()
    server.start()
    for name in (honours, deaf):
        fleet.queued(server, name)
        assert native(server, name)["attempt"] == 1, "the order is kept"
    fleet.resume(server)
    assert fleet.ended(server, honours)["attempt"] == 2
    fleet.running(server, deaf, 2)
    for name, is_killed in ((honours, False), (deaf, True)):
        assert native(server, name)["restarts"]["maintenance"] == 1
        assert len(fleet.story(server, name, "RESTART_ORDERED")) == 1
        (ended,) = fleet.ends_of(server, name, 1).values()
        assert ended["data"]["notice_honoured"] is not is_killed
    fleet.cancel(server, deaf)
