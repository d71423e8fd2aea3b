"""Programs that make no progress, or ignore their checkpoints, are told of and left alone."""

import pytest

from engines.attempts import (
    KEY,
    ended,
    engine_at,
    folder,
    lines,
    marked,
    observe,
    order,
    record,
    texts,
    until,
)
from engines.support import FOREVER, wait_until
from trainshed.model.attempt import AttemptKey, Phase

SECOND = AttemptKey(KEY.uid, 2)
#: Longer than the machine may keep a program waiting that is to show progress all the time.
HANG_S = 3.0


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Stands for py-spy."""
    program = tmp_path / "bin" / "py-spy"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'Thread 1 (idle)'\necho '    train (task.py:7)'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def of_service(root, key=KEY):
    return [line for line in lines(root, key) if line.task_name == "service"]


@pytest.mark.usefixtures("tool")
def test_a_replica_that_hangs_is_named_with_its_stacks_until_it_goes_on(root, mark, tmp_path):
    go = tmp_path / "go"
    hangs = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.3)\n"
    code = hangs + "while True:\n    print('again', flush=True)\n    time.sleep(0.05)\n"
    works = "while True: pass"
    engine = engine_at(root, hang_s=HANG_S)
    engine.launch(KEY, marked(mark, works, code), ())
    (hang,) = wait_until(lambda: observe(engine).hung, "the hang was found")
    assert hang.task_name == "worker-replica-0"
    assert hang.seconds >= HANG_S
    assert hang.stacks == "Thread 1 (idle)\n    train (task.py:7)"
    assert observe(engine).phase is Phase.READY
    warnings = wait_until(lambda: len(of_service(root)) > 2 and of_service(root), "the log says it")
    assert warnings[0].text.startswith("worker-replica-0 has shown no progress for")
    assert [line.severity for line in warnings] == ["WARNING"] * 3
    assert warnings[2].text == "worker-replica-0:     train (task.py:7)"
    go.touch()
    wait_until(lambda: not observe(engine).hung, "it has gone on")
    again = "worker-replica-0 makes progress again"
    wait_until(lambda: again in texts(root, "service"), "the log says that too")
    engine.stop(KEY, order(0.0))
    ended(engine)


def test_a_heartbeat_is_progress(root, mark, tmp_path):
    """It neither writes nor computes; its file alone says that it lives."""
    go = tmp_path / "go"
    code = (
        "import os, pathlib, time\n"
        "beat = pathlib.Path(os.environ['TRAINSHED_PROGRESS_FILE'])\n"
        f"while not os.path.exists({str(go)!r}):\n    beat.touch()\n    time.sleep(0.05)\n"
    )
    engine = engine_at(root, hang_s=HANG_S, hang_stacks=False)
    engine.launch(KEY, marked(mark, code, FOREVER), ())
    (hang,) = wait_until(lambda: observe(engine).hung, "the other hangs")
    assert hang.task_name == "worker-replica-0"
    assert hang.stacks == ""
    go.touch()
    ended(engine)
    assert record(root, "Hung")["task_name"] == "worker-replica-0"


def test_nobody_looks_where_no_time_was_set(root, mark):
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, "import time; time.sleep(1)"), ())
    assert not ended(engine).hung
    assert record(root, "Hung") is None


@pytest.mark.parametrize("reads", [True, False])
def test_a_restarted_program_that_ignores_its_checkpoints_is_warned_of(root, mark, tmp_path, reads):
    checkpoint = tmp_path / "checkpoints" / "step-7.pt"
    checkpoint.parent.mkdir()
    checkpoint.write_text("weights")
    code = f"open({str(checkpoint)!r}).read()" if reads else "pass"
    engine = engine_at(root)
    engine.launch(SECOND, marked(mark, code, checkpoints=(str(checkpoint.parent),)), ())
    ended(engine, SECOND)
    warnings = of_service(root, SECOND)
    assert [line.severity for line in warnings] == ([] if reads else ["WARNING"])
    assert reads or str(checkpoint) in warnings[0].text


def test_a_first_attempt_has_nothing_to_resume_from(root, mark, tmp_path):
    (tmp_path / "data.bin").write_text("not a checkpoint of ours")
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, "pass", checkpoints=(str(tmp_path),)), ())
    assert until(engine, Phase.ENDED).outcome.exit_code == 0
    assert texts(root, "service") == []
    assert folder(root).exists()
