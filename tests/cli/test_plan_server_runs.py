"""``trainshed plan calibrate --on-server``: short jobs of a server say how a trainer scales."""

import json
import signal
from types import SimpleNamespace

import pytest

from cli.conftest import FINAL, PARENT
from trainshed.cli.plan import server_runs
from trainshed.client.faults import Unreachable
from trainshed.planning.scaling.calibration import Run, RunKind
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


def test_a_job_becomes_a_run_that_plans_are_made_from(client, job_file, tmp_path):
    file, out = job_file(STEPS), tmp_path / "cluster.toml"
    model = ("--params", "1e6", "--precision", "bf16", "--network-gbps", "25")
    words = (file, "--hosts", "1,2", "--out", out, *model)
    answer = client("plan", "calibrate", "--on-server", *words)
    assert answer.code == 0, answer.err
    assert "2 hosts ran on 1 machine: the run is left out" in answer.err
    assert "iperf3 -c HOST" in answer.err
    calibration = read(out.read_text())
    assert [(run.kind, run.hosts) for run in calibration.runs] == [(RunKind.COMPUTE, 1)]
    assert calibration.host.machine_type == "n1-standard-4"
    assert (calibration.host.network_gbps, calibration.training.precision) == (25, "bf16")
    assert (calibration.training.parameters, calibration.training.gradient_bytes) == (1e6, 4e6)
    planned = client("plan", file, "--calibration", out, "--what-if", "hosts=1")
    assert planned.code == 0, planned.err


def test_hosts_of_one_machine_alone_are_no_calibration(client, job_file, tmp_path):
    out = tmp_path / "cluster.toml"
    run = client("plan", "calibrate", "--on-server", job_file(STEPS), "--hosts", "2", "--out", out)
    assert (run.code, out.exists()) == (2, False)
    assert "no job ran on as many machines as it has hosts" in run.err


@pytest.mark.parametrize(
    ("accelerators", "hosts", "kind"),
    [(1, 1, RunKind.COMPUTE), (8, 1, RunKind.HOST), (2, 2, RunKind.TWO_HOSTS)],
)
def test_a_job_is_the_short_run_of_as_many_hosts(accelerators, hosts, kind):
    run = Run(kind=RunKind.JOB, accelerators=accelerators, hosts=hosts, step_s=0.1)
    assert server_runs._convert_run(run).kind is kind


def test_a_job_that_reports_nothing_is_cancelled_and_leaves_no_file(
    server, client, job_file, tmp_path
):
    out = tmp_path / "cluster.toml"
    run = client(
        "plan", "calibrate", "--on-server", job_file(SILENT), "--seconds", "0.5", "--out", out
    )
    assert run.code == 2
    assert "reported no usable steps in 0.5 s" in run.err
    assert not out.exists()
    jobs = server.call("GET", f"/v1/{PARENT}/customJobs")[1]["customJobs"]
    calibration_jobs = [job for job in jobs if job["displayName"].startswith("calibrate_")]
    assert {job["state"] for job in calibration_jobs} <= FINAL
    assert "JOB_STATE_CANCELLED" in {job["state"] for job in calibration_jobs}


def test_a_job_that_fails_is_said_with_its_reason(client, job_file, tmp_path):
    out = tmp_path / "cluster.toml"
    file = job_file("raise SystemExit('no data here')")
    run = client("plan", "calibrate", "--on-server", file, "--out", out)
    assert run.code == 2
    assert "failed: The replica workerpool0-0 exited" in run.err
    assert "reported no usable steps" not in run.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--hosts", "0"), "must be a whole number from 1 to"),
        (("--hosts", "1,many"), "must be a whole number from 1 to"),
        (("--out", "/nosuch/there.toml"), "--out /nosuch/there.toml"),
        (("--seconds", "0"), "--seconds"),
        (("--processes", "2"), "--processes does not go with --on-server"),
        (("--", "--epochs", "2"), "-- ARGS do not go with --on-server"),
    ],
)
def test_what_cannot_be_done_is_refused_before_a_job_is_made(client, job_file, words, message):
    run = client("plan", "calibrate", "--on-server", job_file(STEPS), *words)
    assert run.code == 2
    assert message in run.err


def test_hosts_that_are_not_alike_are_refused_before_a_job_is_made(client, job_file):
    path = job_file(STEPS)
    pool = json.loads(path.read_text())["workerPoolSpecs"][0]
    larger = {**pool, "machineSpec": {"machineType": "n1-standard-8"}}
    path.write_text(json.dumps({"workerPoolSpecs": [pool, larger]}))
    run = client("plan", "calibrate", "--on-server", path, "--hosts", "2")
    assert (run.code, "must be of one kind" in run.err) == (2, True)
    tier = {"scaleTier": "STANDARD_1", "pythonModule": "trainer.task", "region": "us-central1"}
    path.write_text(json.dumps({"trainingInput": {**tier, "packageUris": ["gs://a/b.tar.gz"]}}))
    run = client("plan", "calibrate", "--on-server", path)
    assert (run.code, "scaleTier CUSTOM" in run.err) == (2, True), run.err


def test_a_job_is_cancelled_though_the_server_is_away_for_a_while(monkeypatch):
    monkeypatch.setattr(server_runs.time, "sleep", lambda _: None)
    calls = []

    class Away:
        def call(self, verb, path, _document=None):
            calls.append((verb, path))
            if len(calls) < 4:
                raise Unreachable("http://server.test")
            return {"state": "CANCELLED" if ("POST", "j:cancel") in calls[3:] else "RUNNING"}

    place = SimpleNamespace(server=Away())
    assert server_runs._cancel(place, "j:cancel", "j")
    assert ("POST", "j:cancel") in calls


def test_a_job_is_cancelled_before_sigterm_ends_the_command():
    orders, signals = [], [signal.SIGTERM]

    class Stopping:
        def call(self, verb, path, _document=None, **_query):
            if verb == "POST":
                orders.append(path)
            elif signals:
                signal.raise_signal(signals.pop())
            return {"jobId": "j", "state": "CANCELLED" if len(orders) > 1 else "RUNNING"}

    planned = SimpleNamespace(job=SimpleNamespace(group="ai-platform jobs", document={}), hosts=1)
    context = SimpleNamespace(server=Stopping(), project="p", region="us-central1")
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit):
            server_runs._measure_job(context, planned, server_runs._Times(60.0, 60.0))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert orders == ["/v1/projects/p/jobs", "/v1/projects/p/jobs/j:cancel"]
