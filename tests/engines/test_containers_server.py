"""Jobs of images, from a submit to their end: a server, its supervisors, and a real docker."""

import os
import signal

import psutil
import pytest

from e2e.support import FINAL, PARENT, PROJECT, check_log, end_all, wait_until
from engines.docker_daemon import IMAGE, container_names, docker_with_image, why_not
from server_process import ServerProcess
from trainshed.engines.isolation.choose import IsolationOptions

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

CONFIG = "[fleet]\ngrace_s = 1.0\n"
DEAF = "trap '' TERM; echo up; while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def daemon():
    with docker_with_image() as env:
        yield env


@pytest.fixture
def server(daemon, tmp_path):
    server = ServerProcess(
        tmp_path,
        *("--fleet-policy", "emulate"),
        environ={**daemon, "TRAINSHED_CACHE_DIR": str(tmp_path / "cache")},
    )
    (tmp_path / "config.toml").write_text(CONFIG)
    bucket = tmp_path / "buckets/stage"
    bucket.mkdir(parents=True)
    (bucket / "data").write_text("from the bucket")
    try:
        server.start()
        make(server, "POST", f"/storage/v1/b?project={PROJECT}", {"name": "out"})
        make(server, "POST", "/trainshed/v1/buckets/stage:adopt", {"project": PROJECT})
        yield server
        server.stop()
        check_log(server)
        wait_until(lambda: not container_names(daemon), lambda: container_names(daemon))
    finally:
        end_all(server)


def make(server, verb, path, document):
    status, answer = server.call(verb, path, document)
    assert status == 200, answer


def pool(script, **container):
    return {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "containerSpec": {"imageUri": IMAGE, "args": [script], **container},
    }


def submitted(server, *pools, **spec):
    document = {"displayName": "cj", "jobSpec": {"workerPoolSpecs": list(pools), **spec}}
    status, body = server.call("POST", f"/v1/{PARENT}/customJobs", document)
    assert status == 200, body
    return body["name"]


def end_of(server, name):
    return server.wait_for(f"/v1/{name}", FINAL)


def has_in_log(server, name, text):
    wait_until(lambda: text in server.log_of(name), lambda: server.log_of(name))


def test_a_job_of_images_runs_to_its_end(server, tmp_path):
    primary = pool(
        "cat /gcs/stage/data; echo; echo $CLUSTER_SPEC_IS; touch /gcs${AIP_MODEL_DIR#gs:/}weights; "
        "echo user $(id -u); cat /etc/hosts",
        env=[{"name": "CLUSTER_SPEC_IS", "value": "for $(CLOUD_ML_JOB_ID)"}],
    )
    worker = pool("echo worker; cat /gcs/stage/data > /gcs/stage/copy")
    base = {"baseOutputDirectory": {"outputUriPrefix": "gs://out/run"}}
    name = submitted(server, primary, worker, **base)
    assert end_of(server, name)["state"] == "JOB_STATE_SUCCEEDED"
    log = server.log_of(name)
    for text in (
        f"The image {IMAGE} runs in a container of docker, as the user of its project.",
        "from the bucket",
        f"for {name.rpartition('/')[2]}",
        f"user {IsolationOptions().uids[0]}",
        "worker",
    ):
        assert text in log
    hosts = [line.split() for line in log.splitlines() if line.startswith("127.0.0.1")]
    names = {word for _, *words in hosts for word in words}
    assert {"workerpool0-0", "workerpool1-0"} <= names
    assert sum(host.startswith("cmle-training-workerpool") for host in names) == 2
    assert (tmp_path / "buckets/out/run/model/weights").exists()
    assert (tmp_path / "buckets/stage/copy").read_text() == "from the bucket"
    assert "containers      docker " in server.output()


def test_a_program_that_fails_is_told_with_its_exit_status(server):
    name = submitted(server, pool("echo last words >&2; exit 7"))
    job = end_of(server, name)
    assert job["state"] == "JOB_STATE_FAILED"
    assert "7" in job["error"]["message"]
    assert "last words" in job["error"]["message"]
    assert "peak memory" not in server.log_of(name)  # docker's client has one, and it is not told


def test_of_a_cancelled_job_no_container_is_left(server, daemon):
    name = submitted(server, pool(DEAF), pool(DEAF))
    has_in_log(server, name, "up")
    wait_until(lambda: len(container_names(daemon)) == 2, lambda: container_names(daemon))
    assert server.call("POST", f"/v1/{name}:cancel", {})[0] == 200
    assert end_of(server, name)["state"] == "JOB_STATE_CANCELLED"
    assert container_names(daemon) == []


def test_the_containers_of_a_killed_supervisor_end_before_the_job_starts_again(server, daemon):
    name = submitted(server, pool(f"echo number $TRAINSHED_ATTEMPT runs; {DEAF}"))
    has_in_log(server, name, "number 1 runs")
    (first,) = container_names(daemon)
    os.kill(supervisor_of(server), signal.SIGKILL)
    has_in_log(server, name, "number 2 runs")
    (second,) = container_names(daemon)
    assert second != first
    assert server.call("POST", f"/v1/{name}:cancel", {})[0] == 200
    assert end_of(server, name)["state"] == "JOB_STATE_CANCELLED"


def supervisor_of(server):
    """The parent of the one docker client."""
    for process in psutil.process_iter():
        try:
            is_client = process.name() == "docker" and "run" in process.cmdline()
            if is_client and str(server.data_dir) in " ".join(process.cmdline()):
                return process.ppid()
        except psutil.Error:
            continue
    raise AssertionError("no docker client runs")


def test_a_server_without_a_runtime_refuses_an_image_and_names_both_ways_out(tmp_path):
    server = ServerProcess(tmp_path, environ={"TRAINSHED_CACHE_DIR": str(tmp_path / "cache")})
    (tmp_path / "config.toml").write_text('[fleet]\ncontainer_runtime = "none"\n')
    try:
        server.start()
        document = {"displayName": "cj", "jobSpec": {"workerPoolSpecs": [pool("x")]}}
        status, body = server.call("POST", f"/v1/{PARENT}/customJobs", document)
        assert status == 400
        words = body["error"]["message"]
        assert 'the setting container_runtime is "none"' in words
        assert "[[image]]" in words
        assert "docker, podman or apptainer" in words
    finally:
        end_all(server)
