"""``custom-jobs local-run``: local programs, worker pools by flag and by file, and their mix."""

import json
import re

import pytest

RUN = ("ai", "custom-jobs", "local-run")
TELL = """
import json, os, sys
spec = json.loads(os.environ["CLUSTER_SPEC"])
print(json.dumps({"task": spec["task"], "argv": sys.argv[1:], "cluster": sorted(spec["cluster"]),
                  "job": spec["job"], "model": os.environ.get("AIP_MODEL_DIR"),
                  "cwd": os.getcwd(), "tf": "TF_CONFIG" in os.environ}))
"""
#: A trainer that connects to every reducer of its job; the secret is in a file for it alone.
MEETS = """
import os, socket, time
from pathlib import Path
token = Path(os.environ["TRAINSHED_REDUCTION_TOKEN_FILE"])
assert len(bytes.fromhex(token.read_text())) >= 32
assert token.stat().st_mode & 0o077 == 0
places = [place.rpartition(":") for place in os.environ["TRAINSHED_REDUCERS"].split(",")]
for host, _, port in places:
    while True:
        try:
            socket.create_connection((host, int(port))).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
print(f"met {len(places)} reducers")
"""
CPU = "machine-type=n1-standard-4,container-image-uri=img"
POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": 1,
    "containerSpec": {"imageUri": "img", "command": ["python", "task.py"], "args": ["--file"]},
}
REDUCERS = {
    "machineSpec": {"machineType": "n1-highcpu-16"},
    "replicaCount": 4,
    "containerSpec": {"imageUri": "host/training/reductionserver:latest"},
}
GPU_POOL = {
    **POOL,
    "machineSpec": {
        "machineType": "n1-highmem-96",
        "acceleratorType": "NVIDIA_TESLA_V100",
        "acceleratorCount": 8,
    },
}


def parse_log(run):
    lines = [line.split(" │ ", 1) for line in run.out.splitlines() if " │ " in line]
    return {name.strip(): json.loads(text) for name, text in lines}


@pytest.fixture(autouse=True)
def task(tmp_path):
    (tmp_path / "task.py").write_text(TELL)


def test_a_script_alone_is_one_replica_and_nothing_is_checked(trainshed, tmp_path):
    run = trainshed(*RUN, "--executor-image-uri=img", "--script", "task.py", "--", "--epochs", "3")
    assert run.code == 0
    replica = parse_log(run)["workerpool0-0"]
    assert replica["argv"] == ["--epochs", "3"]
    assert replica["cwd"] == str(tmp_path)
    assert replica["tf"] is False
    assert "MACHINE TYPE" not in run.out
    assert "container runtime" not in run.err


def test_a_module_and_a_shell_script_run_in_their_folder(trainshed, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code/run.sh").write_text("echo '{\"args\": \"'$1'\"}'\n")
    (tmp_path / "code/task.py").write_text(TELL)
    words = ("--local-package-path", "code")
    assert parse_log(trainshed(*RUN, *words, "--script", "run.sh", "--", "x")) == {
        "workerpool0-0": {"args": "x"}
    }
    replicas = parse_log(trainshed(*RUN, *words, "--python-module", "task"))
    assert replicas["workerpool0-0"]["cwd"] == str(tmp_path / "code")


def test_pools_come_by_flag_and_an_empty_one_keeps_its_position(trainshed):
    words = [f"--worker-pool-spec={spec}" for spec in (CPU, "", f"{CPU},replica-count=2")]
    run = trainshed(
        *RUN, *words, "--script", "task.py", "--region", "us-central1", "--dry-run",
        "--format", "json",
    )  # fmt: skip
    names = [replica["task_name"] for replica in run.json["replicas"]]
    assert names == ["workerpool0-0", "workerpool2-0", "workerpool2-1"]


def test_a_file_of_either_shape_runs_its_own_commands(trainshed, written):
    spec = {"workerPoolSpecs": [POOL]}
    for content in (spec, {"displayName": "x", "jobSpec": spec}):
        run = trainshed(*RUN, "--config", written("job.json", content))
        assert run.code == 0
        assert parse_log(run)["workerpool0-0"]["argv"] == ["--file"]
        assert "A local run starts no containers" in run.err


def test_flags_win_over_the_file(trainshed, written):
    name = written("job.json", {"workerPoolSpecs": [POOL]})
    run = trainshed(*RUN, "--config", name, "--args=a,b", "--", "c")
    assert parse_log(run)["workerpool0-0"]["argv"] == ["a", "b", "c"]
    flag = f"--worker-pool-spec={CPU},replica-count=1"
    run = trainshed(*RUN, "--config", name, flag, "--command", "python,task.py", "--args=z")
    assert parse_log(run)["workerpool0-0"]["argv"] == ["z"]


def test_a_file_in_snake_case_takes_the_flags_too(trainshed, written):
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {"image_uri": "img", "command": ["python", "task.py"]},
    }
    name = written("job.json", {"worker_pool_specs": [pool]})
    run = trainshed(*RUN, "--config", name, "--args=a")
    assert parse_log(run)["workerpool0-0"]["argv"] == ["a"]


def test_a_single_pool_may_stand_without_its_list(trainshed, written):
    run = trainshed(*RUN, "--config", written("job.json", {"workerPoolSpecs": POOL}))
    assert run.code == 0


