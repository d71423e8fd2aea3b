"""``benchmarks/gpu/figures.py`` goes through on any machine, and leaves its figures in a file.

Its rehearsal is tried here: no figure of it means anything, and none is looked at.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu import card as cards

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG"
BROKEN = """
import sys, types
broken = sys.modules["benchmarks.gpu.start"] = types.ModuleType("benchmarks.gpu.start")
def measure(bench):
    yield {{"name": "first", "value": 1.0}}
    raise ValueError("the card is on fire")
broken.measure = measure
from benchmarks.__main__ import main
main(["gpu", "--out", {out!r}, "--into", {out!r} + "/rows", "--only", "start", "--dry"])
"""
pytestmark = pytest.mark.slow


def rehearsed(out, *words):
    command = [sys.executable, "-m", "benchmarks", "gpu", "--out", out, "--dry", *words]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return done, json.loads((out / "gpu-figures.json").read_text())


def test_figures_and_the_machine_they_were_taken_on_are_in_a_file(tmp_path):
    done, document = rehearsed(tmp_path, "--only", "cancel")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"date", "device", "torch", "cpus", "dry"} <= set(document)
    assert {row["measure"] for row in document["figures"]} == {"cancel"}
    assert all({"name", "value", "unit", "goal", "of"} <= set(row) for row in document["figures"])
    assert "a cancelled job's GPU is empty" in done.stdout
    assert "picture" in document["not_measured"] or (
        (tmp_path / "gpu-figures.png").read_bytes().startswith(PNG)
    )


def test_when_the_time_is_over_no_measure_begins_and_each_is_named(tmp_path):
    done, document = rehearsed(tmp_path, "--seconds", "0")
    assert done.returncode == 1
    assert document["not_measured"]["steps"] == "the time was over"
    assert document["figures"] == []


def test_a_measure_that_fails_says_why_and_keeps_what_it_had(tmp_path):
    code = BROKEN.format(out=str(tmp_path))
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    outcome = json.loads((tmp_path / "rows").read_text())
    assert [row["name"] for row in outcome["rows"]] == ["first"]
    assert outcome["reason"] == "ValueError: the card is on fire"


@pytest.mark.full
@pytest.mark.skipif(cards.IS_REAL, reason="make test-gpu takes the figures themselves")
@pytest.mark.parametrize("name", ["steps", "start", "reduction", "sampling", "check"])
def test_every_measure_goes_through(name, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed; make test installs it")
    done, document = rehearsed(tmp_path, "--only", name)
    assert document["not_measured"].get(name) is None, done.stdout + done.stderr
    assert document["figures"], done.stdout
