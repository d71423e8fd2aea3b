"""A node goes into maintenance: its jobs get notice, and start again by themselves."""

import pytest

from controller.test_crashes import Fuse, Killed, deadly_controller
from controller.world import World, go, nodes, runs, work
from trainshed.model.explanation import Reason
from trainshed.model.job import Scheduling
from trainshed.model.resources import NodeState
from trainshed.model.restarts import Restarts
from trainshed.model.status import JobState
from trainshed.model.stopping import StopReason


def running_job(make_world, *fleet, **more):
    scheduling = more.pop("scheduling", None)
    world: World = make_world(*fleet, script=runs(**more))
    controller = world.controller()
    uid = world.submit(replicas=2, scheduling=scheduling)
    go(controller, 2)
    assert world.state(uid) is JobState.RUNNING
    return world, controller, uid


def test_a_job_gets_notice_and_starts_again_elsewhere(make_world):
    world, controller, uid = running_job(make_world, nodes(2), notice_s=30.0)
    first, key = world.node(uid), world.key(uid)
    started = world.job(uid).job.status.start_time
    world.maintain(first, 120.0)
    go(controller)
    assert world.state(uid) is JobState.RESTARTING
    [order] = world.engine.orders[key]
    assert (order.grace_s, order.reason) == (120.0, StopReason.MAINTENANCE)
    assert order.message == f"The node {first} goes into maintenance."
    assert world.engine.running == (key,), "the notice is not over"
    assert world.store.holding(), "its places are still taken"

    world.clock.s += 31
    controller.lease_once()
    go(controller, 2)
    assert world.state(uid) is JobState.RUNNING
    record = world.job(uid)
    assert (record.attempt, record.restarts) == (2, Restarts(maintenance=1))
    assert world.node(uid) != first
    assert [row.task_name for row in world.store.replicas(uid)] == [
        row.task_name for row in world.store.replicas(uid, 1)
    ]
    assert record.job.status.start_time == started
    assert world.story(uid).count("RESTART_ORDERED") == 1
    assert "Replica workerpool0-0 ended by itself 30.0 s after the notice." in world.messages(uid)
    assert "the job is queued again for attempt 2" in world.messages(uid)


def test_what_does_not_honour_the_notice_is_killed_and_the_story_says_so(make_world):
    world, controller, uid = running_job(make_world, nodes(2), notice_s=None)
    world.maintain(world.node(uid), 5.0)
    go(controller)
    world.clock.s += 6
    go(controller, 2)
    assert world.state(uid) is JobState.RUNNING
    assert "Replica workerpool0-0 had to be killed 5.0 s after the notice." in world.messages(uid)


def test_with_no_other_node_it_waits_and_starts_when_the_node_is_back(make_world):
    world, controller, uid = running_job(make_world, nodes(1))
    young = world.submit()
    world.maintain("node-0")
    for _ in range(5):
        go(controller, 2)
        world.clock.s += 2
    assert world.states([uid, young]) == {JobState.QUEUED}
    assert world.job(uid).job.explanation.reason is Reason.DRAINED
    assert "node-0" in world.job(uid).job.explanation.message
    assert world.job(uid).attempt == 1, "it is not placed on a node that nobody may use"
    waiting = [waiting.uid for waiting in world.store.waiting(limit=9)]
    assert waiting == [uid, young], "it keeps its age"

    world.resume("node-0")
    world.clock.s += 2
    go(controller, 2)
    assert world.state(uid) is JobState.RUNNING
    assert world.job(uid).attempt == 2
    go(controller, 3)
    assert world.job(uid).attempt == 2, "it is not stopped again"


def test_jobs_elsewhere_and_on_drained_nodes_run_on(make_world):
    world: World = make_world(nodes(3, slots=1), script=runs())
    controller = world.controller()
    uids = [world.submit() for _ in range(3)]
    go(controller, 2)
    by_node = {world.node(uid): uid for uid in uids}
    world.store.set_node_state("fake", "node-0", NodeState.DRAINED)
    world.maintain("node-1", 0.0)
    go(controller, 3)
    assert world.state(by_node["node-0"]) is JobState.RUNNING
    assert world.state(by_node["node-1"]) is JobState.QUEUED
    assert world.state(by_node["node-2"]) is JobState.RUNNING
    assert {key.attempt for key in world.engine.running} == {1}


