import os
import subprocess
import sys
from dataclasses import replace

import pytest

from trainshed.files.server_files import (
    FILE,
    RunningServer,
    forget_running,
    read_running,
    write_running,
)

SERVER = RunningServer(
    url="http://127.0.0.1:8080", grpc="127.0.0.1:8081", pid=os.getpid(), anonymous=False, ca="/ca"
)


def test_what_a_server_writes_a_command_reads(tmp_path):
    assert read_running(tmp_path) is None
    write_running(tmp_path, SERVER)
    assert read_running(tmp_path) == SERVER
    assert SERVER.is_alive


def test_a_dead_server_is_known_to_be_dead():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    for pid in (process.pid, 0, -1, 2**70):
        assert not replace(SERVER, pid=pid).is_alive


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"url": "x"}', '{"url": 1, "pid": []}'])
def test_a_torn_note_is_as_none(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    assert read_running(tmp_path) is None


def test_a_server_takes_its_own_note_away_and_no_other(tmp_path):
    write_running(tmp_path, SERVER)
    forget_running(tmp_path, SERVER.pid + 1)
    assert read_running(tmp_path) == SERVER
    forget_running(tmp_path, SERVER.pid)
    assert read_running(tmp_path) is None
