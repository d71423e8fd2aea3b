"""The demo of plans, and the check that hosts behind links do what was planned."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.reduction import shaped_network

from examples.cluster import EXAMPLES, needs

pytestmark = [
    pytest.mark.full,  # cli/test_plan_calibrate.py and cli/test_plan.py have each command
    pytest.mark.slow,
    pytest.mark.timeout(900),
    needs("torch", "sklearn", "matplotlib"),
]

FOLDER = EXAMPLES / "planning"
PNG = b"\x89PNG"


def called(*argv):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        argv,
        cwd=FOLDER,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_demo_measures_plans_and_draws(tmp_path):
    output = called("./demo.sh", tmp_path)
    assert "what more hosts would bring" in output
    assert "limited by links between hosts" in output
    assert (tmp_path / "plan.png").read_bytes().startswith(PNG)
    assert "<html" in (tmp_path / "plan.html").read_text()


def test_hosts_behind_links_are_drawn_beside_the_plan(tmp_path):
    if reason := shaped_network.why_not():
        pytest.skip(reason)
    output = called(
        sys.executable, "check.py", "--hosts", "1,2", "--seconds", "3", "--out", tmp_path
    )
    assert "PLANNED SAMPLES/S" in output
    assert (tmp_path / "planned-and-measured.png").read_bytes().startswith(PNG)
