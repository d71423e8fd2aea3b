"""The examples that ``--help`` shows work as printed, in a folder that has what they name.

Commands that talk to a server find one, with the job, the bucket and the images that they name.
"""

import contextlib
import io
import json
import shlex
from functools import cache

import pytest

from cli.conftest import FINAL, PARENT, pool
from service.keeping import Account, write_key_file
from trainshed.cli.main import main
from trainshed.cli.verbs import VERBS
from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.calibration_file import written
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.training import Training

#: The number that stands in the examples for one that a server gave.
NUMBER = "4611686018427387904"

#: Examples that are not run, and why.
LEFT_OUT = {
    "console": "it opens a browser; test_console_link has it",
    "tensorboard": "TensorBoard serves until it is stopped; test_tensorboard has it",
    "serve": "it serves until it is stopped; every test of a server starts it",
    "attempts fence": "the engine of this machine always knows; test_attempts_fence has one",
    "backup": "a server must have lived there; test_backups has it",
    "restore": "the same",
    "environments build": "it needs an index of packages; test_runtime_environments has one",
    "nodes drain": "no node of the tests is named gpu1; test_nodes has it",
    "nodes maintain": "the same",
    "nodes resume": "the same",
    "doctor": "a server must have lived there; test_doctor has it",
    "ai hp-tuning-jobs create": "answers UNIMPLEMENTED; test_jobs_verbs has it",
    "ai hp-tuning-jobs describe": "there is no tuning job yet",
    "ai hp-tuning-jobs cancel": "there is no tuning job yet",
    "ai hp-tuning-jobs stream-logs": "there is no tuning job yet",
    "ai hp-tuning-jobs watch": "there is no tuning job yet; test_tuning_watch has it",
    "ai hp-tuning-jobs report": "there is no tuning job yet; test_tuning_report has it",
    "ai-platform jobs report": "census_1 is not a tuning job; test_tuning_report has one",
    "plan history": "census_1 tells no steps; test_plan_history has jobs that do",
    "plan calibrate": "it needs a trainer that takes steps for a while",
    "jobs study": "there is no tuning job yet; test_job_study has it",
    "jobs resume": "no job of the tests is held; test_native_orders and test_trouble have some",
    "jobs manifest": "census_1 fails before it is sent to its engine; test_jobs_verbs has it",
}

ML = {
    "trainingInput": {"scaleTier": "CUSTOM", "masterType": "n1-standard-4",
                      "workerType": "n1-standard-4", "workerCount": 2},
}  # fmt: skip
POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": 1,
    "containerSpec": {"imageUri": "registry.test/img", "command": ["true"]},
}
TRAINER = "import json\nprint(json.dumps({'seconds': 0.5}))\n"


def help_of(verb):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert main([*verb.words, "--help"]) == 0
    return output.getvalue()


def commands():
    """Every command of every example, and whether it talks to a server."""
    for verb in VERBS:
        if verb.hidden or verb.text in LEFT_OUT:
            continue
        text = help_of(verb)
        for line in text.partition("example:\n")[2].replace("\\\n", " ").splitlines():
            if line.strip().startswith("trainshed"):
                words = shlex.split(line, comments=True)[1:]
                if "--watch" in words:  # it prints until Ctrl-C; test_jobs_follow has it
                    continue
                has_server = "--url" in text and "--url" not in words
                yield pytest.param(words, has_server, id=shlex.join(words))


@cache
def calibration_text():
    """As short runs on the machines of job.yaml would have left it."""
    host = HostKind(machine_type="n1-standard-4", accelerator="CPU", network_gbps=10)
    training = Training(batch_per_accelerator=64, gradient_bytes=1e5)
    run = Run(kind=RunKind.COMPUTE, steps=100, step_s=0.01)
    return written(calibrated(training, host, [run]))


