"""``nodes`` fits a terminal of 80 columns; ``--wide`` and JSON have everything."""

import pytest

from cli.standin import StandIn

SEEN = "2026-11-21T15:47:19Z"
NAME = "gpu-node-01.cluster.example.org"
JOB = "projects/demo-proj/locations/us-central1/customJobs/1234567890123456789"


def gpu(index, kind="NVIDIA_H100_MEGA_80GB", state="HELD"):
    reading = {
        "usedBytes": 79 << 30, "use": 1.0, "useMinute": 0.97, "powerWatts": 699.0,
        "temperatureCelsius": 71.0, "eccErrors": 0, "throttled": ["SW Power Capping"],
    }  # fmt: skip
    return {
        "uuid": f"GPU-{index}", "index": index, "type": kind, "state": state, "job": JOB,
        "memoryBytes": 80 << 30, "reading": reading,
    }  # fmt: skip


def node(name=NAME, **more):
    return {
        "name": name, "engine": "local", "state": "MAINTENANCE", "notice": "600s",
        "policy": "best-effort", "region": "northamerica-northeast1", "vcpus": 208,
        "memoryGigabytes": 1871.9, "gpus": {"NVIDIA_H100_MEGA_80GB": 8, "NVIDIA_TESLA_T4": 4},
        "slots": 1024, "replicas": 128, "isolation": "bubblewrap", "leftovers": "cgroup",
        "seen": SEEN, "devices": [gpu(0), gpu(10)], **more,
    }  # fmt: skip


@pytest.fixture
def nodes_of(trainshed, home):
    def run(nodes, *flags):
        with StandIn(lambda *_: (200, {"nodes": nodes})) as server:
            server.note(home / "data")
            return trainshed("nodes", *flags)

    return run


@pytest.mark.parametrize(
    "nodes",
    [
        [node()],
        [node("vm", gpus={}, devices=None, state="READY", notice=None)],
        [node("a"), node("b", notice=None)],
    ],
)
def test_the_tables_fit_80_columns(nodes_of, nodes):
    run = nodes_of(nodes)
    assert run.code == 0, run.err
    assert max(map(len, run.out.splitlines())) <= 80
    assert "128/1024" in run.out


def test_names_that_are_too_long_lose_their_middle_and_gpus_their_maker(nodes_of):
    table = nodes_of([node()]).out
    assert "gpu-node-…xample.org" in table
    assert "8 H100_MEGA_80GB, 4 T4" in table
    assert f"{NAME}: replicas get 600s notice" in table


def test_nodes_of_several_engines_are_told_apart(nodes_of):
    table = nodes_of([node("a", engine="slurm"), node("b")]).out
    assert "engine slurm: a" in table
    assert "engine local: b" in table


def test_wide_has_all_columns_and_whole_names(nodes_of):
    table = nodes_of([node()], "--wide").out
    for text in (NAME, "8 NVIDIA_H100_MEGA_80GB", "bubblewrap", "LEFTOVERS", "SW Power"):
        assert text in table


@pytest.mark.parametrize(
    ("job", "wide"),
    [
        (
            {"job": JOB, "jobName": "census", "user": "ada"},
            "ada census demo-proj/123456789012345678",
        ),
        ({"job": "projects/p/jobs/tuned/trials/2"}, "p/tuned/trials/2"),
        ({"job": None, "who": "process 5 (attempt 7/1)"}, "process 5 (attempt 7/1)"),
    ],
)
def test_the_tables_name_the_user_and_the_job_of_a_gpu(nodes_of, job, wide):
    nodes = [node("n1", devices=[{**gpu(0), **job}])]
    assert wide in " ".join(nodes_of(nodes, "--wide").out.split())
    assert ("ada: census" in nodes_of(nodes).out) == ("user" in job)


def test_json_is_what_the_server_said(nodes_of):
    assert nodes_of([node()], "--format", "json").json == [node()]
