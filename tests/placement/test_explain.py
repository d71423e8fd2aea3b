from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from placement.support import (
    EU,
    T4,
    US,
    V100,
    demand,
    fleets,
    held,
    hold_all,
    node,
    queued,
    queues,
    rule_sets,
)
from trainshed.model.explanation import Reason
from trainshed.model.gpus import GpuState, NodeGpu
from trainshed.model.resources import FleetPolicy
from trainshed.placement.jobs import QuotaRule
from trainshed.placement.plan import Planner


def waiting(nodes, holding, queue, quotas=(), **more):
    planner = Planner(quotas)
    planner.set_nodes(nodes)
    for job in holding:
        hold_all(planner, [job])
    return planner.plan(queue, 0.0, **more).waiting


def test_what_is_free_and_who_holds_the_rest():
    nodes = [node("a", 4), node("b", 4)]
    holding = [queued(1, demand(3)), queued(2, demand(2), seconds=50.0)]
    explanation = waiting(nodes, holding, [queued(3, demand(4))])[3]
    assert explanation.reason is Reason.CAPACITY
    assert explanation.message == (
        "needs 4 NVIDIA_TESLA_T4 on one machine; 2 are free on b, and no node has more; "
        "it starts in 50 s at the latest"
    )
    assert explanation.blockers == ("projects/p/jobs/j2", "projects/p/jobs/j1")
    assert explanation.change.text == "would start now with 2 instead of 4 NVIDIA_TESLA_T4"
    assert (explanation.change.field, explanation.change.role) == ("accelerator_count", "primary")
    assert (explanation.change.asked, explanation.change.accepted) == ("4", "2")


@pytest.mark.parametrize(
    ("count", "more"),
    [(2, "; and 1 more GPU is faulty"), (3, "; and 2 more GPUs are faulty")],
)
def test_a_job_that_waits_for_a_faulty_gpu_is_told_what_is_wrong_with_it(count, more):
    faulty = [
        NodeGpu(uuid=f"GPU-{i}", index=i, state=GpuState.FAULTY, problem="Xid 79")
        for i in range(count)
    ]
    nodes = [node("a", 2 + count, gpus_held={T4: count}, devices=(*faulty, NodeGpu(uuid="GPU-9")))]
    explanation = waiting(nodes, [], [queued(1, demand(4))])[1]
    assert explanation.reason is Reason.CAPACITY
    assert explanation.message == (
        "needs 4 NVIDIA_TESLA_T4 on one machine; 2 are free on a, and no node has more; "
        f"GPU 0 of a is faulty: Xid 79{more}"
    )
    assert "faulty" not in waiting(nodes, [], [queued(1, demand(8))])[1].message


def test_a_gang_is_told_how_many_replicas_there_is_room_for():
    explanation = waiting([node("a", 4), node("b", 2)], [], [queued(1, demand(2, workers=8))])[1]
    assert explanation.reason is Reason.NO_SUCH_NODE
    assert explanation.message == (
        "needs 9 replicas with 2 NVIDIA_TESLA_T4 each at once; there is room for 3, "
        "with the whole fleet empty"
    )
    assert explanation.change.text == "would start now with 2 instead of 8 workers"
    assert (explanation.change.field, explanation.change.role) == ("replica_count", "worker")


def test_a_quota_is_told_with_its_numbers_and_its_users():
    rules = [QuotaRule(accelerator=T4, limit=4)]
    explanation = waiting([node("a", 16)], [queued(1, demand(3))], [queued(2, demand(4))], rules)[2]
    assert explanation.reason is Reason.QUOTA
    assert explanation.message == (
        "needs 4 NVIDIA_TESLA_T4; 3 of 4 of project p's quota in us-central1 are in use"
    )
    assert explanation.blockers == (
        "quota of NVIDIA_TESLA_T4 of project p in us-central1",
        "projects/p/jobs/j1",
    )
    assert explanation.change.text == "would start now with 1 instead of 4 NVIDIA_TESLA_T4"


def test_a_job_is_not_told_the_names_of_other_projects_jobs():
    nodes = [node("a", 4)]
    holding = [queued(1, demand(1), project="secret"), queued(2, demand(2))]
    queue = [queued(3, demand(4), project="secret"), queued(4, demand(4)), queued(5, demand(3))]
    explanations = waiting(nodes, holding, queue)
    assert explanations[3].blockers == ("projects/secret/jobs/j1", "1 of other projects")
    assert (
        explanations[4].message == "waits behind a job of another project, which asks for the same"
    )
    assert explanations[5].blockers == ("projects/p/jobs/j2", "1 of other projects")


