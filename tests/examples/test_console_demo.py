"""The demonstration of the console: one server that has jobs of every state."""

import re
import subprocess
import sys

import psutil
import pytest

from examples.cluster import EXAMPLES, needs
from trainshed.model.status import JobState
from trainshed.store.opening import open_store

DEMO = EXAMPLES / "console" / "demo.py"
TIMEOUT_S = 280


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(300)
@needs("torch")
def test_the_demo_has_jobs_of_every_state_and_leaves_no_process(tmp_path):
    folder = tmp_path / "console"
    done = subprocess.run(
        [sys.executable, DEMO, folder, "--end"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^http://127\.0\.0\.1:\d+/console/#code=\S+$", done.stdout, re.MULTILINE)
    store = open_store(f"sqlite:///{folder / 'trainshed.db'}")
    try:
        counts = store.counts()
    finally:
        store.close()
    assert {state for _, state in counts} == {state.value for state in JobState}
    assert sum(counts.values()) >= 200
    assert not processes_of(folder)


def processes_of(folder):
    """The command lines of processes that name the folder."""
    lines = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(folder) in line]
