"""Full disks, removed and odd files: nothing is taken for dead that lives, or the reverse."""

import errno
import os

import pytest

from engines.attempts import (
    KEY,
    OTHER,
    ended,
    engine_at,
    folder,
    marked,
    observe,
    order,
    record,
    until,
)
from engines.support import FOREVER, marked_processes, wait_until
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import Phase
from trainshed.model.faults import EngineFault


def test_a_running_attempt_whose_lock_was_removed_is_not_taken_for_lost(root, mark):
    """A second attempt would be started beside it."""
    engine_at(root).launch(KEY, marked(mark, FOREVER), ())
    until(engine_at(root), Phase.READY)
    (folder(root) / "lock").unlink()
    other = engine_at(root)
    assert observe(other).phase is Phase.READY
    other.stop(KEY, order(0.0))
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
            engine.stop(KEY, order(1.0))
    wait_until(lambda: record(root, "Ended"), "the attempt has ended")
    assert not marked_processes(mark)
    ended(engine)


@pytest.mark.parametrize("name", ["records.jsonl", "stop"])
def test_a_folder_that_makes_no_sense_hides_no_other_attempt(root, mark, name):
    """Programs run as the server's user: what they can write to is not to be trusted."""
    engine, odd = engine_at(root), OTHER
    engine.launch(KEY, marked(mark, "print('fine')"), ())
    folder(root, odd).mkdir(parents=True)
    strange = folder(root, odd) / name
    strange.write_text('"strange"\n')
    ended(engine)
    phases = {observation.key: observation.phase for observation in engine.observe([odd, KEY])}
    assert phases == {odd: Phase.UNKNOWN, KEY: Phase.ENDED}
    strange.unlink()
    strange.with_name("plan.json").write_text("{}")
