"""Metrics of trials where something is wrong: garbage, a full disk, a killed supervisor."""

import os
import signal
from pathlib import Path

import pytest

from engines.attempts import (
    KEY,
    ended,
    engine_at,
    folder,
    observe,
    order,
    supervisor,
    until,
)
from engines.support import FOREVER, awaiting, marked_processes, touching, wait_until
from engines.test_supervisor_disk import refusing_writes
from engines.trials import HYPERTUNE, metric_file, steps, trial, whole
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import Phase

GARBAGE = {
    "nothing": ("pass", "was never written"),
    "another metric": (HYPERTUNE + "tune(1, 1, 'lr')\ntune(1, 1, 'error')", "metrics lr, error"),
    "a folder": ("os.mkdir(path)", "could not be read: it is not a file"),
    "a pipe": ("os.mkfifo(path)", "could not be read: it is not a file"),
    "a loop": ("os.symlink(path, path)", "could not be read: it is a symbolic link"),
    "bytes": ("open(path, 'wb').write(os.urandom(5_000_000) + b'\\n')", "that "),
    "no file at all": ("import shutil; shutil.rmtree(os.path.dirname(path))", "never written"),
    "a file in the folder's place": (
        "d = os.path.dirname(path); os.rmdir(d); open(d, 'w').close()",
        "could not be read: Not a directory",
    ),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_is_told_and_ends_nothing(root, mark, what):
    code, expected = GARBAGE[what]
    engine = engine_at(root)
    head = "path = os.environ['CLOUD_ML_HP_METRIC_FILE']\n"
    engine.launch(KEY, trial(root, mark, head + code), ())
    assert ended(engine).outcome.exit_code == 0
    metrics = whole(root)
    assert metrics.reports == ()
    assert expected in metrics.found
    assert len(metrics.found) <= 2000


def test_a_folder_that_is_made_anew_is_watched_again(root, mark):
    code = (
        f"import shutil\nshutil.rmtree({str(metric_file(root).parent)!r})\n{HYPERTUNE}"
        f"tune(0.5, 1)\n{FOREVER}"
    )
    engine = engine_at(root)
    engine.launch(KEY, trial(root, mark, code), ())
    wait_until(lambda: steps(engine.measured(KEY, 0)) == [1], "it is told while the program runs")
    engine.stop(KEY, order(0.0))
    ended(engine)


# the supervisor, and its folder


def test_a_full_disk_costs_no_report(root, mark, tmp_path):
    go, done = tmp_path / "go", tmp_path / "done"
    code = f"{awaiting(go)}{HYPERTUNE}\nfor i in range(50): tune(i, i)\n{touching(done)}{FOREVER}"
    engine = engine_at(root)
    engine.launch(KEY, trial(root, mark, code), ())
    until(engine, Phase.READY)
    with refusing_writes(supervisor(root)):
        go.touch()
        wait_until(done.exists, "it has reported")
        engine.stop(KEY, order(0.0))
        wait_until(lambda: not marked_processes(mark), "nothing of the job lives")
        assert observe(engine).phase is Phase.READY
        assert engine.measured(KEY, 0).reports == ()
    ended(engine)
    assert steps(whole(root)) == list(range(50))


def test_what_a_killed_supervisor_had_written_is_still_there(root, mark, tmp_path):
    engine = engine_at(root)
    code = HYPERTUNE + "for i in range(3): tune(i, i)\n" + touching(tmp_path / "done") + FOREVER
    engine.launch(KEY, trial(root, mark, code), ())
    wait_until(lambda: len(engine.measured(KEY, 0).reports) == 3, "all are told")
    os.kill(supervisor(root), signal.SIGKILL)
    until(engine, Phase.LOST)
    assert steps(whole(root)) == [0, 1, 2]


def test_a_torn_last_line_is_not_there_yet_and_garbage_is_passed_over(root, mark):
    engine = engine_at(root)
    engine.launch(KEY, trial(root, mark, HYPERTUNE + "tune(0.5, 1)\n"), ())
    ended(engine)
    before = whole(root)
    path = Path(AttemptFolder(folder(root)).reports)
    good = path.read_bytes()
    path.write_bytes(good + b'\0\0{"tag": 1}\n[]\n' + good + b'{"tag": "loss", "val')
    after = engine.measured(KEY, before.mark)
    assert after.reports == before.reports
    assert engine.measured(KEY, after.mark).mark == after.mark
    assert engine.measured(KEY, after.mark + 10**6).reports == ()
