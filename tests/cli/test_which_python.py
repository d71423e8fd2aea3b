"""A server says which Python a job runs in, and takes new environments without a restart."""

import sys

from cli.conftest import FINAL, PARENT

IMAGE = "registry.added/team/trainer:1"


def test_a_missing_package_is_told_by_describe_and_explain_with_its_python(client, created):
    name = created("raise ModuleNotFoundError(\"No module named 'xgboost'\")", wait=FINAL)
    said = f"runs in {sys.executable}, which has no xgboost; use --python, or [[environment]]"
    for words in (("ai", "custom-jobs", "describe", name), ("jobs", "explain", name)):
        found = client(*words)
        assert said in " ".join(found.out.split()), found
    log = client("ai", "custom-jobs", "stream-logs", name).out
    assert said in log


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
