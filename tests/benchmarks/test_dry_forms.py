"""Every benchmark still runs: its dry form comes to an end, and measures something."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from benchmarks.__main__ import MODULES
from benchmarks.harness import has_missed

ROOT = Path(__file__).parents[2]
#: tests/gpu/test_figures.py rehearses each of its measures.
ELSEWHERE = {"gpu"}
#: These import PyTorch.
TORCH = {"reduction", "planning-hosts"}
#: A cluster starts, or servers again and again, or a browser; ``make test`` only imports these.
LONG = {
    *("slurm", "kubernetes", "isolation", "service", "logs", "startup", "planning-speed"),
    *("launch", "job-cost", "bodies", "recovery", "console_stream", "console", "console-logs"),
    *("connections", "studies", "storage", "early-stopping", "early-rungs", "observability"),
}

pytestmark = pytest.mark.slow


def dry(name, folder):
    """The document of a dry run."""
    file = folder / "report.json"
    command = [sys.executable, "-m", "benchmarks", name, "--dry", "--json", file]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(file.read_text())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.full] if name in LONG | TORCH else [])
        for name in MODULES
        if name not in ELSEWHERE
    ],
)
def test_the_dry_form_of_a_benchmark_runs(name, tmp_path):
    document = dry(name, tmp_path)
    assert document["goals"] or document["data"] or document["left_out"]
    assert not has_missed(document)


@pytest.mark.parametrize("name", sorted(LONG))
def test_a_benchmark_with_a_long_dry_form_can_be_imported(name):
    assert import_module(f"benchmarks.{MODULES[name]}").BENCHMARK.description
