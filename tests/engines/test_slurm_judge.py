"""What can never run on a cluster is refused, with the largest that would be accepted."""

import pytest

from engines.slurm_texts import NODES, PARTITIONS
from trainshed.engines.base import JobNeeds
from trainshed.engines.slurm import options, parse
from trainshed.engines.slurm.judge import choose_excluded, explain_refusal
from trainshed.engines.slurm.nodes import ClusterState
from trainshed.model.explanation import Reason
from trainshed.model.resources import Demand, GroupDemand, JobDemand
from trainshed.model.roles import Role

T4 = "NVIDIA_TESLA_T4"
CLUSTER = ClusterState(
    tuple(parse.nodes(NODES)),
    {partition.name: partition for partition in parse.partitions(PARTITIONS)},
    {},
)
MAIN = options.read({"spool": "/s"})
SHORT = options.read({"spool": "/s", "partition": "short", "wishes": ["partition"]})


def group(role, count, *, cpus=1, gb=1.0, gpus=0, gpu_type=T4):  # noqa: PLR0913
    demand = Demand(vcpus=cpus, memory_gb=gb, gpu_type=gpu_type if gpus else None, gpu_count=gpus)
    return GroupDemand(role=role, count=count, each=demand)


def needs_of(*groups, **more):
    return JobNeeds(demand=JobDemand(region=None, groups=groups), **more)


@pytest.mark.parametrize(
    "groups",
    [
        (group(Role.PRIMARY, 1, gpus=4),),
        (group(Role.PRIMARY, 1, gpus=4), group(Role.WORKER, 1, gpus=4)),
        (group(Role.PRIMARY, 1, gpus=1), group(Role.WORKER, 7, gpus=1)),
        (group(Role.PRIMARY, 1, cpus=14, gb=60), group(Role.WORKER, 2, cpus=8, gb=8)),
        (group(Role.PRIMARY, 1), group(Role.WORKER, 20)),
    ],
)
def test_what_fits_when_all_is_free_is_never_refused(groups):
    assert explain_refusal(needs_of(*groups), CLUSTER, MAIN) is None


@pytest.mark.parametrize(
    ("lost", "replicas", "avoided"),
    [
        ((), 1, ()),
        (("n1",), 1, ("n1",)),
        (("n3", "n1"), 1, ("n3",)),  # n2 is drained and n4 is down: one node must remain
        (("n1", "n3"), 1, ("n1",)),
        (("n2", "n1"), 1, ("n1", "n2")),
        (("n3",), 10, ()),  # n1 has 8 CPUs
        (("left-the-cluster", "n1"), 1, ("n1",)),
    ],
)
def test_nodes_are_avoided_as_long_as_others_can_hold_the_job(lost, replicas, avoided):
    needs = needs_of(group(Role.PRIMARY, 1), *[group(Role.WORKER, replicas - 1)] * (replicas > 1))
    assert choose_excluded(lost, needs, CLUSTER, MAIN) == avoided


@pytest.mark.parametrize(
    ("groups", "field", "role", "accepted"),
    [
        ((group(Role.PRIMARY, 1, gpus=16),), "accelerator_count", "primary", "4"),
        (
            (group(Role.PRIMARY, 1, gpus=4), group(Role.WORKER, 2, gpus=4)),
            "replica_count",
            "worker",
            "1",
        ),
        (
            (group(Role.PRIMARY, 1, gpus=1, gpu_type="NVIDIA_B200"),),
            "accelerator_type",
            "primary",
            "NVIDIA_A100_80GB, NVIDIA_H100_80GB, NVIDIA_TESLA_T4",
        ),
        ((group(Role.PRIMARY, 1, cpus=96, gb=4),), "machine_type", "primary", "14 vCPUs and 63 GB"),
        (
            (group(Role.PRIMARY, 1, gpus=4), group(Role.EVALUATOR, 2, cpus=8)),
            "replica_count",
            "evaluator",
            "1",
        ),
    ],
)
def test_the_field_and_the_largest_are_named(groups, field, role, accepted):
    cluster = CLUSTER._replace(
        nodes=tuple(n for n in CLUSTER.nodes if field != "replica_count" or n.name != "n3")
    )
    refusal = explain_refusal(needs_of(*groups), cluster, MAIN)
    assert refusal.reason is Reason.NO_SUCH_NODE
    assert (refusal.change.field, refusal.change.role) == (field, role)
    assert refusal.change.accepted == accepted
    assert accepted in refusal.message or accepted.split(" ")[0] in refusal.message


def test_the_time_of_a_partition():
    job = needs_of(group(Role.PRIMARY, 1), running_s_max=3600.0)
    assert explain_refusal(job, CLUSTER, MAIN) is None
    refusal = explain_refusal(job, CLUSTER, SHORT)
    assert (refusal.change.field, refusal.change.accepted) == ("running_max", "3290s")
    longest = needs_of(group(Role.PRIMARY, 1), running_s_max=3290.0)
    assert explain_refusal(longest, CLUSTER, SHORT) is None


def test_the_nodes_of_a_partition_for_one_job():
    nodes = (*CLUSTER.nodes, CLUSTER.nodes[0]._replace(name="n9"))
    cluster = CLUSTER._replace(nodes=nodes)
    refusal = explain_refusal(
        needs_of(group(Role.PRIMARY, 1, gpus=4), group(Role.WORKER, 2, gpus=4)), cluster, SHORT
    )
    assert "gives a job at most 2" in refusal.message


def test_partitions_and_wishes_that_are_not_there():
    refusal = explain_refusal(
        needs_of(group(Role.PRIMARY, 1), wants={"trainshed-slurm-partition": "gpu"}), CLUSTER, SHORT
    )
    assert refusal.message == "the cluster has no partition gpu; it has: main, short, shut"
    refusal = explain_refusal(
        needs_of(group(Role.PRIMARY, 1), wants={"trainshed-slurm-qos": "x"}), CLUSTER, SHORT
    )
    assert "accepted are: trainshed-slurm-partition" in refusal.message


def test_a_cluster_that_was_never_seen_refuses_nothing():
    assert explain_refusal(needs_of(group(Role.PRIMARY, 1, gpus=99)), ClusterState(), MAIN) is None
