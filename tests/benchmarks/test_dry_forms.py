"""Every benchmark still runs: its dry form comes to an end, and measures something."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from benchmarks.__main__ import ALL, MODULES, ON_REQUEST
from benchmarks.harness import has_missed

from benchmarks import __main__ as command

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


def test_without_a_name_the_names_are_listed_and_nothing_runs(capsys, monkeypatch):
    monkeypatch.setattr(command, "_run_alone", None)
    assert command.main([]) == 2
    assert command.main(["--dry"]) == 2
    printed = capsys.readouterr().err
    assert all(f"  {name}" in printed for name in (*MODULES, ALL))


def test_all_runs_each_benchmark_that_takes_minutes_once(monkeypatch, tmp_path):
    names = []

    def run_alone(name, *, dry):
        names.append(name)
        return {"benchmark": name, "dry": dry, "goals": [], "left_out": {}}

    monkeypatch.setattr(command, "_run_alone", run_alone)
    assert command.main(["launch", ALL, "--dry", "--json", str(tmp_path / "all.json")]) == 0
    assert sorted(names) == sorted(MODULES.keys() - {*ON_REQUEST})
    with pytest.raises(SystemExit):
        command.main(["launch", "lunch"])
