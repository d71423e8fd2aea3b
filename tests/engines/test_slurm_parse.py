"""What Slurm's commands print is read, whatever the release; what is no row is passed over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.slurm_texts import BOOTING, LIMITED, NODES, PARTITIONS, SQUEUE
from trainshed.engines.slurm import nodes as nodes_
from trainshed.engines.slurm import parse
from trainshed.engines.slurm.nodes import ClusterState
from trainshed.engines.slurm.parse import Cancellation
from trainshed.model.resources import FleetPolicy, NodeState


def test_the_rows_of_the_queue():
    rows = {(row.id, row.component): row for row in parse.jobs(SQUEUE)}
    assert list(rows) == [("7", 0), ("10", 0), ("1", 0), ("2", 0), ("2", 1), ("4", 0)]
    het = rows["2", 1]
    assert (het.state, het.nodes, het.name) == ("RUNNING", ("n2", "n3", "n4"), "ts-abc-6.1")
    assert (het.comment, het.reason, het.start_s) == ("6/1", "", 1795461132.0)
    held = rows["4", 0]
    assert (held.reason, held.start_s, held.nodes) == ("JobHeldUser", None, ())
    assert rows["7", 0].reason.startswith("Nodes required")
    assert rows["7", 0].comment == ""


def test_a_name_with_the_separator_does_not_shift_a_row_of_ours():
    strange = "9|RUNNING|n1|5|a|b|c|ts-abc-5|5/1|None\n"
    (row,) = parse.jobs(strange)
    assert (row.name, row.comment) == ("a", "b")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", "n1"),
        ("", ""),
        ("(null)", ""),
        ("n[1-3,7],login", "n1 n2 n3 n7 login"),
        ("gpu[08-11]", "gpu08 gpu09 gpu10 gpu11"),
        ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
        ("a-b[1-2]-x", "a-b1-x a-b2-x"),
        ("n[],n[x-y],n[2]", "n2"),
    ],
)
def test_lists_of_hosts(text, names):
    assert list(parse.host_names(text)) == names.split()


def test_nodes_of_several_releases():
    n1, n2, n3, n4 = parse.nodes(NODES)
    assert (n1.name, n1.cpus, n1.memory_mib, n1.gres) == ("n1", 8, 8192, {"t4": 4})
    assert n1.partitions == {"main", "short", "low", "acct"}
    assert (n2.state, n2.gres, n2.reason) == (
        ("IDLE", "DRAIN"),
        {"t4": 4},
        "bad disk [root@2026-11-23T19:17:49]",
    )
    assert n3.gres == {"nvidia_a100_80gb_pcie": 2, "h100": 8}
    assert (n3.cpus, n3.memory_mib) == (14, 64512)
    assert (n4.state, n4.gres) == (("DOWN", "*"), {"": 2})


def test_all_releases_say_the_same_of_a_node_and_a_partition():
    first, *others = parse.nodes(BOOTING)
    assert others == [first, first]
    assert first.state == ("MIXED", "CLOUD", "NOT_RESPONDING", "POWERING_UP")
    assert first.gres == {"a100_1g.5gb": 2, "a100": 1}
    main, *others = parse.partitions(LIMITED)
    assert others == [main, main]
    assert (main.minutes_max, main.nodes_max) == (24 * 60, None)


def test_partitions():
    main, short, shut = parse.partitions(PARTITIONS)
    assert (main.is_default, main.minutes_max, main.nodes_max) == (True, None, None)
    assert (short.minutes_max, short.nodes_max) == (60, 2)
    assert (shut.is_up, shut.minutes_max) == (False, 7 * 24 * 60)


def test_the_fleet_shows_types_of_the_catalog_and_who_takes_no_jobs():
    cluster = ClusterState(tuple(parse.nodes(NODES)), gres={"NVIDIA_L4": ("l4_custom",)})
    fleet = {node.name: node for node in nodes_.fleet(cluster, FleetPolicy.EXACT)}
    assert fleet["n1"].gpus == {"NVIDIA_TESLA_T4": 4}
    assert fleet["n3"].gpus == {"NVIDIA_A100_80GB": 2, "NVIDIA_H100_80GB": 8}
    assert (fleet["n1"].vcpus, fleet["n1"].memory_gb) == (8, 8.0)
    states = {name: node.state for name, node in fleet.items()}
    drained = {name for name, state in states.items() if state is NodeState.DRAINED}
    assert drained == {"n2", "n4"}


@pytest.mark.parametrize(
    ("line", "kills"),
    [
        ("TaskPluginParam         = OOMKillStep", True),
        ("TaskPluginParam         = Verbose,OOMKillStep,", True),
        ("TaskPluginParam         = (null type)", False),
        ("TaskPlugin              = task/cgroup", False),
    ],
)
def test_a_cluster_may_kill_a_whole_step_that_has_no_memory(line, kills):
    assert parse.kills_steps(f"TaskPlugin = task/cgroup\n{line}\nTreeWidth = 50\n") is kills


def test_the_words_of_the_configuration_come_before_the_guess():
    cluster = ClusterState(tuple(parse.nodes(NODES)), gres={"NVIDIA_L4": ("h100",)})
    assert cluster.words_for("NVIDIA_L4") == {"h100"}
    assert cluster.accelerator_of("h100") == "NVIDIA_L4"
    assert cluster.words_for("NVIDIA_TESLA_T4") == {"t4", ""}  # GPUs without a word are any


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("UNLIMITED", None), ("01:00:00", 60), ("2-00:30:00", 2910), ("00:05", 0), ("30:00", 30)],
)
def test_times(text, minutes):
    assert parse.minutes(text) == minutes


def test_releases_and_pings():
    assert parse.version("slurm-wlm 22.05.8") == (22, 5)
    assert parse.version("slurm 24.11.5-1") == (24, 11)
    assert parse.version("?") is None
    assert parse.is_up("Slurmctld(primary) at vm is UP\n")
    assert not parse.is_up("Slurmctld(primary) at vm is DOWN\n")


@given(st.text())
def test_no_text_breaks_a_reader(text):
    list(parse.jobs(text))
    list(parse.nodes(f"NodeName={text}"))
    list(parse.partitions(f"PartitionName={text}"))
    parse.version(text)


def test_who_cancelled_a_job_and_when():
    """As sacct prints it, of heterogeneous jobs too, and as squeue does."""
    text = """\
7|ts-abc-5|CANCELLED by 1000|1796015176
8+0|ts-abc-6|CANCELLED by 0|1796015177
8+1|ts-abc-6.1|CANCELLED by 0|1796015177
9|odd|name|CANCELLED|Unknown
10|ts-abc-7|COMPLETED|1796015178
what is no row
"""
    assert list(parse.cancellations(text)) == [
        ("7", "ts-abc-5", Cancellation(1000, 1796015176.0)),
        ("8", "ts-abc-6", Cancellation(0, 1796015177.0)),
        ("9", "odd|name", Cancellation()),
    ]
