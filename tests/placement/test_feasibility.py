from dataclasses import replace

import pytest
from hypothesis import given, settings

from placement.support import T4, demand, demands, fleets, node, queued, rule_sets
from trainshed.model.explanation import Reason
from trainshed.model.resources import Demand, FleetPolicy, GroupDemand, JobDemand, NodeState
from trainshed.model.roles import Role
from trainshed.placement.feasibility import Feasibility
from trainshed.placement.jobs import QuotaRule
from trainshed.placement.plan import Planner


def test_a_job_that_no_node_holds_is_told_what_the_largest_has():
    refusal = Feasibility([node("a", 4)]).judge("p", demand(8))
    assert refusal.reason is Reason.NO_SUCH_NODE
    assert refusal.message == (
        "needs 8 NVIDIA_TESLA_T4 on one machine; 4 are free on a, and no node has more, "
        "with the whole fleet empty"
    )
    assert refusal.change.text == "could run with 4 instead of 8 NVIDIA_TESLA_T4"


def test_a_job_beyond_its_quota_is_told_the_limit():
    refusal = Feasibility([node("a", 8)], [QuotaRule(accelerator=T4, limit=4)]).judge(
        "p", demand(1, workers=7)
    )
    assert refusal.reason is Reason.QUOTA
    assert refusal.message == "needs 8 NVIDIA_TESLA_T4; project p's quota in us-central1 is 4"
    assert refusal.change.text == "could run with 3 instead of 7 workers"


def exact(name, vcpus, memory_gb):
    return node(name, vcpus=vcpus, memory_gb=memory_gb, policy=FleetPolicy.EXACT)


@pytest.mark.parametrize(
    ("vcpus", "memory_gb", "largest"),
    [
        (16, 60.0, "b, has 8 vCPUs and 30 GB of memory"),
        (2, 100.0, "c, has 2 vCPUs and 64 GB of memory"),
        (64, 1.0, "b, has 8 vCPUs and 30 GB of memory"),
    ],
)
def test_a_job_too_large_for_exact_nodes_is_told_what_the_largest_has(vcpus, memory_gb, largest):
    fleet = [exact("a", 4, 15.0), exact("b", 8, 30.0), exact("c", 2, 64.0)]
    size = Demand(vcpus=vcpus, memory_gb=memory_gb)
    group = GroupDemand(role=Role.PRIMARY, count=1, each=size)
    refusal = Feasibility(fleet).judge("p", JobDemand(region=None, groups=(group,)))
    assert f"no node has all of that free; the largest, {largest}" in refusal.message
    assert "smaller machine type, or start the server with policy best-effort" in refusal.message


def test_a_type_that_nobody_offers():
    refusal = Feasibility([node("a")]).judge("p", demand(1))
    assert refusal.message.startswith("needs 1 NVIDIA_TESLA_T4 on one machine; no node offers that")


def test_a_drained_node_comes_back():
    assert Feasibility([node("a", 4, state=NodeState.DRAINED)]).judge("p", demand(4)) is None


def test_gpus_that_somebody_else_holds_come_back():
    """A job is not refused for ever because a stranger computes on a GPU when it is submitted."""
    busy = node("a", 4, gpus_held={T4: 4})
    assert Feasibility([busy]).judge("p", demand(4)) is None
    drained = replace(busy, state=NodeState.DRAINED)
    assert Feasibility([drained]).blocking_reason(demand(4)) is Reason.DRAINED
    assert Feasibility([busy]).judge("p", demand(5)).reason is Reason.NO_SUCH_NODE


@settings(deadline=None)
@given(nodes=fleets(), rules=rule_sets, job_demand=demands())
def test_a_job_that_can_ever_run_starts_on_an_empty_fleet_and_no_other(nodes, rules, job_demand):
    refusal = Feasibility(nodes, rules).judge("p", job_demand)
    planner = Planner(rules)
    planner.set_nodes([replace(node, state=NodeState.READY) for node in nodes])
    assert (1 in planner.plan([queued(1, job_demand)], 0.0).placed) == (refusal is None)