STUDY = {
    "displayName": "study",
    "studySpec": {
        "metrics": [{"metricId": "accuracy"}],
        "parameters": [
            {"parameterId": "learning_rate", "doubleValueSpec": {"minValue": 0.001, "maxValue": 1}}
        ],
    },
    "trialJobSpec": {"workerPoolSpecs": [POOL]},
}


@pytest.fixture
def folder(tmp_path):
    package = tmp_path / "trainer"
    package.mkdir()
    (package / "__init__.py").touch()
    (tmp_path / "examples/gpu-check").mkdir(parents=True)
    for name in ("trainer/task.py", "task.py", "submit.py", "examples/gpu-check/steps.py"):
        (tmp_path / name).write_text(TRAINER)
    (tmp_path / "config.yaml").write_text(json.dumps(ML))
    (tmp_path / "job.yaml").write_text(json.dumps({"workerPoolSpecs": [POOL]}))
    custom = {"displayName": "custom", "jobSpec": {"workerPoolSpecs": [POOL]}}
    (tmp_path / "custom.yaml").write_text(json.dumps(custom))
    (tmp_path / "hpt.yaml").write_text(json.dumps(STUDY))
    (tmp_path / "results.csv").write_text("learning_rate,accuracy\n0.02,0.9\n")
    (tmp_path / "calibration.toml").write_text(calibration_text())
    account = Account()
    write_key_file(tmp_path / "service-account.json", account)
    (tmp_path / "ci.pem").write_text(account.public_pem)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_submit.py").write_text("def test_submit():\n    pass\n")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "*.yaml").write_text(json.dumps(ML))
    return tmp_path


@pytest.fixture
def on_server(client, server, created, monkeypatch):
    """Runs a command of a project that has what the examples name."""

    def run(*words):
        submits = "submit" in words
        monkeypatch.setenv("TRAINSHED_PROJECT", "local" if submits else "shown")
        if NUMBER in " ".join(words):
            name = pipeline(server) if "pipelines" in words else created(wait=FINAL)
            number = name.rpartition("/")[2]
            monkeypatch.setenv("TRAINSHED_PROJECT", "local")
            words = [word.replace(NUMBER, number) for word in words]
        elif "adopt" in words:
            (server.data_dir / "buckets/put-there-by-hand").mkdir(parents=True)
        elif "--dry-run" in words and submits:
            bucket = server.data_dir / "buckets/staging"
            status, _ = server.call("POST", "/storage/v1/b?project=local", {"name": "staging"})
            assert status in (200, 409)
            bucket.mkdir(parents=True, exist_ok=True)
            (bucket / "trainer-0.1.tar.gz").touch()
        elif not submits:
            census(server)
        return client(*words)

    return run


def census(server):
    training_input = {"region": "us-central1", "runtimeVersion": "2.11", "pythonVersion": "3.7",
             "pythonModule": "none", "packageUris": ["gs://shown/none.whl"]}  # fmt: skip
    document = {"jobId": "census_1", "trainingInput": training_input}
    assert server.call("POST", "/storage/v1/b?project=shown", {"name": "shown"})[0] in (200, 409)
    assert server.call("POST", "/v1/projects/shown/jobs", document)[0] in (200, 409)
    server.wait_for("/v1/projects/shown/jobs/census_1", FINAL)


def pipeline(server):
    task = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"
    inputs = {"worker_pool_specs": [pool("")]}
    document = {"displayName": "p", "trainingTaskDefinition": task, "trainingTaskInputs": inputs}
    name = server.call("POST", f"/v1/{PARENT}/trainingPipelines", document)[1]["name"]
    server.wait_for(f"/v1/{name}", FINAL)
    return name


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("words", "has_server"), list(commands()))
def test_an_example_of_the_help_works_as_printed(trainshed, request, words, has_server):
    command = request.getfixturevalue("on_server") if has_server else trainshed
    run = command(*words)
    ends_with_its_job = "watch" in words
    assert run.code == 0 or (ends_with_its_job and "state: FAILED" in run.out), run.err


def test_what_is_left_out_is_there():
    assert set(LEFT_OUT) <= {verb.text for verb in VERBS}
