"""What a job asks of a real cluster whose partitions have limits, features and few free GPUs."""

import pytest

from e2e import fleet
from e2e.support import good, log_lines, submit
from slurm.cluster import running_cluster, why_not
from slurm.configuration import Settings
from slurm.support import WHERE, a_job, on_cluster, partition, replicas_at, taken, waits_for
from trainshed.lifecycle.outcome import DEADLINE_EXCEEDED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.full  # several nodes; test_service has the one free node
def test_slurm_fills_what_is_free(cluster, tmp_path):
    first, second, third, *others = cluster.nodes
    with (
        on_cluster(cluster, tmp_path / "data") as server,
        taken(cluster, others, "--gres=gpu:t4:4"),
        taken(cluster, [first, second], "--gres=gpu:t4:2"),
    ):
        name = submit(server, a_job("gang", WHERE, gpus=2, workers=3))
        nodes = [node for node, _ in replicas_at(server, name)]
        assert nodes == [first, second, third, third]


@pytest.mark.full  # the shape has a golden test
def test_spread_replicas_have_nodes_of_their_own(cluster, tmp_path):
    with on_cluster(cluster, tmp_path / "data", spread=True) as server:
        name = submit(server, a_job("gang", WHERE, gpus=1, workers=3))
        assert replicas_at(server, name) == [(node, "0") for node in cluster.nodes[:4]]


@pytest.mark.full  # waits for the end of the time
def test_a_job_without_a_timeout_runs_where_max_time_is_short_and_ends_before_slurm_kills_it(
    cluster, tmp_path
):
    settings = {"partition": "brief", "grace_s": 40}
    with (
        partition(cluster, "brief", "maxtime=1"),
        on_cluster(cluster, tmp_path / "data", **settings) as server,
    ):
        never = cluster.shared / "never"
        name = fleet.begun(server, a_job("open", waits_for(never)))
        (limit,) = cluster.jobs("%l")
        assert limit == "1:00"
        job = fleet.ended(server, name)
        assert (job["state"], job["attempt"]) == ("FAILED", 1)
        log = [line["message"] for line in log_lines(server, name)]
        assert any("may run for 5 s, all that the partition brief gives" in line for line in log)
        error = good(server.call("GET", f"/v1/{name}"))["error"]
        assert error["code"] == DEADLINE_EXCEEDED
        for words in ("the partition brief gives", "scheduling.timeout", "running_days_default"):
            assert words in error["message"]
        cluster.wait_for(lambda: not cluster.jobs())
        path = f"/v1/{name.rpartition('/')[0]}"
        status, answer = server.call("POST", path, a_job("long", timeout="3600s"))
        assert status == 400
        assert "the partition brief lets jobs run at most 5 s" in str(answer)


@pytest.mark.full  # a golden test has the words, and a table test the judgement
def test_partitions_features_and_options_of_a_site(cluster, tmp_path):
    node = cluster.nodes[4]
    cluster.run("scontrol", "update", f"nodename={node}", "features=ib")  # Slurm removes none
    settings = {
        "partition": "brief,main",
        "constraint": "ib",
        "sbatch_options": ["--contiguous"],
        "wishes": ["switches"],
    }
    go = cluster.shared / "go-site"
    with (
        partition(cluster, "brief", "maxtime=1"),
        on_cluster(cluster, tmp_path / "data", **settings) as server,
    ):
        document = a_job("site", waits_for(go))
        document["labels"] = {"trainshed-slurm-switches": "1"}
        name = fleet.begun(server, document)
        (number,) = cluster.jobs("%A")
        text = cluster.run("scontrol", "show", "job", number)
        for words in (f"NodeList={node}", "Partition=main", "Features=ib", "Contiguous=1"):
            assert words in text, text
        assert "Switches=1@" in text
        go.touch()
        assert fleet.ended(server, name)["state"] == "SUCCEEDED"


@pytest.mark.full  # a table test has the CPUs
def test_a_replica_has_its_memory_where_each_cpu_may_have_little(cluster, tmp_path):
    go = cluster.shared / "go-lean"
    with (
        partition(cluster, "lean", "maxmempercpu=2000"),
        on_cluster(cluster, tmp_path / "data", partition="lean") as server,
    ):
        name = fleet.begun(server, a_job("lean", waits_for(go), workers=1))  # 4 CPUs, 15 GB
        (number,) = cluster.jobs("%A")
        step = cluster.run("scontrol", "show", "step", f"{number}.0")
        assert "TRES=cpu=16,mem=30G" in step, step
        go.touch()
        assert fleet.ended(server, name)["state"] == "SUCCEEDED"


@pytest.mark.full  # a cluster of its own; table tests have the choice of a word
def test_slices_and_several_words_for_one_type(tmp_path):
    if reason := why_not():
        pytest.skip(reason)
    slices = {"a100_1g.5gb": 2, "a100": 1}
    settings = Settings(nodes=3, gpus={"v100": 2}, own_gpus={1: slices, 2: {"tesla_v100": 2}})
    gres = {"NVIDIA_TESLA_T4": "a100_1g.5gb"}
    with running_cluster(settings) as cluster:
        sliced, free, full = cluster.nodes
        with (
            taken(cluster, [full], "--exclusive"),
            on_cluster(cluster, tmp_path / "data", gres=gres) as server,
        ):
            name = submit(server, a_job("slices", WHERE, gpus=1, workers=1))
            assert replicas_at(server, name) == [(sliced, "0"), (sliced, "1")]
            document = a_job("words", WHERE, gpus=2)
            (pool,) = document["jobSpec"]["workerPoolSpecs"]
            pool["machineSpec"]["acceleratorType"] = "NVIDIA_TESLA_V100"
            assert replicas_at(server, submit(server, document)) == [(free, "0,1")]
