"""``trainshed plan calibrate-jobs``: short jobs of a server say how a trainer scales."""

import json

import pytest

from cli.conftest import FINAL, PARENT
from trainshed.planning.scaling.calibration import RunKind
from trainshed.planning.scaling.calibration_file import read

STEPS = """
import time
from trainshed_trainer import progress
for step in range(40):
    time.sleep(0.01)
    progress(step)
"""
SILENT = "import time; time.sleep(1000)"


@pytest.fixture
def job_file(tmp_path):
    def write(program):
        pool = {
            "machineSpec": {"machineType": "n1-standard-4"},
            "replicaCount": 1,
            "containerSpec": {"imageUri": "registry.test/a", "command": ["python", "-c", program]},
        }
        path = tmp_path / "job.json"
        path.write_text(json.dumps({"workerPoolSpecs": [pool]}))
        return path

    return write


def test_a_job_of_each_count_becomes_a_run_that_plans_are_made_from(client, job_file, tmp_path):
    file, out = job_file(STEPS), tmp_path / "cluster.toml"
    found = client("plan", "calibrate-jobs", file, "--hosts", "1,2", "--out", out)
    assert found.code == 0, found.err
    assert "2 hosts do" in found.out
    made = read(out.read_text())
    assert [(run.kind, run.hosts) for run in made.runs] == [
        (RunKind.COMPUTE, 1),
        (RunKind.TWO_HOSTS, 2),
    ]
    assert made.host.machine_type == "n1-standard-4"
    planned = client("plan", file, "--calibration", out, "--what-if", "hosts=1,2,4")
    assert planned.code == 0, planned.err


def test_a_job_that_reports_nothing_is_cancelled_and_leaves_no_file(
    server, client, job_file, tmp_path
):
    out = tmp_path / "cluster.toml"
    found = client("plan", "calibrate-jobs", job_file(SILENT), "--seconds", "0.5", "--out", out)
    assert found.code == 2
    assert "reported no steps that could be used in 0.5 s" in found.err
    assert not out.exists()
    jobs = server.call("GET", f"/v1/{PARENT}/customJobs")[1]["customJobs"]
    made = [job for job in jobs if job["displayName"].startswith("calibrate_")]
    assert {job["state"] for job in made} <= FINAL
    assert "JOB_STATE_CANCELLED" in {job["state"] for job in made}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--hosts", "0"), "counts from 1 to"),
        (("--hosts", "1,many"), "counts from 1 to"),
        (("--out", "/nosuch/there.toml"), "--out /nosuch/there.toml"),
        (("--seconds", "0"), "--seconds"),
    ],
)
def test_what_cannot_be_done_is_refused_before_a_job_is_made(client, job_file, words, said):
    found = client("plan", "calibrate-jobs", job_file(STEPS), *words)
    assert found.code == 2
    assert said in found.err
