"""Full disks, removed files, late runners: nothing is taken for dead that lives, or the reverse."""

import errno
import os
import subprocess
import sys

import pytest

from engines.attempts import KEY, ended, engine_at, folder, marked, record, seen, until
from engines.support import FOREVER, marked_processes, wait_until
from trainshed.engines.base import AttemptKey, Phase
from trainshed.engines.local import plan_file
from trainshed.engines.local.attempt_folder import AttemptFolder, StopOrder
from trainshed.engines.local.engine import RUNNER
from trainshed.engines.local.plan_file import Errand
from trainshed.model.faults import EngineFault


def test_a_running_attempt_whose_lock_was_removed_is_not_taken_for_lost(root, mark):
    """A second attempt would be started beside it."""
    engine_at(root).launch(KEY, marked(mark, FOREVER), ())
    until(engine_at(root), Phase.READY)
    (folder(root) / "lock").unlink()
    other = engine_at(root)
    assert seen(other).phase is Phase.READY
    other.stop(KEY, 0.0)
    ended(other)


def test_a_job_is_stopped_though_the_disk_has_no_room_for_the_order(root, mark, monkeypatch):
    """It may be the job that has filled it."""

    def no_room(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    engine = engine_at(root)
    engine.launch(KEY, marked(mark, FOREVER), ())
    until(engine, Phase.READY)
    with monkeypatch.context() as full:
        full.setattr(AttemptFolder, "give_order", no_room)
        with pytest.raises(EngineFault, match="No space left"):
            engine.stop(KEY, 1.0)
    wait_until(lambda: record(root, "Ended"), "the attempt has ended")
    assert not marked_processes(mark)
    ended(engine)


def test_a_runner_that_comes_after_its_attempt_was_given_up_leaves_no_word(root, mark, tmp_path):
    """An end of its own would fail the job; given up, it is started again."""
    attempt = AttemptFolder(folder(root))
    attempt.make()
    plan_file.write(
        attempt.plan, Errand(plan=marked(mark, f"open({str(tmp_path / 'ran')!r}, 'w')"))
    )
    attempt.give_order(StopOrder(grace_s=0.0, lost=True))
    subprocess.run([sys.executable, "-P", "-m", RUNNER, attempt.path], check=True)
    assert not (tmp_path / "ran").exists()
    assert seen(engine_at(root)).phase is Phase.LOST


@pytest.mark.parametrize("name", ["records.jsonl", "stop"])
def test_a_folder_that_makes_no_sense_hides_no_other_attempt(root, mark, name):
    """Programs run as the server's user: what they can write to is not to be trusted."""
    engine, odd = engine_at(root), AttemptKey(8, 1)
    engine.launch(KEY, marked(mark, "print('fine')"), ())
    folder(root, odd).mkdir(parents=True)
    strange = folder(root, odd) / name
    strange.write_text('"strange"\n')
    ended(engine)
    found = {observation.key: observation.phase for observation in engine.observe([odd, KEY])}
    assert found == {odd: Phase.UNKNOWN, KEY: Phase.ENDED}
    strange.unlink()
    strange.with_name("plan.json").write_text("{}")
