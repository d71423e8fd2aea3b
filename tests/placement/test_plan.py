from hypothesis import given, settings
from hypothesis import strategies as st

from placement.support import (
    EU,
    T4,
    V100,
    assert_sound,
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
from trainshed.model.resources import NodeState
from trainshed.placement.jobs import QuotaRule
from trainshed.placement.plan import Planner


def planner_of(*nodes, quotas=()):
    planner = Planner(quotas)
    planner.set_nodes(nodes)
    return planner


def reasons(plan):
    return {uid: one.reason for uid, one in plan.waiting.items()}


def test_more_urgent_before_older():
    planner = planner_of(node("a", 4))
    queue = [queued(1, demand(4)), queued(2, demand(4)), queued(3, demand(4), priority=1)]
    plan = planner.plan(queue, 0.0)
    assert set(plan.placed) == {3}
    assert reasons(plan) == {1: Reason.CAPACITY, 2: Reason.BEHIND_QUEUE}


def test_planned_jobs_are_held_only_when_the_caller_says_so():
    planner = planner_of(node("a", 4))
    first = planner.plan([queued(1, demand(4))], 0.0)
    assert planner.plan([queued(1, demand(4))], 0.0) == first
    assert set(planner.plan([queued(2, demand(4))], 0.0).placed) == {2}


def test_a_released_job_leaves_its_room_and_its_quota():
    planner = planner_of(node("a", 8), quotas=[QuotaRule(accelerator=T4, limit=4)])
    hold_all(planner, [queued(1, demand(4))])
    planner.release(99)
    assert reasons(planner.plan([queued(2, demand(4))], 0.0)) == {2: Reason.QUOTA}
    planner.release(1)
    assert set(planner.plan([queued(2, demand(4))], 0.0).placed) == {2}


def test_a_job_waits_for_a_gpu_that_a_stranger_holds_and_nobody_knows_how_long():
    planner = planner_of(node("a", 4, gpus_held={T4: 1}))
    plan = planner.plan([queued(1, demand(4))], 0.0)
    assert reasons(plan) == {1: Reason.CAPACITY}
    assert "3 are free on a" in plan.waiting[1].message
    planner.set_nodes([node("a", 4)])
    assert set(planner.plan([queued(1, demand(4)), queued(2, demand(3))], 0.0).placed) == {1}


def test_a_short_job_goes_ahead_and_a_long_one_waits_for_the_reserved_start():
    """a is busy until 50; the job of two nodes has its start then, and b is its second node."""
    planner = planner_of(node("a", 4), node("b", 4))
    hold_all(planner, [queued(1, demand(4), seconds=50.0)])
    queue = [
        queued(2, demand(4, workers=1)),
        queued(3, demand(2), seconds=60.0),
        queued(4, demand(1), seconds=50.0),
    ]
    plan = planner.plan(queue, 0.0)
    assert set(plan.placed) == {4}
    assert reasons(plan) == {2: Reason.CAPACITY, 3: Reason.RESERVED}
    assert "starts in 50 s at the latest" in plan.waiting[2].message


def test_a_long_job_goes_ahead_beside_the_reserved_seats():
    planner = planner_of(node("a", 4), node("b", 4), node("c", 2))
    hold_all(planner, [queued(1, demand(4), seconds=50.0)])
    queue = [queued(2, demand(4, workers=1)), queued(3, demand(2), seconds=1e6)]
    plan = planner.plan(queue, 0.0)
    assert [seat.node for seat in plan.placed[3]] == ["c"]


def test_two_long_jobs_do_not_share_what_is_free_for_one():
    """Of eight GPUs four are free; from 50 on the reserved job has six, so two are left."""
    planner = planner_of(node("a", 8))
    hold_all(planner, [queued(1, demand(4), seconds=50.0)])
    queue = [queued(2, demand(6)), *(queued(uid, demand(2), seconds=1e6) for uid in (3, 4))]
    plan = planner.plan(queue, 0.0)
    assert set(plan.placed) == {3}


def test_the_quota_of_a_job_with_a_reserved_start_is_kept_for_it():
    planner = planner_of(node("a", 4), quotas=[QuotaRule(accelerator=T4, limit=4, project="p")])
    hold_all(planner, [queued(1, demand(2), project="q")])
    plan = planner.plan([queued(2, demand(4)), queued(3, demand(1), seconds=1.0)], 0.0)
    assert reasons(plan) == {2: Reason.CAPACITY, 3: Reason.QUOTA}


def test_a_job_that_waits_for_quota_reserves_no_room():
    planner = planner_of(node("a", 4), quotas=[QuotaRule(accelerator=T4, limit=2, project="p")])
    hold_all(planner, [queued(1, demand(2))])
    queue = [queued(2, demand(2)), queued(3, demand(2), project="q", seconds=1e6)]
    plan = planner.plan(queue, 0.0)
    assert set(plan.placed) == {3}
    assert reasons(plan) == {2: Reason.QUOTA}


def test_a_younger_job_does_not_take_the_quota_that_an_older_one_waits_for():
    planner = planner_of(
        node("a", 16), node("b", 4, gpu_type=V100), quotas=[QuotaRule(accelerator=T4, limit=4)]
    )
    hold_all(planner, [queued(1, demand(2))])
    queue = [
        queued(2, demand(4)),
        queued(3, demand(1)),
        queued(4, demand(1), project="q"),
        queued(5, demand(1, gpu_type=V100)),
        queued(6, demand(1, region=EU)),
    ]
    plan = planner.plan(queue, 0.0)
    assert set(plan.placed) == {4, 5, 6}
    assert reasons(plan) == {2: Reason.QUOTA, 3: Reason.BEHIND_QUEUE}


def test_a_job_beyond_its_quota_stands_in_nobodys_way():
    planner = planner_of(node("a", 16), quotas=[QuotaRule(accelerator=T4, limit=4)])
    plan = planner.plan([queued(1, demand(8)), queued(2, demand(4))], 0.0)
    assert set(plan.placed) == {2}
    assert reasons(plan) == {1: Reason.QUOTA}


def test_a_job_that_no_node_can_hold_stands_in_nobodys_way():
    planner = planner_of(
        node("a", 4),
        node("b", 8, state=NodeState.DRAINED),
        quotas=[QuotaRule(accelerator=T4, limit=16)],
    )
    queue = [queued(1, demand(16)), queued(2, demand(8)), queued(3, demand(4))]
    plan = planner.plan(queue, 0.0)
    assert set(plan.placed) == {3}
    assert reasons(plan) == {1: Reason.NO_SUCH_NODE, 2: Reason.DRAINED}
    assert plan.waiting[2].blockers == ("b",)


def test_an_older_job_whose_quota_comes_free_does_not_take_a_reserved_start():
    """2 waits for quota while 3 gets the reserved start; then 2 has its quota."""
    planner = planner_of(node("a", 4), quotas=[QuotaRule(accelerator=T4, limit=4, project="p")])
    hold_all(planner, [queued(1, demand(2), seconds=50.0)])
    first = [queued(2, demand(4)), queued(3, demand(4), project="q")]
    assert reasons(planner.plan(first, 0.0)) == {2: Reason.QUOTA, 3: Reason.CAPACITY}
    planner.release(1)
    plan = planner.plan(first, 10.0)
    assert set(plan.placed) == {3}


def test_nodes_may_come_and_go_under_held_jobs():
    planner = planner_of(node("a", 4), node("b", 4))
    hold_all(planner, [queued(1, demand(4, workers=1))])
    planner.set_nodes([node("b", 4), node("c", 4)])
    plan = planner.plan([queued(2, demand(4)), queued(3, demand(4))], 0.0)
    assert [seat.node for seat in plan.placed[2]] == ["c"]
    planner.release(1)
    planner.set_nodes([])
    assert reasons(planner.plan([queued(2, demand(4))], 0.0)) == {2: Reason.NO_SUCH_NODE}


def test_holding_a_job_again_replaces_what_it_held():
    planner = planner_of(node("a", 4), node("b", 4))
    job = queued(1, demand(4))
    seats = planner.plan([job], 0.0).placed[1]
    for ends_at_s in (10.0, 20.0):
        planner.hold(held(job, seats, ends_at_s))
    plan = planner.plan([queued(2, demand(4)), queued(3, demand(4))], 0.0)
    assert set(plan.placed) == {2}
    assert "in 20 s" in plan.waiting[3].message


@settings(deadline=None)
@given(nodes=fleets(), rules=rule_sets, queue=queues(), data=st.data())
def test_a_plan_is_sound_complete_and_the_same_each_time(nodes, rules, queue, data):
    planner = planner_of(*nodes, quotas=rules)
    cut = data.draw(st.integers(0, len(queue)))
    holding = [
        held(job, seats, job.running_s_max)
        for job in queue[:cut]
        if (seats := hold_all(planner, [job]).placed.get(job.uid)) is not None
    ]
    plan = planner.plan(queue, 0.0)
    by_uid = {job.uid: job for job in queue}
    holding += [held(by_uid[uid], seats, 1.0) for uid, seats in plan.placed.items()]
    assert_sound(nodes, rules, holding)
    assert {job.uid for job in holding} | set(plan.waiting) == set(by_uid)
    assert not set(plan.placed) & set(plan.waiting)
    assert planner.plan(data.draw(st.permutations(queue)), 0.0) == plan


@settings(deadline=None)
@given(nodes=fleets(), rules=rule_sets, queue=queues(), data=st.data())
def test_the_order_of_the_nodes_changes_nothing(nodes, rules, queue, data):
    shuffled = data.draw(st.permutations(nodes))
    plans = [planner_of(*some, quotas=rules).plan(queue, 0.0) for some in (nodes, shuffled)]
    assert plans[0] == plans[1]


def test_what_is_said_twice_changes_nothing():
    planner = planner_of(node("n1", 1))
    job = held(queued(1, demand(gpus=1)), (), 60.0)
    planner.hold(job)
    planner.hold(job)
    planner.set_nodes((node("n1", 1),))
    planner.release(1)
    assert set(planner.plan([queued(2, demand(gpus=1))], 0.0).placed) == {2}


def test_a_demand_that_no_node_holds_is_never_held_whoever_asks():
    planner = planner_of(node("n1", 1))
    assert planner.never(demand(gpus=1)) is None
    assert planner.never(demand(gpus=2)) is not None


@settings(max_examples=40)
@given(
    nodes=fleets(),
    queue=queues(),
    rules=rule_sets,
    priority=st.integers(0, 2),
    gpus=st.integers(0, 8),
)
def test_a_forecast_is_what_the_next_pass_decides_and_changes_nothing(
    nodes, queue, rules, priority, gpus
):
    planner = planner_of(*nodes, quotas=rules)
    planner.plan(queue, 0.0)
    before, reservation = planner.plan(queue, 0.0), planner.reservation
    job = queued(-2, demand(gpus), priority=priority, order=10_000)
    why = planner.forecast(queue, job, 0.0)
    assert planner.reservation == reservation
    assert planner.plan(queue, 0.0) == before
    plan = planner.plan([*queue, job], 0.0, explain_uids=(job.uid,), explain_max=0)
    assert why == plan.waiting.get(job.uid, plan.placed.get(job.uid))
