"""Local runs in containers of a real docker, through the command; none outlives it."""

import os
import signal
import subprocess
import sys

import pytest

from engines.docker_daemon import IMAGE, container_names, docker_with_image, why_not
from engines.support import wait_until
from trainshed.cli.local.local_flags import RUNTIMES
from trainshed.engines import container_runtime

RUN = ("ai", "custom-jobs", "local-run", "--container-runtime")
DEAF = "trap '' TERM; echo up; while :; do sleep 0.05; done"


def needs_docker(test):
    skip = pytest.mark.skipif(bool(why_not()), reason=why_not())
    return pytest.mark.slow(skip(test))


@pytest.fixture(scope="module")
def daemon():
    with docker_with_image() as env:
        yield env


@pytest.fixture
def docker(daemon, monkeypatch):
    """The command finds the daemon as a shell's user would."""
    for name in ("PATH", "DOCKER_HOST", "DOCKER_CONFIG"):
        monkeypatch.setenv(name, daemon[name])
    yield daemon
    wait_until(lambda: not container_names(daemon), "no container is left")


def job(*scripts):
    pools = [
        {
            "machineSpec": {"machineType": "n1-standard-4"},
            "replicaCount": 1,
            "containerSpec": {"imageUri": IMAGE, "args": [script]},
        }
        for script in scripts
    ]
    return {"workerPoolSpecs": pools}


@pytest.mark.parametrize("base", ["gs://out/run", "out"])
@pytest.mark.usefixtures("docker")
@needs_docker
def test_images_run_and_see_the_buckets_and_the_output_of_their_job(
    trainshed, written, home, tmp_path, base
):
    stage = home / "data/buckets/stage"
    stage.mkdir(parents=True)
    (stage / "data").write_text("from the bucket\n")
    primary = "cat /gcs/stage/data; touch ${AIP_MODEL_DIR}weights; echo user $(id -u)"
    name = written("job.json", job(primary, "sleep 60"))
    words = ("--config", name, "--base-output-dir", base, "--fleet-policy", "exact")
    run = trainshed(*RUN, "auto", *words)
    assert run.code == 0, run.err
    assert f"The image {IMAGE} runs in a container of docker, as user 65533:65533." in run.err
    for line in ("from the bucket", "user 65533"):
        assert f"workerpool0-0 │ {line}" in run.out
    folder = home / "data/buckets/out/run" if base.startswith("gs:") else tmp_path / "out"
    assert (folder / "model/weights").exists()


@needs_docker
def test_of_a_command_that_is_killed_no_container_is_left(docker, written, tmp_path):
    name = written("job.json", job(DEAF))
    words = [sys.executable, "-m", "trainshed.cli.main", *RUN, "docker", "--config", name]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert any(line.endswith("up\n") for line in process.stdout)
        assert container_names(docker)
        os.kill(process.pid, signal.SIGKILL)
        process.stdout.read()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("podman",), "--container-runtime podman: podman is not installed"),
        (("auto",), "--container-runtime auto: docker, podman, apptainer and singularity are not"),
        (("dokcer",), "argument --container-runtime: invalid choice: 'dokcer'"),
        (("none", "--container-user", "me"), 'must be "UID", "UID:GID" or "image", got'),
    ],
)
def test_a_runtime_that_is_not_there_is_named_with_its_flag(
    trainshed, written, monkeypatch, words, message
):
    monkeypatch.setenv("PATH", "/nowhere")
    run = trainshed(*RUN, *words, "--config", written("job.json", job("echo up")))
    assert run.code == 2
    assert message in run.err
    assert run.out == ""


def test_the_flag_takes_what_the_setting_of_a_server_takes():
    assert RUNTIMES == container_runtime.CHOICES