def test_ten_blockers_are_named_and_the_rest_counted():
    holding = [queued(uid, demand(1), seconds=float(uid)) for uid in range(1, 14)]
    explanation = waiting([node("a", 13)], holding, [queued(20, demand(2))])[20]
    assert explanation.blockers[0] == "projects/p/jobs/j1"
    assert explanation.blockers[9:] == ("projects/p/jobs/j10", "and 3 more")


def test_who_would_delay_an_older_job_is_told_so():
    nodes = [node("a", 4), node("b", 4)]
    queue = [queued(2, demand(4, workers=1)), queued(3, demand(2), seconds=1e6)]
    explanation = waiting(nodes, [queued(1, demand(4))], queue)[3]
    assert explanation.reason is Reason.RESERVED
    assert explanation.message == (
        "would fit now, and would delay projects/p/jobs/j2, which starts in 100 s at the latest"
    )


def test_who_waits_behind_the_same_demand_is_told_so():
    queue = [queued(2, demand(4)), queued(3, demand(4))]
    explanation = waiting([node("a", 4)], [queued(1, demand(4))], queue)[3]
    assert explanation.reason is Reason.BEHIND_QUEUE
    assert explanation.message == "waits behind projects/p/jobs/j2, which asks for the same"


def test_another_region_is_offered_where_nodes_have_regions():
    nodes = [node("a", 1, region=US), node("b", 1, region=EU)]
    explanation = waiting(nodes, [queued(1, demand(1))], [queued(2, demand(1))])[2]
    assert explanation.change.text == "would start now in europe-west4 instead of us-central1"


def test_another_type_is_the_last_resort():
    nodes = [node("a", 1), node("b", 1, gpu_type=V100)]
    explanation = waiting(nodes, [queued(1, demand(1))], [queued(2, demand(1))])[2]
    assert (
        explanation.change.text
        == "would start now with NVIDIA_TESLA_V100 instead of NVIDIA_TESLA_T4"
    )


def test_a_type_that_google_has_retired_is_offered_only_where_there_is_no_other():
    k80, v100 = node("b", 1, gpu_type="NVIDIA_TESLA_K80"), node("c", 1, gpu_type=V100)
    nodes = [node("a", 1), k80, v100]
    explanation = waiting(nodes, [queued(1, demand(1))], [queued(2, demand(1))])[2]
    assert (
        explanation.change.text
        == "would start now with NVIDIA_TESLA_V100 instead of NVIDIA_TESLA_T4"
    )
    explanation = waiting(nodes[:2], [queued(1, demand(1))], [queued(2, demand(1))])[2]
    assert (
        explanation.change.text
        == "would start now with NVIDIA_TESLA_K80 instead of NVIDIA_TESLA_T4"
    )


def test_no_change_is_offered_where_none_helps():
    explanation = waiting([node("a", 1)], [queued(1, demand(1))], [queued(2, demand(1))])[2]
    assert explanation.change is None


def test_only_counts_that_the_machine_type_can_have_are_offered():
    """One T4 goes with up to 24 vCPUs, two with up to 48."""
    exact = node("a", 3, vcpus=96, policy=FleetPolicy.EXACT)
    explanations = waiting([exact, node("b", 4, vcpus=1)], [], [queued(1, demand(4, vcpus=48))])
    assert not explanations
    explanation = waiting([exact], [queued(1, demand(1))], [queued(2, demand(4, vcpus=48))])[2]
    assert explanation.change.accepted == "2"
    explanation = waiting([exact], [queued(1, demand(2))], [queued(2, demand(4, vcpus=48))])[2]
    assert explanation.change is None


def test_the_group_that_would_have_fewer_gpus_is_named():
    nodes = [node("a", 2), node("b", 2)]
    explanation = waiting(nodes, [queued(1, demand(1))], [queued(2, demand(2, 1))])[2]
    assert (
        explanation.change.text
        == "would start now with 1 instead of 2 NVIDIA_TESLA_T4 on the primary"
    )
    nodes = [node("a", 2), node("b", 1), node("c", 1), node("d", 2), node("e", 2)]
    explanation = waiting(nodes, [queued(1, demand(2, 1))], [queued(2, demand(2, 2))])[2]
    offered = "with 1 instead of 2 NVIDIA_TESLA_T4 on each of the workers"
    assert explanation.change.text == f"would start now {offered}"