def test_output_folders_are_made_and_named_to_the_program(trainshed, tmp_path, home):
    words = ("--script", "task.py", "--base-output-dir")
    for base, place in (
        ("gs://my-bucket/run", home / "data/buckets/my-bucket/run"),
        ("out", tmp_path / "out"),
    ):
        run = trainshed(*RUN, *words, base)
        assert parse_log(run)["workerpool0-0"]["model"] == f"{place}/model/"
        for name in ("model", "checkpoints", "logs"):
            assert (place / name).is_dir()


def test_the_pool_of_reducers_runs_our_program_beside_the_job_and_ends_with_it(
    trainshed, written, tmp_path
):
    (tmp_path / "task.py").write_text(MEETS)
    pools = [GPU_POOL, {}, {**REDUCERS, "replicaCount": 2}]
    run = trainshed(*RUN, "--config", written("job.json", {"workerPoolSpecs": pools}))
    assert run.code == 0, run.err
    assert "workerpool0-0 │ met 2 reducers" in run.out
    for index in (0, 1):
        assert f"workerpool2-{index} │ reducer {index}: listening on 127.0.0.1:" in run.out
        assert f"workerpool2-{index} │ reducer {index}: ends: received SIGTERM" in run.out
        assert re.search(rf"workerpool2-{index} +0 .*stopped", run.out)
    assert "The reducers serve workers that choose them" in run.err


def test_what_a_dry_run_prints_has_the_reducers_and_no_secret(trainshed, written):
    name = written("job.json", {"workerPoolSpecs": [GPU_POOL, {}, REDUCERS]})
    run = trainshed(*RUN, "--config", name, "--dry-run", "--format", "json", "--", "--epochs=3")
    primary, *reducers = run.json["replicas"]
    assert [replica["task_name"] for replica in reducers] == [f"workerpool2-{i}" for i in range(4)]
    assert reducers[0]["argv"][1:] == ["-P", "-m", "trainshed.reduction", "--idle-timeout", "0"]
    addresses = primary["env"]["TRAINSHED_REDUCERS"].split(",")
    cluster = json.loads(primary["env"]["CLUSTER_SPEC"])["cluster"]
    assert cluster["workerpool2"] == addresses
    assert len(set(addresses)) == 4
    assert "TOKEN" not in json.dumps(run.json["replicas"])
    assert not [note for note in run.json["notes"] if note.startswith("The reducers run")]


def test_a_refusal_names_flags_where_the_pools_came_by_flag(trainshed):
    bad = "--worker-pool-spec=machine-type=n1-standard-5,container-image-uri=img"
    run = trainshed(*RUN, bad, "--command", "python,task.py", "--region", "mars")
    assert run.code == 2
    assert "--worker-pool-spec[0] machine-type: there is no machine type n1-standard-5" in run.err
    assert "--region: there is no region mars" in run.err


def test_a_refusal_names_fields_where_the_pools_came_from_a_file(trainshed, written):
    pool = {**POOL, "machineSpec": {"machineType": "n1-standard-5"}}
    run = trainshed(*RUN, "--config", written("job.json", {"workerPoolSpecs": [pool]}))
    assert run.code == 2
    assert "workerPoolSpecs[0].machineSpec.machineType" in run.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to run"),
        (("--executor-image-uri", "img"), "nothing to run"),
        (("--script", "absent.py"), "there is no script absent.py"),
        (("--script", "task.py", "--python-module", "task"), "at most one of"),
        (("--worker-pool-spec", CPU), "--command: The container of the primary group"),
        (("--worker-pool-spec", "gpus=1"), "has no key gpus"),
        (("--script", "task.py", "--", "--worker-pool-spec=x"), "put --worker-pool-spec before"),
        (("--script", "task.py", "--base-output-dir", "gs://X/y"), "'X' is not a bucket name"),
        (("--scrip", "task.py"), "did you mean --script"),
        (("--script", "task.py", "--epochs", "3"), "own arguments after a bare --"),
        (("--config", "ml.json"), "trainshed ai-platform local train --config ml.json"),
    ],
)
def test_usage_errors_are_exit_code_2_and_start_nothing(trainshed, written, words, message):
    written("ml.json", {"trainingInput": {}})
    run = trainshed(*RUN, *words)
    assert run.code == 2
    assert message in run.err
    assert run.out == ""


def test_flags_of_gclouds_that_mean_nothing_here_are_named(trainshed):
    words = ("--script", "task.py", "--extra-dirs", "data", "--service-account", "a@b.c")
    run = trainshed(*RUN, *words, "--enable-web-access")
    assert run.code == 0
    for flag in ("--extra-dirs", "--service-account", "--enable-web-access"):
        assert f"{flag} has no effect on this machine." in run.err


def test_a_gpu_that_is_not_there_is_said_not_to_be(trainshed, monkeypatch):
    monkeypatch.setattr("trainshed.engines.local.devices.find.devices", lambda: ())
    run = trainshed(*RUN, "--script", "task.py", "--gpu")
    assert run.code == 2
    assert "--gpu needs an NVIDIA GPU, and this machine has none" in run.err


def test_the_program_of_the_first_pools_keys_runs_in_all_pools(trainshed, tmp_path):
    local = f"machine-type=n1-standard-4,executor-image-uri=exe,local-package-path={tmp_path}"
    words = (f"--worker-pool-spec={local},script=task.py", f"--worker-pool-spec={CPU}")
    run = trainshed(*RUN, *words, "--region", "us-central1", "--dry-run", "--format", "json")
    assert [replica["argv"] for replica in run.json["replicas"]] == [["python", "task.py"]] * 2
