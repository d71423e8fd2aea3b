"""Client programs with nothing changed in them, under ``trainshed run``."""

import os
import subprocess
from pathlib import Path

import pytest

from cli.conftest import listed
from conformance import gcloud as real
from conformance.client_scripts import python_of, results_of
from conformance.conftest import PROJECT
from server_process import TRAINSHED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAMS = Path(__file__).parent / "unchanged"
COMMAND_FILE = "hyperparameters.yaml"
STUDY = """\
studySpec:
  metrics: [{metricId: accuracy, goal: MAXIMIZE}]
  parameters: [{parameterId: x, doubleValueSpec: {minValue: 0.1, maxValue: 0.9}}]
trialJobSpec:
  workerPoolSpecs:
  - machineSpec: {machineType: n1-standard-4}
    replicaCount: 1
    containerSpec: {imageUri: gcr.io/x/trainer, command: [python, -c, "print('a trial')"]}
"""


@pytest.fixture
def under_run(server, tmp_path):
    """Run a command under ``trainshed run``; what it printed."""

    def running(*command, token=None):
        own = {"CLOUDSDK_CONFIG": str(tmp_path / "gcloud"), "CLOUDSDK_CORE_DISABLE_PROMPTS": "1"}
        own |= {"TMPDIR": str(tmp_path)}  # clients of Google leave files there
        own |= {"TRAINSHED_TOKEN": token} if token else {}
        done = subprocess.run(
            [TRAINSHED, "run", "--data-dir", server.data_dir, "--project", PROJECT, "--offline",
             "--", *command],
            env={**os.environ, **own},
            cwd=tmp_path,
            text=True,
            capture_output=True,
            timeout=400,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    return running


def vertex_results(under_run, venv, bucket, runs):
    program = (PROGRAMS / "vertex.py", bucket, *runs)
    return results_of(under_run(python_of(venv), "-W", "ignore", *program))


PROGRAM_NAMES = ("custom_job", "tuning_job", "training_pipeline")
EVERY_RUN = tuple(f"{way}.{name}" for way in ("grpc", "rest") for name in PROGRAM_NAMES)
#: Each program and each transport once; README runs a CustomJob over gRPC.
SHORT_RUNS = ("grpc.tuning_job", "rest.custom_job", "rest.training_pipeline")


@pytest.mark.parametrize(
    ("venv", "runs"),
    [
        pytest.param(".venv-google", SHORT_RUNS, id="short"),
        pytest.param(".venv-google", EVERY_RUN, id="newest", marks=pytest.mark.full),
        pytest.param(".venv-google-old", EVERY_RUN, id="1.60.0", marks=pytest.mark.full),
    ],
)
def test_the_programs_of_the_vertex_sdk_run_over_grpc_and_rest(under_run, server, venv, runs):
    bucket = f"unchanged{venv.removeprefix('.venv')}-{len(runs)}"  # all share the server
    results = vertex_results(under_run, venv, bucket, runs)
    ways = [way for way in ("grpc", "rest") if f"{way}.training_pipeline" in runs]
    model = {way: f"gs://{bucket}/{way}_training_pipeline/model" for way in ways}
    expected = {
        "custom_job": lambda _: {"state": "JOB_STATE_SUCCEEDED"},
        "tuning_job": lambda _: {"state": "JOB_STATE_SUCCEEDED", "trials": ["SUCCEEDED"] * 2},
        "training_pipeline": lambda way: {
            "state": "PIPELINE_STATE_SUCCEEDED", "model": model[way],
        },
    }  # fmt: skip
    for way, name in (run.split(".") for run in runs):
        assert results[way][name] == expected[name](way)
    assert results["stored"] == [f"{way}_training_pipeline/model/model.txt" for way in ways]
    assert results["emulator"] is None
    status, keys = server.call("GET", "/trainshed/v1/keys")
    assert (status, keys) == (200, {"keys": []})


@pytest.mark.parametrize("role", [pytest.param("admin", marks=pytest.mark.full), "submitter"])
def test_programs_read_and_write_gs_with_whichever_token_is_at_hand(under_run, server, role):
    document = {"name": role, "role": role}
    document |= {"project": PROJECT} if role == "submitter" else {}
    status, token = server.call("POST", "/trainshed/v1/tokens", document)
    assert status == 200, token
    python = python_of(".venv-gs")
    results = results_of(
        under_run(python, PROGRAMS / "files.py", "stage-bkt", token=token["token"])
    )
    assert results == {
        "project": PROJECT,
        "client": PROJECT,
        "credentials": "Credentials",
        "names": ["in/notes.txt", "in/parts.bin"],
        "size": 700_000,
        "listed": ["stage-bkt/in/notes.txt", "stage-bkt/in/parts.bin"],
        "text": "written by gcsfs",
    }


@real.needs_gcloud
@pytest.mark.usefixtures("trainer")
def test_three_generations_of_gcloud_commands_submit_jobs(under_run, server, tmp_path):
    (tmp_path / COMMAND_FILE).write_text(STUDY)
    submit = "jobs submit training"
    flags = (
        "--region us-central1 --package-path proj/trainer --module-name trainer.task "
        "--staging-bucket gs://stage-bkt --runtime-version 2.11 --python-version 3.7"
    )
    script = f"""
set -e
gcloud ml-engine {submit} oldest {flags}
gcloud ai-platform {submit} older {flags}
gcloud ai hp-tuning-jobs create --region us-central1 --display-name newest \
    --config {COMMAND_FILE} --max-trial-count 1 --parallel-trial-count 1
"""
    under_run("sh", "-c", script)
    jobs = listed(server, f"/v1/projects/{PROJECT}/jobs", "jobs")
    assert {"oldest", "older"} <= {job["jobId"] for job in jobs}
    studies = "hyperparameterTuningJobs"
    path = f"/v1/projects/{PROJECT}/locations/us-central1/{studies}"
    assert "newest" in {study["displayName"] for study in listed(server, path, studies)}
