"""Whether a restarted program has opened what its earlier attempts have left."""

import subprocess
import sys

import pytest

from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.spec import AttemptSpec
from trainshed.engines.supervise.watch.watch_checkpoints import CheckpointWatch
from trainshed.engines.supervise.watching import Watching


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "step-3").mkdir()
    (tmp_path / "step-3" / "model.bin").write_bytes(b"weights")
    (tmp_path / "events.out.tfevents.1").write_bytes(b"curve")
    (tmp_path / ".step-4.partial").write_bytes(b"torn")
    (tmp_path / "empty").touch()
    staged = tmp_path / "packages" / ("0123456789abcdef" * 4)
    staged.mkdir(parents=True)
    (staged / "trainer-0.1.tar.gz").write_bytes(b"the program, as gcloud puts it there")
    return tmp_path


@pytest.fixture
def watch(folder):
    watch = CheckpointWatch([str(folder), str(folder / "not-there")])
    yield watch
    watch.close()


def elsewhere(program, folder):
    subprocess.run([sys.executable, "-c", program, str(folder)], check=True, timeout=60)


def test_one_that_reads_none_is_warned_of_with_the_newest(watch, folder):
    elsewhere("import sys, os; print(list(os.walk(sys.argv[1])))", folder)
    warning = watch.warning()
    assert "none of the 1 files" in warning
    assert str(folder / "step-3" / "model.bin") in warning


def test_one_that_opens_it_is_not(watch, folder):
    elsewhere("import sys; open(sys.argv[1] + '/step-3/model.bin', 'rb').read()", folder)
    assert watch.were_opened()
    assert watch.warning() is None


def test_what_was_opened_wakes_the_supervisor_once(folder, tmp_path_factory):
    loop, turns, is_over = Loop(), 0, []
    spec = AttemptSpec(
        uid=1, attempt=2, job_id="j", grace_s=0.0, settle_s=0.0, replicas=(),
        checkpoints=(str(folder),),
    )  # fmt: skip
    watching = Watching(
        loop, AttemptFolder(tmp_path_factory.mktemp("attempt")), spec,
        replicas=None, facts=None, note=None,
    )  # fmt: skip
    elsewhere("import sys; open(sys.argv[1] + '/step-3/model.bin').read()", folder)
    loop.turn()
    elsewhere("import sys; open(sys.argv[1] + '/step-3/model.bin').read()", folder)
    loop.after(0.5, lambda: is_over.append(True))
    while not is_over:
        loop.turn()
        turns += 1
    assert turns < 10
    watching.close()
    loop.close()


def test_writing_new_ones_is_no_reading(watch, folder):
    elsewhere("import sys; open(sys.argv[1] + '/step-9', 'wb').write(b'new')", folder)
    assert watch.warning() is not None


def test_other_files_of_training_are_no_checkpoints(watch, folder):
    elsewhere("import sys; open(sys.argv[1] + '/events.out.tfevents.1').read()", folder)
    assert watch.warning() is not None


def test_there_is_no_warning_where_nothing_was_left(tmp_path):
    watch = CheckpointWatch([str(tmp_path)])
    (tmp_path / "step-1").write_bytes(b"weights")
    assert watch.warning() is None
    assert watch.fileno() == -1
    watch.close()


def test_more_openings_than_the_kernel_remembers_never_lead_to_a_false_warning(watch, folder):
    program = """
import sys
for number in range(40000):
    open(f"{sys.argv[1]}/new-{number % 2}", "ab").close()
open(sys.argv[1] + "/step-3/model.bin", "rb").close()
"""
    elsewhere(program, folder)
    assert watch.warning() is None
