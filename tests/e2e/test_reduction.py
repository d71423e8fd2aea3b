"""Jobs with a Reduction Server: reducers begin with their job, sum for it, and end with it."""

import json
import os
import signal
import subprocess
import venv
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from e2e import fleet
from e2e.reduction_jobs import (
    CHOICE,
    DONE,
    GOES_ON,
    LEAVES,
    SAVES,
    SUMS,
    TORCH,
    check_the_blame,
    check_the_sum,
    job,
    lines_by_task,
    lines_of,
    pools,
    reducers_of,
)
from e2e.support import FINAL, native, processes_of, serving, submit, wait_until
from examples.cluster import needs
from server_process import TRAINSHED

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lean(tmp_path_factory):
    """A Python with the packages of the tests, and without the trainer library."""
    folder = tmp_path_factory.mktemp("lean") / "python"
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    # only the folder itself: what is installed for editing is not found through it
    (site / "tests.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    return folder / "bin/python"


@pytest.fixture(scope="module")
def server(tmp_path_factory, lean):
    config = f"""\
[[environment]]
name = "lean"
python = "{lean}"

[[image]]
image = "lean.test/*"
environment = "lean"

"""
    with serving(tmp_path_factory.mktemp("reduction") / "data", config=config) as server:
        yield server


@pytest.fixture(scope="module")
def summed(server):
    """The name of a job whose reducers have summed, and that has ended."""
    name = submit(server, job("summed", LEAVES))
    response = server.wait_for(f"/v1/{name}", FINAL)
    assert response["state"] == "JOB_STATE_SUCCEEDED", server.log_of(name)
    return name


def test_the_service_runs_reducers_beside_a_job_and_ends_them_with_it(server, summed):
    name = summed
    check_the_sum(lines_by_task(server, name))
    wait_until(lambda: not reducers_of(server), "the reducers have ended")
    replicas = {replica["taskName"]: replica for replica in native(server, name)["replicas"]}
    assert {"workerpool2-0", "workerpool2-1"} < set(replicas)
    assert "(4 replicas)" in server.log_of(name)


@pytest.mark.full
def test_a_reducer_of_several_processes_is_as_good(server):
    document = job("processes", LEAVES, reducers=1)
    container = document["jobSpec"]["workerPoolSpecs"][2]["containerSpec"]
    container["env"] = [{"name": "TRAINSHED_REDUCER_PROCS", "value": "2"}]
    name = submit(server, document)
    response = server.wait_for(f"/v1/{name}", FINAL)
    assert response["state"] == "JOB_STATE_SUCCEEDED", server.log_of(name)
    words = lines_by_task(server, name)
    assert "SUM 3.0" in words["workerpool1-0"]
    assert sum("listening" in line for line in words["workerpool2-0"]) == 2


@needs("torch")
def test_a_trainer_with_torch_chooses_them_by_its_environment_alone(server):
    name = submit(server, job("torch", TORCH, env=CHOICE))
    response = server.wait_for(f"/v1/{name}", FINAL)
    assert response["state"] == "JOB_STATE_SUCCEEDED", server.log_of(name)
    words = lines_by_task(server, name)
    check_the_sum(words)
    assert DONE in words["workerpool0-0"]


def test_reducers_serve_a_job_that_saves_before_maintenance(server):
    name = submit(server, job("saves", SAVES))
    wait_until(
        lambda: all(
            "SUM 3.0" in lines_by_task(server, name).get(f"workerpool{n}-0", ()) for n in (0, 1)
        ),
        lambda: server.log_of(name),
    )
    fleet.maintained(server, name)
    fleet.resume(server)
    response = server.wait_for(f"/v1/{name}", FINAL)
    assert response["state"] == "JOB_STATE_SUCCEEDED", server.log_of(name)
    words = lines_by_task(server, name)
    for task in ("workerpool0-0", "workerpool1-0"):
        assert words[task] == ["SUM 3.0", "SAVED", "SUM 3.0"], server.log_of(name)


@pytest.mark.parametrize("victim", [0, pytest.param(1, marks=pytest.mark.full)])
def test_a_job_whose_reducer_dies_fails_and_names_it(server, victim):
    name = submit(server, job("dies", GOES_ON))
    wait_until(
        lambda: all(
            "SUM 3.0" in lines_by_task(server, name).get(f"workerpool{n}-0", ()) for n in (0, 1)
        ),
        lambda: server.log_of(name),
    )
    task = f"workerpool2-{victim}"
    (process,) = [
        reducer for reducer in reducers_of(server) if reducer.environ()["TRAINSHED_TASK"] == task
    ]
    os.kill(process.pid, signal.SIGKILL)
    response = server.wait_for(f"/v1/{name}", FINAL)
    assert response["state"] == "JOB_STATE_FAILED"
    check_the_blame(response["error"]["message"], server.log_of(name), task, f"reducer {victim}")
    wait_until(lambda: not reducers_of(server), "the other has ended too")


def test_a_job_whose_worker_dies_fails_and_names_the_worker(server):
    name = submit(server, job("worker", GOES_ON))
    wait_until(
        lambda: "SUM 3.0" in lines_by_task(server, name).get("workerpool1-0", ()),
        lambda: server.log_of(name),
    )
    processes = [psutil.Process(pid) for pid, _ in processes_of(server)]
    for process in processes:
        with suppress(psutil.Error):
            if process.environ().get("TRAINSHED_TASK") == "workerpool1-0":
                process.kill()
    ended = server.wait_for(f"/v1/{name}", FINAL)
    assert ended["state"] == "JOB_STATE_FAILED"
    check_the_blame(ended["error"]["message"], server.log_of(name), "workerpool1-0", "worker 1")


def test_nobody_is_told_the_secret(server, summed):
    name = summed
    document = native(server, name)
    folder = server.data_dir / "jobs" / document["uid"] / "1"
    secret = (folder / "progress/reduction-token").read_text()
    assert len(bytes.fromhex(secret)) >= 32
    answers = [server.call("GET", f"/v1/{name}"), document, native(server, name, "/events")]
    texts = [*map(json.dumps, answers), server.log_of(name), server.output()]
    texts += [path.read_text() for path in folder.glob("*.json*")]
    texts += [path.read_bytes().decode("latin-1") for path in server.data_dir.glob("trainshed.db*")]
    assert not [text for text in texts if secret in text]


@pytest.fixture
def local_run(tmp_path, lean):
    """``trainshed ai custom-jobs local-run`` of a job in a file, in the same lean Python."""

    def run(document, *flags):
        file = tmp_path / "job.json"
        file.write_text(json.dumps({"workerPoolSpecs": document}))
        return subprocess.run(
            [TRAINSHED, "ai", "custom-jobs", "local-run", "--config", file, "--python", lean,
             "--data-dir", tmp_path / "data", *flags],
            env={
                **os.environ,
                "TRAINSHED_CACHE_DIR": str(tmp_path / "cache"),
                "TMPDIR": str(tmp_path),
            },
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )  # fmt: skip

    return run


def test_a_local_run_has_reducers_too_and_leaves_nothing(local_run, tmp_path):
    run = local_run(pools(LEAVES))
    assert run.returncode == 0, run.stdout + run.stderr
    check_the_sum(lines_of(run.stdout))
    assert not list(tmp_path.glob("trainshed-*")), "the secret is gone"


@pytest.mark.full
@needs("torch")
def test_a_local_run_with_torch_chooses_them_by_its_environment(local_run):
    run = local_run(pools(TORCH, env=CHOICE))
    assert run.returncode == 0, run.stdout + run.stderr
    words = lines_of(run.stdout)
    check_the_sum(words)
    assert DONE in words["workerpool0-0"]


@pytest.mark.full
def test_a_local_run_whose_reducer_dies_ends_with_its_code(local_run):
    """The trainer kills it: there is one with its address in its command's environment."""
    kills = f"""{SUMS}
import psutil
if rank == 0:
    for process in psutil.Process().parent().children():
        if "trainshed.reduction" in process.cmdline():
            process.kill()
            break
while True:
    summed(np.zeros(300_000, dtype=np.float32))
"""
    run = local_run(pools(kills))
    words = run.stdout + run.stderr
    assert run.returncode in {1, 128 + signal.SIGKILL}, words
    check_the_blame(words, words, "workerpool2-0", "reducer 0")
