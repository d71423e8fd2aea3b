"""Runs the real command line in this process, without the cost of a new Python."""

import json
import os
import sys
from dataclasses import dataclass
from urllib.parse import quote

import pytest

from cli.planned import job_document
from planning.test_what_ifs import CALIBRATION
from server_process import ServerProcess
from trainshed.cli.main import main
from trainshed.planning.scaling.calibration_file import written as calibration_text

#: What stands in for the images and runtime versions that the tests name.
CONFIG = f"""\
[[environment]]
name = "tests"
python = "{sys.executable}"

[[image]]
image = "registry.test/*"
environment = "tests"

[[image]]
image = "registry.example/team/*"
environment = "tests"
"""
PARENT = "projects/local/locations/us-central1"
FINAL = {
    f"{prefix}{state}"
    for prefix in ("", "JOB_STATE_", "PIPELINE_STATE_")
    for state in ("SUCCEEDED", "FAILED", "CANCELLED")
}

#: What would point a command elsewhere.
ELSEWHERE = (
    "TRAINSHED_URL",
    "TRAINSHED_TOKEN",
    "TRAINSHED_PROJECT",
    "CLOUDSDK_CORE_PROJECT",
    "CLOUDSDK_AI_REGION",
    "CLOUDSDK_COMPUTE_REGION",
)


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def home(tmp_path_factory):
    """Set the user's own folders: data and cache, outside the folder of the job."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def trainshed(capfd, monkeypatch, tmp_path, home):
    """``trainshed("validate", path)`` gives the exit code and both outputs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINSHED_DATA_DIR", str(home / "data"))
    monkeypatch.setenv("TRAINSHED_CACHE_DIR", str(home / "cache"))
    for name in ("TRAINSHED_PYTHON", "TRAINSHED_DEBUG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*argv):
        code = main([str(word) for word in argv])
        captured = capfd.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture
def trainer(tmp_path):
    """Writes ``trainer/task.py`` with the given code; the tests run in its parent."""

    def write(code):
        package = tmp_path / "trainer"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text("")
        (package / "task.py").write_text(code)
        return package

    return write


@pytest.fixture
def written(tmp_path):
    """Writes a file of the working folder."""

    def write(name, content):
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / name).write_text(text)
        return name

    return write


def new_server(data):
    """A real server on a data directory, with one bucket for staging."""
    data.mkdir(exist_ok=True)
    (data / "config.toml").write_text(CONFIG)
    server = ServerProcess(data, environ={"TRAINSHED_CACHE_DIR": str(data / "cache")}).start()
    server.call("POST", "/storage/v1/b?project=local", {"name": "staging"})
    return server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = new_server(tmp_path_factory.mktemp("service"))
    yield server
    end_jobs(server)
    server.stop()


def end_jobs(server):
    """End the jobs of a test: jobs outlive their server and would keep places of other jobs."""
    for parent, word in (
        ("projects/local", "jobs"),
        (PARENT, "customJobs"),
        (PARENT, "hyperparameterTuningJobs"),
    ):
        for job in listed(server, f"/v1/{parent}/{word}", word):
            if job["state"] not in FINAL:
                path = f"/v1/{job.get('name') or parent + '/jobs/' + job['jobId']}"
                server.call("POST", f"{path}:cancel", {})
                server.wait_for(path, FINAL)


def listed(server, path, word):
    """Return all items of a collection."""
    token = ""
    while token is not None:
        _, page = server.call("GET", f"{path}?pageSize=100&pageToken={quote(token)}")
        yield from page.get(word, ())
        token = page.get("nextPageToken")


@pytest.fixture
def client(trainshed, server, monkeypatch):
    """``trainshed`` on the machine of a running server."""
    for name in ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRAINSHED_DATA_DIR", str(server.data_dir))
    return trainshed


@pytest.fixture
def environ(server):
    """Return the variables of such a command in a separate process."""
    variables = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    return {**variables, "TRAINSHED_DATA_DIR": str(server.data_dir)}


TASK = """\
import json, os, sys, time
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
print("argv", json.dumps(sys.argv[1:]), flush=True)
print("WARNING: take care", flush=True)
if "--wait" in sys.argv:
    time.sleep(600)
if "--fail" in sys.argv:
    sys.exit(3)
print("trained", flush=True)
"""


@pytest.fixture
def package(trainer):
    """A package that prints its arguments, then fails or waits if they say so."""
    trainer(TASK)
    return "trainer"


def pool(code, replicas=1):
    """A worker pool that runs a line of Python."""
    return {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": replicas,
        "containerSpec": {
            "imageUri": "registry.test/a",
            "command": [sys.executable, "-c"],
            "args": [code],
        },
    }


@pytest.fixture
def created(server):
    """Create a custom job without the command line; return its full name."""

    def create(code="print('hello')", *more_pools, wait=None):
        spec = {"workerPoolSpecs": [pool(code), *more_pools]}
        document = {"displayName": "made", "jobSpec": spec}
        status, job = server.call("POST", f"/v1/{PARENT}/customJobs", document)
        assert status == 200, job
        if wait:
            server.wait_for(f"/v1/{job['name']}", wait)
        return job["name"]

    return create


@pytest.fixture
def plan(trainshed, written):
    """``trainshed plan`` of four hosts with eight V100 each, measured with up to two."""
    written("job.json", job_document())
    written("calibration.toml", calibration_text(CALIBRATION))

    def run(*words, file="job.json", calibration="calibration.toml"):
        options = ("--calibration", calibration) if calibration else ()
        return trainshed("plan", *((file,) if file else ()), *options, *words)

    return run
