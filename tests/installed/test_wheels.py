"""Whoever installs the wheels has what README shows, without the repository."""

import json
import re
import shutil

import pytest

import trainshed
from e2e import fleet
from e2e.reduction_jobs import CHOICE, DONE, GPU, IMAGE, TORCH
from e2e.support import wait_until
from examples.cluster import needs
from installed.stranger import ROOT, Environment, make_dist
from server_process import ServerProcess

pytestmark = pytest.mark.slow

#: In the place of the example's own, which takes a minute to learn.
TASK = """\
import os, sys
from pathlib import Path
import trainshed_trainer
from trainshed_trainer import ReplicaEnv, report_metric
print("rank", ReplicaEnv.from_environ().rank, "from", Path(trainshed_trainer.__file__).parent)
report_metric("accuracy", 0.5, step=1)
"""
#: Saves when it is told to, and goes on from there.
SAVES = """\
import sys, time
from trainshed_trainer import checkpoint, notice
saved = checkpoint.latest_checkpoint()
if saved:
    print("resumed from", saved.name, flush=True)
    sys.exit()
notice()
print("began", flush=True)
while notice() is None:
    time.sleep(0.05)
place = checkpoint.checkpoint_directory() / "step-7"
checkpoint.save_atomically(place, lambda out: out.write(b"weights"))
sys.exit(143)
"""
#: Runs in the server's own Python, which has torch by then.
TRAINED = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest"
REDUCER = {"machineType": "n1-highcpu-16"}
PROJECT = {"TRAINSHED_PROJECT": "demo-proj"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    return make_dist(tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def stranger(dist, tmp_path_factory):
    environment = Environment(tmp_path_factory.mktemp("stranger") / "venv")
    environment.link(dist, "server")
    environment.install(dist, "trainshed[server]")
    return environment


@pytest.fixture(scope="module")
def server(stranger, tmp_path_factory):
    server = ServerProcess(tmp_path_factory.mktemp("data"), environ=stranger.environ)
    server.program = (stranger.bin / "trainshed",)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def command(stranger, server, tmp_path_factory):
    """``trainshed`` in a copy of an example, as README says it, in a shell of its own."""
    folder = tmp_path_factory.mktemp("examples") / "torch-ddp"
    shutil.copytree(ROOT / "examples/torch-ddp", folder)
    (folder / "trainer/task.py").write_text(TASK)
    data = {"TRAINSHED_DATA_DIR": str(server.data_dir), **PROJECT}

    def run(*words):
        return stranger.run("trainshed", *words, cwd=folder, env=data)

    run("buckets", "create", "my-bucket")
    run.folder = folder
    return run


def submitted(command, job, *flags, stream=True):
    runtime = ("--runtime-version", "2.11", "--python-version", "3.7")
    package = ("--module-name", "trainer.task", "--package-path", "trainer")
    return command(
        *("ai-platform", "jobs", "submit", "training", job, *flags, *runtime, *package),
        *("--staging-bucket", "gs://my-bucket", "--job-dir", f"gs://my-bucket/{job}"),
        *(["--stream-logs"] if stream else []),
    )


def test_the_trainer_library_needs_nothing_and_is_of_the_same_version(dist, tmp_path):
    alone = Environment(tmp_path / "venv")
    alone.install(dist, "trainshed-trainer")
    show = "import trainshed_trainer.version as v; print(v.__version__, v.__file__)"
    version, place = alone.run("python", "-c", show, cwd=tmp_path).split()
    assert version == trainshed.__version__
    assert place.startswith(str(alone.site))
    assert {path.name for path in dist.glob("*.tar.gz")} == {
        f"{name}-{version}.tar.gz" for name in ("trainshed", "trainshed_trainer")
    }


def test_the_command_and_the_server_say_the_version(stranger, server, tmp_path):
    version_line = f"trainshed {trainshed.__version__}\n"
    assert stranger.run("trainshed", "--version", cwd=tmp_path) == version_line
    assert server.output().startswith(f"Trainshed {trainshed.__version__} serves on ")


def test_the_console_comes_with_all_its_files_and_licences(stranger, server):
    """The wheel is built from src/ alone: neither console/ nor a package of Node is there."""
    static = stranger.site / "trainshed/api/console/static"
    assert static.is_dir()
    assert not static.is_symlink()
    with server.opened(f"{server.url}/console/") as answer:
        page = answer.read().decode()
    names = {path.name for path in static.iterdir() if path.suffix in {".js", ".css"}}
    assert {*re.findall(r'"/console/static/([^"]+)"', page)} <= names
    for name in sorted(names):
        with server.opened(f"{server.url}/console/static/{name}") as answer:
            assert answer.read() == (static / name).read_bytes(), name
    licences = (static / "LICENSES.txt").read_text()
    _, *parts = re.split(r"(?m)^(\S+) \d+\.\d+\.\d+ \(\S+\)\n\n=+$", licences)
    texts = dict(zip(parts[::2], parts[1::2], strict=True))
    assert {"preact", "@preact/signals", "uplot", "echarts", "zrender", "@codemirror/view"} <= {
        *texts
    }
    assert all("copyright" in text.lower() for text in texts.values()), texts


def test_the_scripts_you_have(command, stranger):
    text = submitted(command, "ddp_1", "--config", "config.yaml")
    ranks = f"from {stranger.site / 'trainshed_trainer'}"
    assert all(f"rank {n} {ranks}" in text for n in range(3)), text
    assert "state: SUCCEEDED" in text


def test_arguments_are_tuned(command):
    text = (ROOT / "examples/tuning/config.yaml").read_text()
    study = text.replace("maxTrials: 24", "maxTrials: 2")
    assert study != text
    (command.folder / "study.yaml").write_text(study)
    text = submitted(command, "tuned", "--config", "study.yaml")
    job = json.loads(command("ai-platform", "jobs", "describe", "tuned", "--format", "json"))
    assert [trial["state"] for trial in job["trainingOutput"]["trials"]] == ["SUCCEEDED"] * 2, text


@pytest.mark.full  # e2e/test_maintenance.py and e2e/test_resume_is_exact.py, without the wheels
def test_what_maintenance_stops_resumes(command, server):
    (command.folder / "trainer/task.py").write_text(SAVES)
    name = "projects/demo-proj/jobs/stopped"
    submitted(command, "stopped", "--scale-tier", "basic", stream=False)
    wait_until(lambda: "began" in server.log_of(name), server.output)
    fleet.maintained(server, name)
    command("nodes", "resume", fleet.node_of(server))
    text = command("ai-platform", "jobs", "stream-logs", "stopped")
    assert "resumed from step-7" in text, text


@pytest.mark.full
@needs("torch")
def test_reducers_sum_for_torch(command, stranger, dist):
    stranger.link(dist, "torch")
    trains = {"imageUri": TRAINED, "command": ["python", "-c"], "args": [TORCH], "env": CHOICE}
    spec = {
        "workerPoolSpecs": [*[pool(trains, GPU)] * 2, pool({"imageUri": IMAGE}, REDUCER, count=2)]
    }
    (command.folder / "job.yaml").write_text(json.dumps(spec))
    flags = ("--display-name", "summed", "--config", "job.yaml", "--stream-logs")
    text = command("ai", "custom-jobs", "create", *flags)
    assert "SUM 3.0" in text, text
    assert DONE in text, text


def pool(container, machine, count=1):
    return {"machineSpec": machine, "replicaCount": count, "containerSpec": container}
