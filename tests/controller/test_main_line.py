"""A job's way from the queue to its end, and what its story says."""

import pytest

from controller.world import START, T4, World, go, nodes, runs
from trainshed.controller import Pace
from trainshed.model.explanation import Reason
from trainshed.model.faults import EngineFault, Fault, Field, FieldPath, Violation
from trainshed.model.resources import NodeState
from trainshed.model.status import JobState
from trainshed.placement.jobs import QuotaRule
from trainshed.store.records.jobs import JobKind
from trainshed.testing.fake_engine import Script


def test_a_job_goes_through_all_states_and_its_story_says_so(make_world):
    world: World = make_world(script=runs(5.0, ready_s=1.0))
    controller = world.controller()
    uid = world.submit()
    go(controller)
    assert world.state(uid) is JobState.PREPARING
    world.clock.s += 1.5
    go(controller)
    assert world.state(uid) is JobState.RUNNING
    world.clock.s += 5.0
    go(controller)

    status = world.job(uid).job.status
    assert status.state is JobState.SUCCEEDED
    assert status.error is None
    assert START < status.start_time < status.end_time
    assert world.story(uid)[-5:] == ["PLACED", "PREPARING", "RUNNING", "REPLICA_ENDED", "SUCCEEDED"]
    assert "Scheduled on node-" in world.messages(uid)
    [ended] = (event for event in world.store.events(uid) if event.kind == "REPLICA_ENDED")
    assert ended.data["node"].startswith("node-")
    assert ended.data["seconds"] >= 0
    assert "Job completed successfully." in world.messages(uid)


def test_a_job_over_before_anyone_looked_has_run_and_says_so(make_world):
    world: World = make_world()
    controller = world.controller()
    uid = world.submit()
    go(controller)
    assert world.state(uid) is JobState.SUCCEEDED
    assert world.job(uid).job.status.start_time is not None
    assert "RUNNING" in world.story(uid)


def test_what_ended_is_cleaned_up_and_its_place_is_free(make_world):
    world: World = make_world(nodes(1, slots=1))
    controller = world.controller()
    uids = [world.submit() for _ in range(3)]
    go(controller, 4)
    assert world.states(uids) == {JobState.SUCCEEDED}
    assert world.store.holding() == []
    assert world.store.commands("server-a") == []
    assert all(world.engine.stops[world.key(uid)] == 1 for uid in uids)


def test_a_program_that_fails_fails_its_job_in_the_words_of_vertex(make_world):
    world: World = make_world(script=runs(0.0, exit_code=7, message="ValueError: no data"))
    uid = world.submit(replicas=2)
    go(world.controller())
    assert world.state(uid) is JobState.FAILED
    assert world.error(uid).code == 3
    assert world.error(uid).message == (
        "The replica workerpool0-0 exited with a non-zero status of 7. ValueError: no data"
    )
    rows = {row.task_name: (row.state, row.exit_code) for row in world.store.replicas(uid)}
    assert rows == {"workerpool0-0": ("FAILED", 7), "workerpool1-0": ("SUCCEEDED", 0)}


def test_replicas_are_told_from_placed_to_running_in_the_words_of_their_dialect(make_world):
    world: World = make_world(script=runs(ready_s=1.0))
    controller = world.controller()
    uid = world.submit(replicas=2, kind=JobKind.ML_JOB)
    go(controller)
    states = {row.task_name: row.state for row in world.store.replicas(uid)}
    assert states == {"master-replica-0": "PLACED", "worker-replica-0": "PLACED"}
    world.clock.s += 2
    go(controller)
    assert {row.state for row in world.store.replicas(uid)} == {"RUNNING"}
    assert all(row.node.startswith("node-") for row in world.store.replicas(uid))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (EngineFault("no module named trainer"), 9),
        (
            Fault(
                [
                    Violation(
                        field=FieldPath(Field.MODULE), rule="exactly-one-of", message="no module"
                    )
                ]
            ),
            3,
        ),
    ],
)
def test_a_plan_that_cannot_be_made_fails_the_job_with_its_reason(make_world, error, code):
    def refuse(_record, _attempt, _seats):
        raise error

    world: World = make_world()
    controller = world.controller(compose=refuse)
    uid = world.submit()
    go(controller, 2)
    assert world.state(uid) is JobState.FAILED
    assert world.error(uid).code == code
    assert str(error) in world.error(uid).message
    assert world.engine.launches.total() == 0
    assert world.store.commands("server-a") == []


