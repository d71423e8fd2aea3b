"""A trainer under gcloud's own local train and under ours is told the same (contract 9.1)."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("gcloud") is None, reason="no gcloud: put its SDK on PATH"),
]

TRAINSHED = Path(sys.executable).parent / "trainshed"
GCLOUD = shutil.which("gcloud") or "gcloud"

#: Writes what it was told; the primary waits for the others, for a job ends with it.
TELL = """\
import json, os, pathlib, sys, time
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
name = f"{task.get('type', 'alone')}-{task.get('index', 0)}"
told = {"argv": sys.argv[1:], "cwd": os.getcwd(), "config": config}
half = pathlib.Path(f"{name}.half")
half.write_text(json.dumps(told))
half.replace(pathlib.Path("told", name))
while name == "chief-0" and len(os.listdir("told")) < int(os.environ["REPLICAS"]):
    time.sleep(0.05)
sys.exit(int(os.environ.get("END_WITH", 0)))
"""


@pytest.fixture
def project(tmp_path):
    package = tmp_path / "trainer"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "task.py").write_text(TELL)
    return tmp_path


def train(command, project, *argv, **environ):
    """Run local train in the project; the exit code, and what each replica was told."""
    folder = project / "told"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    own = {
        "CLOUDSDK_CONFIG": str(project / "gcloud"),
        "TRAINSHED_DATA_DIR": str(project / "data"),
    }
    done = subprocess.run(
        [*command, "ai-platform", "local", "train", "--module-name", "trainer.task",
         "--package-path", "trainer", *argv],
        cwd=project,
        env={**os.environ, **own, **environ},
        text=True,
        capture_output=True,
        timeout=240,
        check=False,
    )  # fmt: skip
    return done.returncode, {p.name: json.loads(p.read_text()) for p in folder.iterdir()}


def both(project, *argv, **environ):
    return (
        train([GCLOUD], project, *argv, **environ),
        train([TRAINSHED], project, *argv, **environ),
    )


def test_a_distributed_job_has_the_same_cluster_tasks_arguments_and_folder(project):
    counts = ("--worker-count", "2", "--parameter-server-count", "1", "--evaluator-count", "1")
    ports = ("--start-port", "31200")
    words = ("--job-dir", "gs://bucket/out", "--", "--epochs", "2", "-x")
    theirs, ours = both(project, "--distributed", *counts, *ports, *words, REPLICAS="5")
    assert theirs[0] == ours[0] == 0
    assert len(theirs[1]) == 5
    assert theirs[1].keys() == ours[1].keys()
    for name, report in theirs[1].items():
        mine = ours[1][name]
        assert mine["cwd"] == report["cwd"]
        assert mine["config"]["environment"] == report["config"]["environment"] == "cloud"
        assert {k: mine["config"]["task"][k] for k in ("type", "index")} == report["config"]["task"]
        assert addresses(mine) == addresses(report)
        # the bucket is a folder here (decision: --gs-paths), at the same place in the arguments
        assert mine["argv"][:-1] == report["argv"][:-1]
        assert mine["argv"][-1].endswith("bucket/out")


def addresses(report):
    """The cluster with ports alone: gcloud says localhost, we its address."""
    cluster = report["config"]["cluster"]
    return {
        role: [re.sub(r".*:", "", address) for address in all_] for role, all_ in cluster.items()
    }


def test_a_single_process_is_told_exactly_the_same_and_its_exit_code_is_passed_on(project):
    theirs, ours = both(project, "--", "--epochs", "2", END_WITH="3")
    assert theirs[0] == ours[0] == 3
    assert theirs[1].keys() == {"alone-0"}
    assert theirs[1] == ours[1]


def test_every_flag_of_gclouds_is_taken():
    help_output = subprocess.run(
        [GCLOUD, "ai-platform", "local", "train", "--help"],
        env={**os.environ, "PAGER": "cat"},
        text=True,
        capture_output=True,
        check=True,
        timeout=120,
    ).stdout
    own = help_output[help_output.index("FLAGS") : help_output.index("GCLOUD WIDE FLAGS")]
    flags = set(re.findall(r"(--[a-z][a-z-]+)", own))
    assert {"--module-name", "--package-path", "--job-dir", "--start-port"} <= flags
    help_text = subprocess.run(
        [TRAINSHED, "ai-platform", "local", "train", "--help"],
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout
    assert {flag for flag in flags if flag not in help_text} == set()