def test_a_job_that_prepares_goes_too(make_world):
    world: World = make_world(nodes(2), script=runs(ready_s=60.0))
    controller = world.controller()
    uid = world.submit()
    go(controller)
    assert world.state(uid) is JobState.PREPARING
    first = world.node(uid)
    world.maintain(first)
    go(controller, 2)
    assert (world.state(uid), world.job(uid).attempt) == (JobState.PREPARING, 2)
    assert world.node(uid) != first


def test_a_job_whose_launch_was_not_performed_yet_is_never_launched_there(make_world):
    world: World = make_world(nodes(2), script=runs())
    controller = world.controller()
    uid = world.submit()
    controller.schedule_once()
    key = world.key(uid)
    world.maintain(world.node(uid))
    controller.maintain_once()
    assert world.state(uid) is JobState.RESTARTING
    go(controller, 2)
    assert (world.state(uid), world.job(uid).attempt) == (JobState.RUNNING, 2)
    assert world.engine.launches[key] == 0


def test_a_job_that_may_not_start_again_gets_its_notice_and_fails(make_world):
    scheduling = Scheduling(disable_retries=True)
    world, controller, uid = running_job(make_world, nodes(2), notice_s=30.0, scheduling=scheduling)
    world.maintain(world.node(uid), 60.0)
    go(controller)
    assert world.state(uid) is JobState.RESTARTING
    assert world.engine.orders[world.key(uid)][0].grace_s == 60.0
    assert "the job will not start again" in world.messages(uid)
    world.clock.s += 31
    go(controller, 2)
    assert world.state(uid) is JobState.FAILED
    assert world.error(uid).code == 14
    assert "goes into maintenance, and disableRetries forbids another" in world.error(uid).message
    assert world.job(uid).restarts == Restarts()
    assert not world.engine.running


@pytest.mark.parametrize("exit_code", [0, 3])
@pytest.mark.parametrize("may_restart", [True, False])
def test_an_end_of_its_own_before_the_order_is_what_counts(make_world, exit_code, may_restart):
    scheduling = Scheduling(disable_retries=not may_restart)
    world, controller, uid = running_job(make_world, nodes(2), notice_s=30.0, scheduling=scheduling)
    world.maintain(world.node(uid))
    go(controller)
    world.engine.end(world.key(uid), exit_code)
    go(controller, 3)
    assert world.state(uid) is (JobState.FAILED if exit_code else JobState.SUCCEEDED)
    assert world.job(uid).attempt == 1
    if exit_code:
        assert "non-zero status of 3" in world.error(uid).message
    else:
        assert world.error(uid) is None, "what it might have failed of is forgotten"


def test_a_job_lost_in_its_notice_starts_again_and_is_counted_once(make_world):
    world, controller, uid = running_job(make_world, nodes(2), notice_s=30.0)
    world.maintain(world.node(uid))
    go(controller)
    world.engine.lose(world.key(uid))
    go(controller, 2)
    assert (world.state(uid), world.job(uid).attempt) == (JobState.RUNNING, 2)
    assert world.job(uid).restarts == Restarts(maintenance=1)


def test_a_job_cancelled_in_its_notice_is_cancelled(make_world):
    world, controller, uid = running_job(make_world, nodes(2), notice_s=None)
    world.maintain(world.node(uid))
    go(controller)
    assert world.cancel(uid)
    go(controller)
    assert [order.reason for order in world.engine.orders[world.key(uid)]] == [
        StopReason.MAINTENANCE,
        StopReason.CANCEL,
    ]
    world.clock.s += 2  # the grace of a cancel, not that of the maintenance
    go(controller)
    assert world.state(uid) is JobState.CANCELLED
    assert world.error(uid).message == "The job was cancelled."


def test_only_the_leader_orders(make_world):
    world, _, uid = running_job(make_world, nodes(2))
    other = world.controller("server-b")
    world.maintain(world.node(uid))
    assert other.maintain_once() == 0
    assert world.state(uid) is JobState.RUNNING


def test_another_servers_jobs_are_ordered_by_the_leader_and_performed_by_their_owner(make_world):
    world: World = make_world(nodes(2), script=runs())
    servers = [world.controller(name) for name in ("server-a", "server-b")]
    uids = [world.submit() for _ in range(8)]
    for _ in range(2):
        for server in servers:
            go(server)
    assert {world.job(uid).owner for uid in uids} == {"server-a", "server-b"}
    for node in ("node-0", "node-1"):
        world.maintain(node, 0.0)
    for _ in range(3):
        for server in servers:
            go(server)
    assert world.states(uids) == {JobState.QUEUED}
    assert {world.job(uid).restarts for uid in uids} == {Restarts(maintenance=1)}