def test_what_the_engine_refuses_fails_with_the_engines_words(make_world):
    world: World = make_world(script=lambda _key, _plan: Script(fault="GPU 3 has fallen off"))
    controller = world.controller()
    uid = world.submit()
    go(controller, 2)
    assert world.state(uid) is JobState.FAILED
    assert world.error(uid).message == "GPU 3 has fallen off"


def test_composing_that_fails_for_no_known_reason_is_given_up_after_a_while(make_world, caplog):
    def broken(_record, _attempt, _seats):
        raise RuntimeError("a mistake of ours")

    world: World = make_world()
    controller = world.controller(compose=broken)
    uid = world.submit()
    good = world.submit()
    for _ in range(3):
        go(controller)
        world.clock.s += 1
    assert world.state(uid) is JobState.PREPARING
    assert "a mistake of ours" in world.messages(uid)
    for _ in range(6):
        world.clock.s += 60
        controller.lease_once()
        go(controller)
    assert world.state(uid) is JobState.FAILED
    assert world.state(good) is JobState.FAILED
    assert world.error(uid).code == 13
    assert "PLACED" in caplog.text  # the log has the story


def test_a_gang_is_placed_whole_or_not_at_all(make_world):
    world: World = make_world(nodes(64, slots=8), script=runs())
    controller = world.controller()
    small, gang = world.submit(), world.submit(replicas=512)
    go(controller)
    assert world.state(small) is JobState.RUNNING
    assert world.state(gang) is JobState.QUEUED
    assert world.store.replicas(gang) == []
    world.engine.end(world.key(small))
    go(controller, 2)
    assert world.state(gang) is JobState.RUNNING
    assert len(world.store.replicas(gang)) == 512


def test_priority_goes_before_age_and_age_decides_among_equals(make_world):
    world: World = make_world(nodes(1, slots=1), script=runs())
    controller = world.controller()
    old, young, urgent = world.submit(), world.submit(), world.submit(priority=9)
    order = []
    for _ in range(3):
        go(controller, 2)
        [key] = world.engine.running
        order.append(key.uid)
        world.engine.end(key)
        go(controller)
    assert order == [urgent, old, young]


def test_over_its_quota_a_job_waits_and_says_so_and_goes_when_there_is_room(make_world):
    world: World = make_world(nodes(2, gpus=4), script=runs())
    controller = world.controller(quotas=[QuotaRule(accelerator=T4, limit=4)])
    first, second = world.submit(gpus=4), world.submit(gpus=4)
    other = world.submit(gpus=4, project="other")
    go(controller)
    assert world.states([first, other]) == {JobState.RUNNING}
    assert world.state(second) is JobState.QUEUED
    assert world.job(second).job.explanation.reason is Reason.QUOTA
    world.engine.end(world.key(first))
    go(controller, 2)
    assert world.state(second) is JobState.RUNNING
    assert world.job(second).job.explanation is None


def test_every_waiting_job_of_the_front_says_why_after_one_pass(make_world):
    world: World = make_world(nodes(1, slots=1), script=runs())
    controller = world.controller(pace=Pace(window=4))
    uids = [world.submit() for _ in range(12)]
    go(controller)
    controller._schedule_if_due()
    front, behind = uids[1:5], uids[5:]
    assert all(world.job(uid).job.explanation.message for uid in front)
    assert not any(world.job(uid).job.explanation for uid in behind), "reads explain those"


def test_new_jobs_behind_the_front_make_no_pass_due(make_world):
    world: World = make_world(nodes(1, slots=1), script=runs())
    controller = world.controller(pace=Pace(window=4))
    scheduler = controller._scheduler
    for _ in range(12):
        world.submit()
    go(controller, 3)
    assert not scheduler.due()
    world.submit()
    assert not scheduler.due()
    world.submit(priority=9)
    assert scheduler.due()


def test_a_drained_node_takes_nothing_new_and_goes_on_when_it_is_back(make_world):
    world: World = make_world(nodes(1), script=runs())
    controller = world.controller()
    world.store.set_node_state("fake", "node-0", NodeState.DRAINED)
    uid = world.submit()
    go(controller)
    assert world.state(uid) is JobState.QUEUED
    assert world.job(uid).job.explanation.reason is Reason.DRAINED
    world.store.set_node_state("fake", "node-0", NodeState.READY)
    world.clock.s += 2
    go(controller)
    assert world.state(uid) is JobState.RUNNING
