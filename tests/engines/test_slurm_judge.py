"""What can never run on a cluster is refused, with the largest that would be accepted."""

import pytest

from engines.slurm_texts import NODES, PARTITIONS
from trainshed.engines.base import JobNeeds
from trainshed.engines.slurm import options, parse
from trainshed.engines.slurm.judge import (
    choose_excluded,
    choose_partitions,
    explain_refusal,
    shape_for,
)
from trainshed.engines.slurm.nodes import ClusterState
from trainshed.engines.slurm.shape import Need
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
    weeks = needs_of(group(Role.PRIMARY, 1), running_s_max=1_209_600.0)
    refusal = explain_refusal(weeks, CLUSTER, SHORT)
    assert refusal.message.startswith("the job may run 1209600 s,")


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


def test_a_job_that_sets_no_time_gets_what_the_partition_permits():
    job = needs_of(group(Role.PRIMARY, 1), running_s_max=604_800.0, sets_time=False)
    assert explain_refusal(job, CLUSTER, SHORT) is None
    request = choose_partitions(job, CLUSTER, SHORT)
    assert (request.partition, request.grant.minutes) == ("short", 60)
    no_time = options.read({"spool": "/s", "partition": "short", "hold_s": 3600})
    assert "`grace_s` and `hold_s`" in explain_refusal(job, CLUSTER, no_time).message


def several(**settings):
    return options.read({"spool": "/s", "partition": "short,main", **settings})


def test_of_several_partitions_one_that_can_run_the_job_is_enough():
    large = needs_of(group(Role.PRIMARY, 1, gpus=8, gpu_type="NVIDIA_H100_80GB"))
    assert explain_refusal(large, CLUSTER, several()) is None
    assert choose_partitions(large, CLUSTER, several()).partition == "main"
    small = needs_of(group(Role.PRIMARY, 1), running_s_max=600.0)
    assert choose_partitions(small, CLUSTER, several()).partition == "short,main"
    long = needs_of(group(Role.PRIMARY, 1), running_s_max=7200.0, sets_time=False)
    assert choose_partitions(long, CLUSTER, several()).partition == "main"


def test_of_several_partitions_each_says_why_it_cannot():
    refusal = explain_refusal(needs_of(group(Role.PRIMARY, 1, cpus=99)), CLUSTER, several())
    assert "the nodes of partition short have" in refusal.message
    assert "; primary asks" in refusal.message
    assert "the nodes of partition main have" in refusal.message
    absent = options.read({"spool": "/s", "partition": "main,none"})
    refusal = explain_refusal(needs_of(group(Role.PRIMARY, 1)), CLUSTER, absent)
    assert refusal.message == "the cluster has no partition none; it has: main, short, shut"


def node(name, gres, **more):
    return CLUSTER.nodes[0]._replace(name=name, gres=gres, **more)


def cluster_of(*nodes, **partition):
    main = CLUSTER.partitions["main"]._replace(**partition)
    return ClusterState(nodes, {"main": main}, {})


def test_a_slice_of_a_gpu_is_no_whole_gpu():
    cluster = cluster_of(node("n1", {"a100_1g.5gb": 7}), node("n2", {"a100": 4}))
    whole = needs_of(group(Role.PRIMARY, 1, gpus=4, gpu_type="NVIDIA_TESLA_A100"))
    assert explain_refusal(whole, cluster, MAIN) is None
    more = needs_of(group(Role.PRIMARY, 1, gpus=7, gpu_type="NVIDIA_TESLA_A100"))
    assert explain_refusal(more, cluster, MAIN).change.accepted == "4"
    assert cluster.types == ["NVIDIA_TESLA_A100", "a100_1g.5gb"]
    mapped = cluster._replace(gres={"NVIDIA_TESLA_T4": ("a100_1g.5gb",)})
    assert explain_refusal(needs_of(group(Role.PRIMARY, 7, gpus=1)), mapped, MAIN) is None


@pytest.mark.parametrize("word", ["a100_1g.5gb", "rtx_4090"])
def test_gpus_that_no_job_can_name_are_no_advice_but_the_setting_is(word):
    """It said that the job would be accepted with a type that the API refuses."""
    asks = needs_of(group(Role.PRIMARY, 1, gpus=1, gpu_type="NVIDIA_TESLA_A100"))
    explanation = explain_refusal(asks, cluster_of(node("n1", {word: 4})), MAIN)
    assert explanation.change is None
    assert f'gres = {{ NVIDIA_TESLA_A100 = "{word}" }}' in explanation.message
    beside = cluster_of(node("n1", {word: 4}), node("n2", {"t4": 4}))
    assert explain_refusal(asks, beside, MAIN).change.accepted == T4
    mapped = cluster_of(node("n1", {word: 4}))._replace(gres={"NVIDIA_TESLA_A100": (word,)})
    assert explain_refusal(asks, mapped, MAIN) is None


