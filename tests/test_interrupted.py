"""A test run that SIGTERM ends leaves nothing of its fixtures behind."""

import os
import subprocess
import sys
import time
from pathlib import Path

TEST = """\
import pathlib, time
import pytest

HERE = pathlib.Path(__file__).parent

@pytest.fixture(scope="session")
def database():
    (HERE / "begun").touch()
    yield
    (HERE / "ended").touch()

def test_that_waits(database):
    time.sleep(300)
"""


def test_fixtures_of_a_worker_end_what_they_started(tmp_path):
    (tmp_path / "test_waiting.py").write_text(TEST)
    flags = ["--disable-plugin-autoload", "-pxdist.plugin", "-pinterrupted", "-n1", "-q"]
    folders = ["-c", os.devnull, "--rootdir", tmp_path, "--basetemp", tmp_path / "temporary"]
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", *flags, *folders, tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        stdout=subprocess.DEVNULL,
    )
    with run:
        while not (tmp_path / "begun").exists():
            assert run.poll() is None
            time.sleep(0.05)
        run.terminate()
        run.terminate()
    assert run.returncode == 2  # as after Ctrl+C
    assert (tmp_path / "ended").exists()
