"""What is told of an attempt: how long it ran though nobody saw the end, and what stands."""

import os
from pathlib import Path

import pytest

from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.observe import (
    AttemptRecords,
    compose_ended,
    compose_observation,
    lost_s,
    ran_s,
)
from trainshed.engines.supervise.record.records import Decided, Ended, Ready, append
from trainshed.model.attempt import AttemptKey, Outcome, Phase

BEGAN_S = 1_800_000_000


def written(path, after_s):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    os.utime(path, (BEGAN_S + after_s, BEGAN_S + after_s))


def test_an_attempt_ran_until_its_last_sign_of_life_and_not_until_somebody_looked(tmp_path):
    folder = AttemptFolder(tmp_path)
    written(folder.plan, 0)
    written(folder.records, 5)
    assert ran_s(folder) == 5
    written(tmp_path / "log" / "00000001.jsonl", 60)
    assert ran_s(folder) == 60
    written(Path(folder.shared) / "workerpool0-0", 300)
    written(folder.order, 90_000)  # by the server that came back
    assert ran_s(folder) == 300


def test_an_attempt_that_was_lost_ended_with_its_last_sign_of_life(tmp_path):
    """It is not known while the next sample may still come, and without samples not at all."""
    folder = AttemptFolder(tmp_path)
    written(folder.records, 5)
    assert lost_s(folder, BEGAN_S + 90_000) is None
    written(folder.usage, 60)
    assert lost_s(folder, BEGAN_S + 90_000) == BEGAN_S + 60
    assert lost_s(folder, BEGAN_S + 600) is None
    assert lost_s(AttemptFolder(tmp_path / "none"), BEGAN_S + 90_000) is None


@pytest.mark.parametrize(("has_end", "expected_s"), [(True, BEGAN_S + 60), (False, None)])
def test_an_attempt_ended_when_its_end_was_recorded(tmp_path, has_end, expected_s):
    """A record of its start does not show when an attempt ended whose end a cluster reported."""
    folder = AttemptFolder(tmp_path)
    append(folder.records, Ready(("primary-0",)), durably=False)
    if has_end:
        append(folder.records, Decided(0, "done", "", False), durably=False)
    os.utime(folder.records, (BEGAN_S + 60, BEGAN_S + 60))
    records = AttemptRecords()
    records.read(folder.records)
    outcome = Outcome(exit_code=0, message="done")
    assert compose_ended(AttemptKey(1, 1), records, outcome).ended_s == expected_s


def test_without_its_plan_nobody_can_say_it(tmp_path):
    assert ran_s(AttemptFolder(tmp_path)) is None


def test_what_was_decided_stands_though_the_supervisor_failed_afterwards():
    end = Ended(Outcome(exit_code=1, message="ours"), fault="the local engine failed", lost=True)
    records = AttemptRecords(decided=Decided(0, "all is done", "", False), ended=end)
    observation = compose_observation(AttemptKey(1, 1), records)
    assert (observation.phase, observation.outcome.exit_code) == (Phase.ENDED, 0)
    records.decided = None
    assert compose_observation(AttemptKey(1, 1), records).phase is Phase.LOST