def test_a_machine_with_gpus_that_is_too_large_may_ask_for_the_gpus_alone():
    """An a2-highgpu-1g has 85 GB, and no type with an A100 has less."""
    asks = needs_of(group(Role.PRIMARY, 1, cpus=12, gb=85.0, gpus=1))
    small = cluster_of(node("n1", {"t4": 4}, cpus=16, memory_mib=64_000))
    explanation = explain_refusal(asks, small, MAIN)
    assert explanation.change.asked == "12 vCPUs and 85 GB", "the memory is what lacks"
    assert 'policy = "best-effort"' in explanation.message


V100 = "NVIDIA_TESLA_V100"


def word_of(cluster, *groups):
    pool = choose_partitions(needs_of(*groups), cluster, MAIN).pool
    need = Need(gpu_type=V100, gpus=groups[0].each.gpu_count)
    return pool.choose_word(need, sum(group.count for group in groups))


def test_of_several_words_for_one_type_the_one_with_room_is_chosen():
    cluster = cluster_of(
        node("n1", {"v100": 4}),
        node("n2", {"tesla_v100": 4}),
        node("n3", {"tesla_v100": 4}, state=("ALLOCATED",)),
    )
    assert word_of(cluster, group(Role.PRIMARY, 2, gpus=4, gpu_type=V100)) == "tesla_v100"
    one = group(Role.PRIMARY, 1, gpus=4, gpu_type=V100)
    busy = cluster_of(node("n1", {"v100": 4}), node("n2", {"tesla_v100": 4}, state=("ALLOCATED",)))
    assert word_of(busy, one) == "v100"
    free = cluster_of(node("n1", {"v100": 4}, state=("ALLOCATED",)), node("n2", {"tesla_v100": 4}))
    assert word_of(free, one) == "tesla_v100"
    assert word_of(cluster_of(node("n1", {"": 4}), node("n2", {"v100": 4})), one) == "v100"
    assert word_of(cluster_of(node("n1", {"": 8}), node("n2", {"v100": 4})),
                   group(Role.PRIMARY, 1, gpus=8, gpu_type=V100)) == ""  # fmt: skip


def test_gpus_of_two_words_are_not_added_up():
    cluster = cluster_of(node("n1", {"v100": 4}), node("n2", {"tesla_v100": 4}))
    job = needs_of(group(Role.PRIMARY, 1, gpus=4, gpu_type=V100),
                   group(Role.WORKER, 1, gpus=4, gpu_type=V100))  # fmt: skip
    refusal = explain_refusal(job, cluster, MAIN)
    assert refusal.change.field == "replica_count"
    assert "Slurm calls v100; it calls others tesla_v100" in refusal.message


@pytest.mark.parametrize(("label", "nodes"), [("measure", 2), ("on", None)])
def test_a_measurement_of_several_hosts_gets_several_nodes(label, nodes):
    needs = needs_of(group(Role.PRIMARY, 1), group(Role.WORKER, 1))
    pool = choose_partitions(needs, CLUSTER, SHORT).pool
    roles = [Role.PRIMARY, Role.WORKER]
    shape = shape_for(needs.demand, roles, pool, SHORT, {"trainshed-plan": label})
    assert [part.nodes for part in shape.parts] == [nodes]


def test_the_memory_for_a_cpu_is_limited():
    lean = cluster_of(node("n1", {}), memory_per_cpu_max=500)
    assert explain_refusal(needs_of(group(Role.PRIMARY, 1, cpus=1, gb=3)), lean, MAIN) is None
    refusal = explain_refusal(needs_of(group(Role.PRIMARY, 1, cpus=1, gb=6)), lean, MAIN)
    assert "13 vCPUs and 6 GB (MaxMemPerCPU is 500 MiB)" in refusal.message


def test_features_of_nodes():
    cluster = cluster_of(node("n1", {}, features=frozenset({"ib", "big"})), node("n2", {"t4": 4}))
    wishes = options.read({"spool": "/s", "constraint": "ib&big", "wishes": ["constraint"]})
    assert explain_refusal(needs_of(group(Role.PRIMARY, 8)), cluster, wishes) is None
    assert explain_refusal(needs_of(group(Role.PRIMARY, 9)), cluster, wishes) is not None
    job = needs_of(group(Role.PRIMARY, 1), wants={"trainshed-slurm-constraint": "gold"})
    assert explain_refusal(job, cluster, wishes).message == (
        "the nodes of partition main lack the features of gold"
    )
    either = options.read({"spool": "/s", "constraint": "[gold|ib]"})  # only Slurm can judge this
    assert explain_refusal(needs_of(group(Role.PRIMARY, 16)), cluster, either) is None


def test_the_time_that_a_qos_permits_is_a_setting():
    limited = options.read({"spool": "/s", "time_max_s": 1800})
    job = needs_of(group(Role.PRIMARY, 1), running_s_max=604_800.0, sets_time=False)
    assert choose_partitions(job, CLUSTER, limited).grant.minutes == 30
    short = options.read({"spool": "/s", "partition": "short", "time_max_s": 7200})
    assert choose_partitions(job, CLUSTER, short).grant.minutes == 60
    refusal = explain_refusal(
        needs_of(group(Role.PRIMARY, 1), running_s_max=3600.0), CLUSTER, limited
    )
    assert refusal.change.accepted == "1490s"