def test_a_type_that_comes_with_its_machine_is_not_offered_in_other_counts():
    a100 = "NVIDIA_TESLA_A100"
    nodes = [node("a", 2, gpu_type=a100)]
    explanation = waiting(nodes, [], [queued(1, demand(4, gpu_type=a100))])[1]
    assert explanation.change is None


def test_a_change_is_not_offered_to_who_would_come_behind_others_with_it():
    """The two free GPUs go to 3 as soon as 2 no longer waits before it."""
    rules = [QuotaRule(accelerator=T4, limit=4)]
    queue = [queued(2, demand(4)), queued(3, demand(2))]
    alone = waiting([node("a", 16)], [queued(1, demand(2))], queue[:1], rules)
    both = waiting([node("a", 16)], [queued(1, demand(2))], queue, rules)
    assert alone[2].change is not None
    assert both[2].change is None


def test_changes_are_sought_for_the_first_and_for_those_asked_for():
    queue = [queued(uid, demand(4)) for uid in range(2, 8)]
    explanations = waiting([node("a", 4)], [queued(1, demand(2))], queue, explain_max=0)
    assert not [uid for uid, one in explanations.items() if one.change]
    rules = [QuotaRule(accelerator=T4, limit=2, project="p")]
    queue = [queued(uid, demand(4), project="pq"[uid % 2]) for uid in range(2, 8)]
    explanations = waiting([node("a", 16)], [], queue, rules, explain_max=1, explain_uids=[6])
    assert [uid for uid, one in explanations.items() if one.change] == [2, 6]


def changed(job_demand, change):
    """The demand with a change, as its owner would make it from the change's fields alone."""
    if change.field == "region":
        return replace(job_demand, region=change.accepted)

    def change_group(group):
        if group.role.value != change.role:
            return group
        if change.field == "replica_count":
            assert str(group.count) == change.asked
            return replace(group, count=int(change.accepted))
        if change.field == "accelerator_count":
            assert str(group.each.gpu_count) == change.asked
            return replace(group, each=replace(group.each, gpu_count=int(change.accepted)))
        assert change.field == "accelerator_type"
        return replace(group, each=replace(group.each, gpu_type=change.accepted))

    return replace(job_demand, groups=tuple(change_group(group) for group in job_demand.groups))


def one_more(change):
    """The next milder change of the same kind, if there is one that is still a change."""
    steps = {"replica_count": lambda n: n + 1, "accelerator_count": lambda n: n * 2}
    step = steps.get(change.field)
    milder = step and step(int(change.accepted))
    return replace(change, accepted=str(milder)) if milder and milder < int(change.asked) else None


@settings(max_examples=150, deadline=None)
@given(nodes=fleets(), rules=rule_sets, queue=queues(), data=st.data())
def test_a_change_that_is_offered_admits_the_job(nodes, rules, queue, data):
    """Asked anew with it, as the last of the queue, the job starts at once; with less it waits."""
    planner = Planner(rules)
    planner.set_nodes(nodes)
    cut = data.draw(st.integers(0, len(queue) - 1))
    hold_all(planner, queue[:cut])
    rest = queue[cut:]
    plan = planner.plan(rest, 0.0)
    for job in rest:
        change = plan.waiting[job.uid].change if job.uid in plan.waiting else None
        if change is None:
            continue
        event(change.field)
        neighbours = [one for one in rest if one.uid != job.uid]
        changed_job = replace(job, uid=1000, order=1000, demand=changed(job.demand, change))
        assert 1000 in planner.plan([*neighbours, changed_job], 0.0).placed
        in_place = [replace(one, demand=changed_job.demand) if one is job else one for one in rest]
        assert job.uid in planner.plan(in_place, 0.0).placed
        milder = one_more(change)
        if milder is not None and not [g for g in job.demand.groups if g.each.vcpus]:
            changed_job = replace(changed_job, demand=changed(job.demand, milder))
            assert 1000 not in planner.plan([*neighbours, changed_job], 0.0).placed
        planner.plan(rest, 0.0)


def test_held_jobs_of_unknown_nodes_do_not_spoil_an_explanation():
    planner = Planner()
    planner.set_nodes([node("a", 4), node("b", 4)])
    job = queued(1, demand(4))
    planner.hold(held(job, planner.plan([job], 0.0).placed[1], 10.0))
    planner.set_nodes([node("b", 4)])
    explanation = planner.plan([queued(2, demand(4, workers=1))], 0.0).waiting[2]
    assert explanation.reason is Reason.NO_SUCH_NODE
