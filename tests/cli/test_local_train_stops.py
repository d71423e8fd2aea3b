"""How a local run ends when this machine or the user stops it: one message, nothing left."""

import os
import signal
import socket
import subprocess
import sys
import time

import psutil

TRAIN = ("ai-platform", "local", "train", "--module-name", "trainer.task")


def test_a_taken_port_is_named_and_nothing_is_started(trainshed, trainer, tmp_path):
    trainer("open('ran', 'w')")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        run = trainshed(*TRAIN, "--start-port", port)
    assert run.code == 1
    assert f"error: port {port} is in use" in run.err
    assert not (tmp_path / "ran").exists()


def test_a_job_folder_that_cannot_be_written_to_stops_the_job_before_it_starts(
    trainshed, trainer, tmp_path
):
    trainer("open('ran', 'w')")
    (tmp_path / "out").write_text("a file")
    run = trainshed(*TRAIN, "--job-dir", "out")
    assert run.code == 1
    first, last = run.err.splitlines()
    assert first.startswith("trainshed: The job runs in ")
    assert last.startswith("error: cannot write to ")
    assert not (tmp_path / "ran").exists()


def test_ctrl_c_ends_every_replica_and_is_exit_code_130(trainer, tmp_path):
    trainer("import time; print('up', flush=True); time.sleep(600)")
    words = [sys.executable, "-m", "trainshed.cli.main", *TRAIN, "--distributed"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        up = 0
        while up < 5 and (line := process.stdout.readline()):
            up += "up" in line
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) >= 5
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err + out
    deadline = time.monotonic() + 90
    while any(map(alive, family)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(alive, family))


#: Saves at the notice of its end, then ends; a start that finds a checkpoint goes on from there.
SAVES = """
import sys, time
from trainshed_trainer import checkpoint_saver, latest_checkpoint, notice
found = latest_checkpoint()
if found:
    sys.exit(print("resumed at", found.read_text()))
notice()  # the first call has SIGTERM no longer end it
print("up", flush=True)
while notice() is None:
    time.sleep(0.01)
checkpoint_saver().save(7, lambda file: file.write(b"7"))
print("saved")
"""


def test_a_trainer_that_a_signal_stopped_has_saved_and_the_next_run_goes_on_from_there(
    trainshed, trainer, tmp_path
):
    trainer(SAVES)
    train = (*TRAIN, "--job-dir", "out")
    words = [sys.executable, "-m", "trainshed.cli.main", *train]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert any("up" in line for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM, err
    assert "saved" in out
    again = trainshed(*train)
    assert (again.code, "resumed at 7" in again.out) == (0, True), again.err


def alive(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
