"""The server killed at every place of a study's loop: each trial runs once, it ends well."""

import itertools
import time
from collections import Counter
from functools import partial

import pytest

from controller.tuning_world import STEPS, script
from controller.world import nodes
from e2e.chaos import FULL
from e2e.failpoints import FailingServer, uid_of
from e2e.remote_engine import EngineHost
from e2e.support import FINAL, IMAGE, PARENT, end_all, wait_until
from trainshed.model.attempt import Report
from trainshed.testing.fake_engine import FakeEngine

TRIALS, PARALLEL = 50, 4
PATH = f"/v1/{PARENT}/hyperparameterTuningJobs"
LOOP = "controller-studies"
#: How long studies may take to bring the loop to a place; stopping a trial early is one of chance.
REACH_S_MAX = 120


def a_study():
    container = {"imageUri": IMAGE, "command": ["python", "-c"], "args": ["pass"]}
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "containerSpec": container,
    }
    lr = {"parameterId": "lr", "doubleValueSpec": {"minValue": 0.0, "maxValue": 1.0}}
    return {
        "displayName": "killed",
        "maxTrialCount": TRIALS,
        "parallelTrialCount": PARALLEL,
        "studySpec": {
            "metrics": [{"metricId": "acc", "goal": "MAXIMIZE"}],
            "parameters": [lr],
            "algorithm": "RANDOM_SEARCH",
            "medianAutomatedStoppingSpec": {},
        },
        "trialJobSpec": {"workerPoolSpecs": [pool]},
    }


def quick(key, plan):
    """A program that reports a step every 0.2 s."""
    slow = script(key, plan)
    reports = tuple(
        (at / 5, Report(tag=r.tag, value=r.value, step=r.step)) for at, r in slow.reports
    )
    return script(key, plan, runs_s=STEPS / 5 + 0.2, reports=reports)


@pytest.fixture
def engine():
    engine = FakeEngine(nodes(4), script=quick)
    yield engine
    assert engine.violations == []


def test_a_study_whose_server_is_killed_everywhere(tmp_path, engine):
    with EngineHost(tmp_path / "engine", engine):
        server = FailingServer(tmp_path, engine=tmp_path / "engine")
        try:
            server.arm(None)
            assert server.begin()
            keep_busy(server)
            wait_until(partial(places_of, server))
            server.kill()
            places, missed = kill_everywhere(server)
            server.arm(None)
            assert server.begin()
            for study in studies(server):
                check_end(server, study["name"], engine)
        finally:
            end_all(server)
    assert {place.rpartition(" ")[2] for place in places} >= {"before", "after"}
    assert any("apply_study" in place for place in places)
    assert not missed, missed


def places_of(server):
    return [place for place in server.reached_places() if LOOP in place and "apply" in place]


def kill_everywhere(server):
    """Kill at every place that the loop comes to, at its first time and at a later one."""
    places, missed = [], []
    while todo := [place for place in places_of(server) if place not in places]:
        places += todo
        for place, after in itertools.product(todo, (1, 3) if FULL else (2,)):
            server.arm(place, after)
            deadline = time.monotonic() + REACH_S_MAX
            is_ready = server.begin()
            while is_ready and not server.has_ended and time.monotonic() < deadline:
                keep_busy(server)
                time.sleep(0.1)
            if not server.await_death():
                missed.append(place)
    return places, missed


def keep_busy(server):
    """See to it that a study is under way; the server may be killed meanwhile."""
    jobs = studies(server)
    if jobs is not None and all(study["state"] in FINAL for study in jobs):
        answer = server.try_call("POST", PATH, a_study())
        assert answer is None or answer[0] == 200, answer


def studies(server):
    """All that there are, whether their creation was acknowledged or not; None: it was killed."""
    answer = server.try_call("GET", f"{PATH}?pageSize=100")
    return answer and answer[1].get("hyperparameterTuningJobs", [])


def is_over(server, name):
    answer = server.try_call("GET", f"/v1/{name}")
    return answer is not None and answer[1]["state"] in FINAL


def check_end(server, name, engine):
    """As an undisturbed study ends: every trial once, in its one attempt."""
    wait_until(lambda: is_over(server, name), timeout_s=240)
    _, study = server.call("GET", f"/v1/{name}")
    assert study["state"] == "JOB_STATE_SUCCEEDED", study
    assert [trial["id"] for trial in study["trials"]] == [str(n + 1) for n in range(TRIALS)]
    assert {trial["state"] for trial in study["trials"]} == {"SUCCEEDED"}
    jobs = [uid_of(trial["customJob"]) for trial in study["trials"]]
    assert len(set(jobs)) == TRIALS
    launched = Counter(key.uid for key in engine.launches)
    assert {job: launched[job] for job in jobs} == dict.fromkeys(jobs, 1)
    values = [trial["parameters"][0]["value"] for trial in study["trials"]]
    assert len(set(values)) == TRIALS
