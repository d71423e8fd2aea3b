"""The cluster of the tests is one: it places, it gives GPUs, it loses nodes, and it ends."""

import os
import signal

import pytest

from slurm.cluster import Cluster, Settings, running_cluster

SCRIPT = """#!/bin/sh
srun --export=ALL /bin/sh -c 'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"; exec sleep 300'
"""


def submit(cluster, *flags):
    """A job's output."""
    script, output = cluster.shared / "script", cluster.shared / "output"
    script.write_text(SCRIPT)
    output.unlink(missing_ok=True)
    cluster.run("sbatch", "--no-requeue", f"--output={output}", *flags, script)
    return output


def has_lines(output, count=1):
    return output.exists() and len(output.read_text().splitlines()) >= count


@pytest.fixture
def signals(monkeypatch):
    """The signals that would have been sent."""
    sent = []
    monkeypatch.setattr(os, "kill", lambda *words: sent.append(words))
    return sent


def test_a_crash_waits_until_the_daemon_has_written_its_pid(tmp_path, monkeypatch, signals):
    """Without a file it took 0 for the pid, and killed the tests and their shell."""
    cluster = Cluster(tmp_path, Settings(nodes=1))
    pid_file = tmp_path / "run" / f"slurmd.{cluster.nodes[0]}.pid"
    pid_file.parent.mkdir()

    def write_it_in_parts(is_there):
        for text in ("", "4711\n"):
            assert not is_there()
            pid_file.write_text(text)
        assert is_there()

    monkeypatch.setattr(cluster, "wait_for", write_it_in_parts)
    cluster.crash_daemon(cluster.nodes[0])
    assert signals == [(4711, signal.SIGKILL)]


@pytest.mark.parametrize("pid", [0, -1])
def test_no_signal_goes_to_a_group_of_processes(tmp_path, signals, pid):
    with pytest.raises(AssertionError):
        Cluster(tmp_path, Settings(nodes=1))._kill([pid])
    assert not signals


def test_a_gang_runs_on_nodes_with_devices(cluster):
    output = submit(cluster, "-N2", "--gres=gpu:t4:2")
    cluster.wait_for(lambda: has_lines(output, 2))
    assert sorted(output.read_text().splitlines()) == [f"{node} 0,1" for node in cluster.nodes[:2]]


def test_a_controller_that_has_lost_its_state_knows_no_job(cluster):
    output = submit(cluster)
    cluster.wait_for(lambda: has_lines(output))
    cluster.stop_controller()
    cluster.forget_state()
    cluster.start_controller()
    cluster.wait_for(cluster.all_idle)
    assert not cluster.jobs()


@pytest.mark.full  # Slurm waits ten seconds for a node
def test_a_node_that_is_killed_takes_its_job_along(cluster):
    output = submit(cluster, "--job-name=on-a-dying-node")
    cluster.wait_for(lambda: has_lines(output))
    cluster.kill_node(cluster.nodes[0])
    cluster.wait_for(lambda: not cluster.jobs())
    ended = [row for row in cluster.finished() if row["Name"] == "on-a-dying-node"]
    assert [row["JobState"] for row in ended] == ["NODE_FAIL"]


@pytest.mark.full
def test_a_hundred_nodes_run_a_task_each(large_cluster):
    output = submit(large_cluster, "-N64", "--time=1")
    large_cluster.wait_for(lambda: has_lines(output, 64))
    large_cluster.empty()


@pytest.mark.full
def test_two_clusters_know_nothing_of_each_other(cluster):
    with running_cluster() as other:
        submit(cluster)
        assert not other.jobs()
        assert not set(other.nodes) & set(cluster.nodes)


@pytest.mark.full  # Slurm looks every thirty seconds whether a node has booted
def test_a_node_of_a_cloud_is_powered_up_for_a_job_and_boots_when_a_test_says():
    with running_cluster(Settings(nodes=2, cloud=1)) as cluster:
        node = cluster.nodes[1]
        assert "IDLE+CLOUD+POWERED_DOWN" in cluster.run("scontrol", "show", "node", node)
        output = submit(cluster, "-N2")
        cluster.wait_for(lambda: cluster.jobs_in("CONFIGURING"))
        cluster.wait_for(lambda: "POWERING_UP" in cluster.run("scontrol", "show", "node", node))
        cluster.start_node(node)
        cluster.wait_for(lambda: has_lines(output, 2))


@pytest.mark.full
def test_gpus_have_the_words_of_a_site():
    slices = {"a100_1g.5gb": 2, "a100": 1}
    with running_cluster(Settings(nodes=2, own_gpus={2: slices})) as cluster:
        words = cluster.run("sinfo", "-h", "-N", "-p", "main", "-o", "%G").split()
        assert words == ["gpu:t4:4", "gpu:a100_1g.5gb:2,gpu:a100:1"]
        output = submit(cluster, "--gres=gpu:a100_1g.5gb:1")
        cluster.wait_for(lambda: has_lines(output))
