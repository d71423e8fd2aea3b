"""The server killed at every place of a study's loop: each trial runs once, it ends well."""

import itertools
from collections import Counter
from functools import partial

import pytest

from controller.tuning_world import STEPS, script
from controller.world import nodes
from e2e.chaos import FULL
from e2e.failpoints import FailingServer, uid_of
from e2e.remote_engine import EngineHost
from e2e.support import FINAL, IMAGE, PARENT, end_all, wait_until
from trainshed.model.trials import Report
from trainshed.testing.fake_engine import FakeEngine

TRIALS, PARALLEL = 50, 4
PATH = f"/v1/{PARENT}/hyperparameterTuningJobs"
LOOP = "controller-studies"


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
    found = FakeEngine(nodes(4), script=quick)
    yield found
    assert found.violations == []


def test_a_study_whose_server_is_killed_everywhere(tmp_path, engine):
    with EngineHost(tmp_path / "engine", engine):
        server = FailingServer(tmp_path, engine=tmp_path / "engine")
        studies = []
        try:
            server.arm(None)
            assert server.begin()
            studies.append(create(server))
            wait_until(partial(places_of, server))
            server.kill()
            places, missed = kill_everywhere(server, studies)
            server.arm(None)
            assert server.begin()
            for name in studies:
                check_end(server, name, engine)
        finally:
            end_all(server)
    assert {place.rpartition(" ")[2] for place in places} >= {"before", "after"}
    assert any("apply_study" in place for place in places)
    assert not missed, missed


def places_of(server):
    return [place for place in server.seen() if LOOP in place and "apply" in place]


def kill_everywhere(server, studies):
    """Kill at every place that the loop comes to, at its first time and at a later one."""
    places, missed = [], []
    while todo := [place for place in places_of(server) if place not in places]:
        places += todo
        for place, after in itertools.product(todo, (1, 3) if FULL else (2,)):
            server.arm(place, after)
            if server.begin() and is_over(server, studies[-1]):
                studies.append(create(server))
            if not server.await_death():
                missed.append(place)
    return places, missed


def create(server):
    status, found = server.call("POST", PATH, a_study())
    assert status == 200, found
    return found["name"]


def is_over(server, name):
    answer = server.try_call("GET", f"/v1/{name}")
    return answer is not None and answer[1]["state"] in FINAL


def check_end(server, name, engine):
    """As an undisturbed study ends: every trial once, in its one attempt."""
    wait_until(lambda: is_over(server, name), timeout_s=240)
    _, found = server.call("GET", f"/v1/{name}")
    assert found["state"] == "JOB_STATE_SUCCEEDED", found
    assert [trial["id"] for trial in found["trials"]] == [str(n + 1) for n in range(TRIALS)]
    assert {trial["state"] for trial in found["trials"]} == {"SUCCEEDED"}
    jobs = [uid_of(trial["customJob"]) for trial in found["trials"]]
    assert len(set(jobs)) == TRIALS
    launched = Counter(key.uid for key in engine.launches)
    assert {job: launched[job] for job in jobs} == dict.fromkeys(jobs, 1)
    values = [trial["parameters"][0]["value"] for trial in found["trials"]]
    assert len(set(values)) == TRIALS
