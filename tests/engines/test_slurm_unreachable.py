"""An attempt on a node that Slurm does not reach: nothing is known of it until somebody says so."""

import time

import pytest

from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.slurm import attempt_files
from trainshed.engines.slurm.attempt import SlurmAttempt
from trainshed.engines.slurm.attempt_files import SpoolRecord
from trainshed.engines.slurm.parse import SlurmJob
from trainshed.engines.slurm.poll import LastAnswer
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import AttemptKey, Loss, Phase
from trainshed.model.explanation import Reason

KEY = AttemptKey(4611686018427387904, 2)


def last_answer(state, *nodes):
    row = SlurmJob("7", 0, state, "", nodes, None, "ts-here-4611686018427387904", str(KEY))
    return LastAnswer({"7": [row]}, 3)


@pytest.fixture
def attempt(tmp_path):
    folder = AttemptFolder(str(tmp_path / "jobs" / str(KEY.uid) / str(KEY.attempt)))
    folder.make()
    attempt_files.keep_submitted(folder, SpoolRecord(time.time(), "7"))
    return SlurmAttempt(KEY, folder, "cluster", 90.0)


def test_it_is_unknown_and_says_who_may_end_that(attempt):
    observation = attempt.observation(
        last_answer("RUNNING", "n1", "n3"), lambda: frozenset({"n3", "n9"})
    )
    assert observation.phase is Phase.UNKNOWN
    assert observation.waits.reason is Reason.ENGINE_AWAY
    assert "Slurm cannot reach n3" in observation.waits.message
    assert f"trainshed attempts fence {KEY}" in observation.waits.message
    assert observation.waits.blockers == ("n3",)


def test_a_node_that_answers_again_heals_it(attempt):
    attempt.observation(last_answer("RUNNING", "n3"), lambda: frozenset({"n3"}))
    observation = attempt.observation(last_answer("RUNNING", "n3"), frozenset)
    assert (observation.phase, observation.waits) == (Phase.STARTING, None)


def test_an_administrators_word_makes_it_lost_for_good(attempt):
    attempt.observation(last_answer("RUNNING", "n3"), lambda: frozenset({"n3"}))
    attempt_files.keep_end(attempt.folder, EndByCluster("somebody said so", Loss.INFRA, ("n3",)))
    observation = attempt.observation(last_answer("RUNNING", "n3"), lambda: frozenset({"n3"}))
    assert (observation.phase, observation.loss) == (Phase.LOST, Loss.INFRA)
    assert attempt.observation(last_answer("RUNNING", "n3"), frozenset).phase is Phase.LOST
