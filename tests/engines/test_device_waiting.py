"""A device is free only when nobody computes on it, however long ago its job has ended."""

import os
import subprocess
import sys
from contextlib import suppress

import pytest

from engines.support import DEADLINE_S, kill_and_leave, sleeping, wait_until
from trainshed.engines.local.devices import find
from trainshed.engines.local.devices import wait as device_waiting
from trainshed.engines.local.devices.find import open_devices_of
from trainshed.engines.local.devices.wait import busy_after, command

UUIDS = ["GPU-fake-0000", "GPU-fake-0003"]


@pytest.fixture
def process(tmp_path, monkeypatch):
    """One that computes on the second of the devices."""
    monkeypatch.setenv(find.FOLDER, str(tmp_path))
    started = sleeping()
    (tmp_path / "GPU-fake-0003.pids").write_text(str(started.pid))
    yield started
    started.kill()
    started.wait()


def test_it_ends_when_the_last_process_has_left(process):
    looks = []
    with open_devices_of(UUIDS) as look:

        def looked():
            looks.append(look())
            if len(looks) == 3:
                process.kill()
            return looks[-1]

        assert not busy_after(looked, 60.0)
    assert len(looks) >= 4


def test_after_its_time_it_tells_who_is_still_there(process, monkeypatch, capsys):
    monkeypatch.setattr(device_waiting, "LIMIT_S", 0.0)
    monkeypatch.setattr(sys, "argv", ["", *UUIDS])
    assert device_waiting.main() == 0
    assert capsys.readouterr().out == (
        f"GPU-fake-0003 is not free 0 s after the job: process {process.pid} (sleep)\n"
    )


def test_the_command_looks_again_as_long_as_a_process_is_on_the_device(process, tmp_path):
    """Every look is answered by the test; one device after the other, so that none is mixed up."""
    first, second = (tmp_path / f"{uuid}.pids" for uuid in UUIDS)
    second.unlink()
    for path in (first, second):
        os.mkfifo(path)
    waiting = subprocess.Popen(command(sys.executable, UUIDS), stdout=subprocess.PIPE)
    try:
        for _ in range(3):
            answer(first, "")
            answer(second, str(process.pid))
        answer(first, "")
        kill_and_leave(process)  # there is no look after the next
        answer(second, str(process.pid))
        assert waiting.communicate(timeout=DEADLINE_S) == (b"", None)
        assert waiting.returncode == 0
    finally:
        waiting.kill()
        waiting.communicate()


def answer(path, text):
    """Write to a FIFO once somebody reads it."""

    def opened():
        with suppress(OSError):
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)

    with os.fdopen(wait_until(opened, f"{path.name} is read"), "w") as file:
        file.write(text)


def test_without_a_driver_and_without_devices_nothing_is_waited_for():
    assert command(sys.executable, []) is None
    with open_devices_of(["GPU-1234"]) as look:
        assert not busy_after(look, 0.0)


def test_a_supervisor_of_the_release_before_finds_it_by_its_old_name(tmp_path, monkeypatch):
    monkeypatch.setenv(find.FOLDER, str(tmp_path))
    new = command(sys.executable, UUIDS)
    old = [word.replace("devices.wait", "device_waiting") for word in new]
    assert old != list(new)
    completed = subprocess.run(old, capture_output=True, check=True)
    assert completed.stdout == completed.stderr == b""
