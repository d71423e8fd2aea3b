"""An end that a cluster reported: stored in the attempt's folder, and told as an observation."""

import json
from pathlib import Path

import pytest

from trainshed.engines.cluster_end import EndByCluster, compose_end, keep_end, read_end
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.observe import AttemptRecords
from trainshed.engines.supervise.record.records import Ready
from trainshed.lifecycle.outcome import AttemptFacts, judge
from trainshed.model.attempt import AttemptKey, Loss, Phase
from trainshed.model.restarts import Budgets, Cause, Restarts
from trainshed.model.status import JobState

KEY = AttemptKey(7, 1)


@pytest.fixture
def folder(tmp_path):
    folder = AttemptFolder(str(tmp_path / "7" / "1"))
    folder.make()
    return folder


def test_an_end_is_read_as_it_was_stored(folder):
    end = EndByCluster("node n1 is gone", Loss.INFRA, ("n1",))
    assert read_end(folder, "end.json") is None
    keep_end(folder, "end.json", end)
    assert read_end(folder, "end.json") == end
    assert read_end(folder, "other.json") is None


def test_the_end_that_an_earlier_release_stored_is_read(folder):
    document = {"fault": "why", "loss": Loss.INFRA.value, "nodes": ["n1"], "stands": False}
    document |= {"early": False, "never": False}
    Path(folder.path, "end.json").write_text(json.dumps(document))
    assert read_end(folder, "end.json") == EndByCluster("why", Loss.INFRA, ("n1",))


def test_a_damaged_end_is_named(folder):
    Path(folder.path, "end.json").write_text("[]")
    with pytest.raises(ValueError, match="EndByCluster"):
        read_end(folder, "end.json")


@pytest.mark.parametrize(
    ("end", "phase", "exit_code", "loss"),
    [
        (EndByCluster("why", Loss.MAINTENANCE), Phase.LOST, None, Loss.MAINTENANCE),
        (EndByCluster("never", never=True), Phase.ENDED, 1, None),
        (EndByCluster("out of memory", exit_code=137), Phase.ENDED, 137, None),
        (EndByCluster(stands=True), Phase.LOST, None, None),
    ],
)
def test_the_observation_of_an_end_without_records(folder, end, phase, exit_code, loss):
    observation = compose_end(KEY, folder, AttemptRecords(), end)
    outcome = observation.outcome
    assert (observation.phase, outcome and outcome.exit_code) == (phase, exit_code)
    is_failure = exit_code == 137
    assert (observation.loss, observation.fault) == (loss, None if is_failure else end.fault)


@pytest.mark.parametrize(("used", "restarts"), [(0, True), (1, False)])
def test_a_program_that_is_killed_for_its_memory_restarts_by_its_own_budget(folder, used, restarts):
    """As on the local engine and on Slurm, where the program ends by SIGKILL."""
    why = "worker-0 was killed by SIGKILL: out of memory at its limit of 64Mi"
    records = AttemptRecords(ready=Ready(("primary-0", "worker-0")))
    observation = compose_end(KEY, folder, records, EndByCluster(why, exit_code=137))
    facts = AttemptFacts(attempt=1, used=Restarts(user=used), budgets=Budgets(user=1))
    judgement = judge(JobState.RUNNING, observation, facts)
    assert judgement.charged is (Cause.USER if restarts else None)
    assert (judgement.reason if restarts else judgement.error.message) == why