def test_of_several_nodes_in_maintenance_the_shortest_notice_counts(make_world):
    world, controller, uid = running_job(make_world, nodes(2, slots=1))
    world.maintain("node-0", 60.0)
    world.maintain("node-1", 20.0)
    go(controller)
    assert [order.grace_s for order in world.engine.orders[world.key(uid)]][:1] == [20.0]


def test_a_server_killed_anywhere_in_a_maintenance_orders_it_once(make_world):
    """Every call that the orders, their performing and the restart make is the last one in turn."""
    world: World = make_world(nodes(2, slots=1), script=runs(notice_s=0.9))
    uid, deaths = world.submit(), 0
    go(world.controller(), 2)
    while True:
        before = world.job(uid).attempt
        world.maintain(world.node(uid), 10.0)
        fuse = Fuse(deaths + 1)
        try:
            restart(world, deadly_controller(world, fuse), uid)
        except Killed:
            deaths += 1
            restart(world, world.controller(), uid)
        record = world.job(uid)
        assert record.attempt == before + 1
        assert record.restarts == Restarts(maintenance=before)
        assert len(world.engine.running) == 1
        for node in ("node-0", "node-1"):
            world.resume(node)
        if fuse.left > 0:
            break
    assert deaths > 20


def restart(world, controller, uid):
    """Work until the job runs on a node that it may stay on, for as long as the leases hold."""
    for _ in range(6):
        world.clock.s += 0.5
        work(controller)
        orders = {order.name for order in world.store.node_orders()}
        if world.state(uid) is JobState.RUNNING and world.node(uid) not in orders:
            return
    raise AssertionError("it does not start again")


def test_a_shorter_notice_shortens_one_that_was_given(make_world):
    world, controller, uid = running_job(make_world, nodes(2), notice_s=None)
    first, key = world.node(uid), world.key(uid)
    world.maintain(first, 3600.0)
    go(controller, 2)
    world.maintain(first, 30.0)
    go(controller, 3)
    assert [order.grace_s for order in world.engine.orders[key]] == [3600.0, 30.0]
    assert world.state(uid) is JobState.RESTARTING
    assert world.story(uid).count("RESTART_ORDERED") == 2
    assert world.job(uid).restarts == Restarts(maintenance=1), "it is one restart"
    world.clock.s += 31
    go(controller, 3)
    assert (world.state(uid), world.job(uid).attempt) == (JobState.RUNNING, 2)


def test_a_longer_notice_and_a_new_leader_change_nothing_of_one_that_was_given(make_world):
    world, controller, uid = running_job(make_world, nodes(2), notice_s=None)
    first, key = world.node(uid), world.key(uid)
    world.maintain(first, 60.0)
    go(controller, 2)
    world.maintain(first, 3600.0)
    go(controller, 2)
    controller = world.controller()
    go(controller, 2)
    assert [order.grace_s for order in world.engine.orders[key]] == [60.0]
    world.maintain(first, 10.0)
    controller = world.controller()
    go(controller, 2)
    assert [order.grace_s for order in world.engine.orders[key]] == [60.0, 10.0]


def test_a_doomed_job_still_fails_of_its_maintenance_when_its_notice_is_shortened(make_world):
    scheduling = Scheduling(disable_retries=True)
    world, controller, uid = running_job(make_world, nodes(2), notice_s=None, scheduling=scheduling)
    world.maintain(world.node(uid), 3600.0)
    go(controller, 2)
    world.maintain(world.node(uid), 5.0)
    go(controller, 2)
    world.clock.s += 6
    go(controller, 2)
    assert world.state(uid) is JobState.FAILED
    assert "disableRetries" in world.error(uid).message


@pytest.mark.parametrize("order", [NodeState.DRAINED, NodeState.MAINTENANCE])
def test_once_a_node_is_drained_nothing_is_placed_on_it(make_world, order):
    world: World = make_world(nodes(1), script=runs())
    controller = world.controller()
    world.submit()
    go(controller)
    world.store.set_node_state(
        "fake", "node-0", order, 60.0
    )  # said to another server, a moment ago
    once_only = world.submit(scheduling=Scheduling(disable_retries=True))
    controller.schedule_once()
    controller.maintain_once()
    go(controller)
    assert world.state(once_only) is JobState.QUEUED
    assert world.job(once_only).attempt == 0
    assert world.job(once_only).job.explanation.reason is Reason.DRAINED
