"""A server says which Python a job runs in and that it has no GPU, and takes new environments."""

import sys

from cli.conftest import FINAL, PARENT, pool

IMAGE = "registry.added/team/trainer:1"


def test_a_missing_package_is_told_by_describe_and_explain_with_its_python(client, created):
    name = created("raise ModuleNotFoundError(\"No module named 'xgboost'\")", wait=FINAL)
    message = f"runs in {sys.executable}, which has no xgboost; use --python, or [[environment]]"
    for words in (("ai", "custom-jobs", "describe", name), ("jobs", "explain", name)):
        run = client(*words)
        assert message in " ".join(run.out.split()), run
    log = client("ai", "custom-jobs", "stream-logs", name).out
    assert message in log


def test_an_environment_that_is_added_to_the_file_is_used_without_a_restart(client, server):
    spec = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": 1,
        "containerSpec": {"imageUri": IMAGE, "command": ["python", "-c", "print('ran')"]},
    }
    document = {"displayName": "added", "jobSpec": {"workerPoolSpecs": [spec]}}
    file = server.data_dir / "config.toml"
    before = file.read_text()
    file.write_text(f"{before}\n[[environment]\n")  # broken: what was there stays in use
    assert server.call("GET", f"/v1/{PARENT}/customJobs")[0] == 200
    file.write_text(
        f'{before}\n[[environment]]\nname = "added"\npython = "{sys.executable}"\n'
        f'[[image]]\nimage = "registry.added/*"\nenvironment = "added"\n'
    )
    status, job = server.call("POST", f"/v1/{PARENT}/customJobs", document)
    assert status == 200, job
    server.wait_for(f"/v1/{job['name']}", FINAL)
    log = client("ai", "custom-jobs", "stream-logs", job["name"])
    assert "the configuration maps it to environment added" in log.out, log
    assert "ran" in log.out


def test_a_gpu_job_that_runs_on_the_cpu_is_warned_of_in_its_log_describe_and_explain(
    client, server
):
    worker = pool("print('trained')")
    worker["machineSpec"] |= {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}
    document = {"displayName": "on-cpu", "jobSpec": {"workerPoolSpecs": [worker]}}
    status, job = server.call("POST", f"/v1/{PARENT}/customJobs", document)
    assert status == 200, job
    assert server.wait_for(f"/v1/{job['name']}", FINAL)
    message = "replicas that asked for 1 NVIDIA_TESLA_T4 run without GPUs, on the CPU"
    explained = client("jobs", "explain", job["name"])
    assert message in " ".join(explained.out.split()), explained
    described = client("ai", "custom-jobs", "describe", job["name"])
    assert message in " ".join(described.err.split()), described
    log = client("ai", "custom-jobs", "stream-logs", job["name"]).out.splitlines()
    assert [line.split()[0] for line in log if message in line] == ["WARNING"]
