"""``--fleet-policy exact`` of a local run: a replica gets what its machine type has."""

import sys

import pytest

from engines.test_limits import GREEDY, limits_memory

RUN = ("ai", "custom-jobs", "local-run", "--fleet-policy", "exact")
SMALL = '[[machine_type]]\nname = "small"\nvcpus = 1\nmemory_gb = 0.125\n'


def pool(machine, code):
    return {
        "machineSpec": {"machineType": machine},
        "replicaCount": 1,
        "containerSpec": {"imageUri": "img", "command": [sys.executable, "-c", code]},
    }


@limits_memory
def test_a_replica_over_the_memory_of_its_machine_type_is_killed_and_the_error_says_why(
    trainshed, written
):
    job = written("job.json", {"workerPoolSpecs": [pool("small", GREEDY)]})
    run = trainshed(*RUN, "--config", job, "--overlay", written("own.toml", SMALL))
    assert run.code == 137
    assert "workerpool0-0 was killed by SIGKILL" in run.out
    assert "out of memory at its limit of 128 MiB" in run.out


def test_limits_are_those_of_machine_types_and_never_more_than_there_is(
    trainshed, written, monkeypatch
):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    machines = ("n1-standard-4", "n1-standard-16")
    job = written("job.json", {"workerPoolSpecs": [pool(name, "") for name in machines]})
    words = (*RUN, "--config", job, "--dry-run", "--format", "json")
    plan = trainshed(*words).json
    limits = [(replica["memory_bytes_max"], replica["cpus_max"]) for replica in plan["replicas"]]
    assert limits == [(15 << 30, 4.0), (60 << 30, None)]
    assert "This machine has 8 CPUs: larger machine types may use them all." in plan["notes"]
    free = trainshed(*words, "--fleet-policy", "best-effort").json
    assert {replica["memory_bytes_max"] for replica in free["replicas"]} == {None}


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ((), "No limit applies: no replica names a machine type of the catalog."),
        (("--executor-image-uri", "img"), "No limit applies"),
    ],
)
def test_a_program_without_a_machine_type_has_no_limits_and_is_told(
    trainshed, tmp_path, words, note
):
    (tmp_path / "task.py").write_text("print('ran')")
    run = trainshed(*RUN, "--script", "task.py", *words)
    assert run.code == 0
    assert note in run.err
