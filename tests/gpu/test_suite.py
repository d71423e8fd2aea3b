"""``make test-gpu`` runs, says what it ran and what it could not, and skips without a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu import card as cards

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "scripts/gpu_suite.py"
ONE = "test_the_machine_has_the_devices_that_nvidia_smi_shows"

pytestmark = pytest.mark.skipif(cards.IS_REAL, reason="make test-gpu runs this suite now")


def run(card, out, *words):
    path = f"{Path(card.smi).parent}:{os.environ['PATH']}"
    argv = card.command(sys.executable, SUITE, "--out", out, "--venv", out.with_name("venv"))
    env = {**os.environ, "PATH": path, "TMPDIR": str(out.parent)}
    return subprocess.run((*argv, *words), env=env, capture_output=True, text=True, check=False)


def test_a_test_of_it_runs_on_what_the_driver_names(card, tmp_path):
    done = run(card, tmp_path / "out", "--only", ONE)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "out/gpu-tests.json").read_text())
    assert [(test["name"].rpartition("::")[2], test["outcome"]) for test in report["tests"]] == [
        (ONE, "passed")
    ]
    assert cards.H100 in report["gpu"]
    assert "missing: " in done.stdout


def test_without_a_gpu_it_says_so_and_is_well(tmp_path):
    with cards.fake(tmp_path / "card", []) as none:
        done = run(none, tmp_path / "out")
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "skipped")
    assert not (tmp_path / "out").exists()
