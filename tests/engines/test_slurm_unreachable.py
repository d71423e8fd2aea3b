"""An attempt on a node that Slurm does not reach: nothing is known of it until somebody says so."""

import time

import pytest

from trainshed.engines.slurm import spool
from trainshed.engines.slurm.attempt import SlurmAttempt
from trainshed.engines.slurm.parse import SlurmJob
from trainshed.engines.slurm.poll import LastAnswer
from trainshed.engines.slurm.spool import EndInSlurm, SpoolRecord
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import AttemptKey, Loss, Phase
from trainshed.model.explanation import Reason

KEY = AttemptKey(4611686018427387904, 2)


def seen(state, *nodes):
    row = SlurmJob("7", 0, state, "", nodes, None, "ts-here-4611686018427387904", str(KEY))
    return LastAnswer({"7": [row]}, 3)


@pytest.fixture
def attempt(tmp_path):
    folder = AttemptFolder(str(tmp_path / "jobs" / str(KEY.uid) / str(KEY.attempt)))
    folder.make()
    spool.keep_submitted(folder, SpoolRecord(time.time(), "7"))
    return SlurmAttempt(KEY, folder, "cluster", 90.0)


def test_it_is_unknown_and_says_who_may_end_that(attempt):
    found = attempt.observation(seen("RUNNING", "n1", "n3"), lambda: frozenset({"n3", "n9"}))
    assert found.phase is Phase.UNKNOWN
    assert found.waits.reason is Reason.ENGINE_AWAY
    assert "Slurm does not reach n3" in found.waits.message
    assert f"trainshed attempts fence {KEY}" in found.waits.message
    assert found.waits.blockers == ("n3",)


def test_a_node_that_answers_again_heals_it(attempt):
    attempt.observation(seen("RUNNING", "n3"), lambda: frozenset({"n3"}))
    found = attempt.observation(seen("RUNNING", "n3"), frozenset)
    assert (found.phase, found.waits) == (Phase.STARTING, None)


def test_an_administrators_word_makes_it_lost_for_good(attempt):
    attempt.observation(seen("RUNNING", "n3"), lambda: frozenset({"n3"}))
    spool.keep_end(attempt.folder, EndInSlurm("somebody said so", Loss.INFRA, ("n3",)))
    found = attempt.observation(seen("RUNNING", "n3"), lambda: frozenset({"n3"}))
    assert (found.phase, found.loss) == (Phase.LOST, Loss.INFRA)
    assert attempt.observation(seen("RUNNING", "n3"), frozenset).phase is Phase.LOST
