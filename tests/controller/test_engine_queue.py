"""Jobs that an engine's own queue places: handed over, explained, admitted, sent back, lost."""

import pytest

from controller.test_crashes import Fuse, Killed, deadly_controller
from controller.world import T4, compose, explained, go, nodes, runs
from trainshed.engines.several import Engines, ServedEngine
from trainshed.model.attempt import AttemptKey, Loss
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.filters import Compare
from trainshed.model.job import Scheduling
from trainshed.model.resources import Node
from trainshed.model.restarts import Budgets, Restarts
from trainshed.model.status import FINAL, JobState
from trainshed.placement.jobs import QuotaRule
from trainshed.store.records.jobs import JobKind, JobQuery
from trainshed.store.records.steps import NewEvent
from trainshed.testing.fake_engine import FakeEngine, Script

S = JobState
PRIORITY = Explanation(reason=Reason.ENGINE_QUEUE, message="Others have a higher priority there.")
HELD = Explanation(reason=Reason.HELD, message="Somebody has held it there.")
FULL = Explanation(reason=Reason.ENGINE_FULL, message="Its account has as many jobs as it may.")


def test_it_is_handed_over_placed_and_seen_to_its_end(queue_world):
    world = queue_world(script=runs(10.0, queue_s=5.0, waits=PRIORITY))
    controller = world.controller()
    uid = world.submit(replicas=3)
    go(controller)
    assert world.state(uid) is S.ENQUEUED
    assert world.store.replicas(uid) == []
    assert explained(world, uid).message == PRIORITY.message
    assert explained(world, uid).since_s is not None
    (held,) = world.store.holding()
    assert (held.engine, held.seats, held.enqueued) == ("fake", (), True)
    assert held.claim.running_s_max == 604_800.0
    world.clock.s += 6
    go(controller)
    assert (world.state(uid), explained(world, uid)) == (S.RUNNING, None)
    (held,) = world.store.holding()
    assert (len(held.seats), held.enqueued) == (3, False)
    assert {row.node for row in world.store.replicas(uid)} == {"node-0"}
    world.clock.s += 10
    go(controller)
    assert world.state(uid) is S.SUCCEEDED
    assert [row.state for row in world.store.replicas(uid)] == ["SUCCEEDED"] * 3
    assert world.story(uid)[1:5] == ["HANDED_OVER", "PLACED", "PREPARING", "RUNNING"]
    assert "Scheduled on node-0 (3 replicas)." in world.messages(uid)
    assert world.store.engines_of([world.key(uid)]) == {world.key(uid): "fake"}


def test_one_that_was_over_before_anybody_looked_has_its_whole_story(queue_world):
    world = queue_world(script=runs(0.0))
    controller = world.controller()
    uid = world.submit()
    go(controller)
    assert world.state(uid) is S.SUCCEEDED
    kinds = [kind for kind in world.story(uid) if kind != "REPLICA_ENDED"]
    assert kinds[1:] == ["HANDED_OVER", "PLACED", "PREPARING", "RUNNING", "SUCCEEDED"]
    assert world.job(uid).job.status.start_time is not None


def test_why_it_waits_is_written_when_it_changes_and_only_then(queue_world, monkeypatch):
    world = queue_world(script=runs(queue_s=1000.0, waits=PRIORITY))
    controller = world.controller()
    uid = world.submit()
    go(controller)
    explanations = []
    explain = world.store.explain
    monkeypatch.setattr(
        world.store, "explain", lambda *args: (explanations.append(args), explain(*args))
    )
    go(controller, 3)
    assert explanations == []
    world.engine.explain(world.key(uid), HELD)
    go(controller, 3)
    assert len(explanations) == 1
    assert explained(world, uid).reason is Reason.HELD
    world.engine.unreachable = True
    go(controller)
    world.engine.unreachable = False
    assert explained(world, uid).reason is Reason.HELD, "one that is away says nothing"
    other = world.controller("server-a")
    go(other, 2)
    assert len(explanations) == 2, "a new server has told nothing yet"


def test_an_answer_without_it_is_no_loss(queue_world):
    world = queue_world(script=runs(queue_s=5.0))
    controller = world.controller()
    uid = world.submit()
    go(controller)
    world.engine.is_empty = True
    world.clock.s += 60
    go(controller, 3)
    assert world.state(uid) is S.ENQUEUED
    world.engine.is_empty = False
    go(controller)
    assert (world.state(uid), world.job(uid).attempt) == (S.RUNNING, 1)


def test_quotas_count_from_the_hand_over(queue_world):
    world = queue_world(script=runs(queue_s=1000.0))
    controller = world.controller(quotas=[QuotaRule(accelerator=T4, limit=2)])
    first, second, free = world.submit(gpus=2), world.submit(gpus=1), world.submit()
    go(controller, 2)
    assert world.states([first, free]) == {S.ENQUEUED}
    assert world.state(second) is S.QUEUED
    assert explained(world, second).reason is Reason.QUOTA
    assert explained(world, second).change is None, "whether it would start nobody knows here"
    world.cancel(first)
    go(controller, 3)
    assert world.state(second) is S.ENQUEUED


def test_an_engine_that_is_away_gets_nothing_and_loses_nothing(queue_world):
    world = queue_world()
    controller = world.controller()
    world.engine.unreachable = True
    uid = world.submit()
    go(controller, 3)
    assert (world.state(uid), world.job(uid).attempt) == (S.QUEUED, 0)
    assert explained(world, uid).reason is Reason.ENGINE_AWAY
    world.engine.unreachable = False
    world.clock.s += 6
    go(controller, 2)
    assert world.state(uid) is S.RUNNING


def test_an_engine_that_answers_again_gets_what_waited_for_it_at_once(queue_world):
    world = queue_world(script=runs(None))
    controller = world.controller()
    uid = world.submit()
    controller.schedule_once()
    world.engine.unreachable = True
    for _ in range(200):  # the pauses between two tries grow to a minute
        controller.perform_once()
        world.clock.s += 1
    assert world.state(uid) is S.ENQUEUED
    assert world.engine.started == {}
    world.engine.unreachable = False
    go(controller, 2)
    assert world.state(uid) is S.RUNNING
    assert world.story(uid).count("ENGINE_RETRIED") == 1
    assert world.engine.violations == []


@pytest.mark.parametrize("is_enqueued", [True, False])
def test_what_a_person_stops_in_the_cluster_is_held_until_it_is_resumed(
    queue_world, *, is_enqueued
):
    world = queue_world(script=runs(queue_s=1000.0 if is_enqueued else 0.0))
    controller = world.controller(budgets=Budgets(infra=0))
    uid = world.submit()
    go(controller)
    world.engine.lose(world.key(uid), loss=Loss.OPERATOR)
    go(controller, 3)
    assert world.state(uid) is S.QUEUED
    assert explained(world, uid).reason is Reason.HELD
    assert f"`trainshed jobs resume {world.job(uid).job.job_id}`" in explained(world, uid).message
    assert world.story(uid).count("HELD") == 1
    assert (world.job(uid).attempt, world.job(uid).restarts) == (1, Restarts())
    other = world.submit()
    world.clock.s += 200
    go(controller, 3)
    assert (world.state(uid), world.job(uid).attempt) == (S.QUEUED, 1)
    assert world.job(other).attempt == 1, "it stands in nobody's way"
    assert world.store.resume(uid, NewEvent(kind="RESUMED", message="ada resumed it."))
    go(controller)
    assert (world.job(uid).attempt, world.job(uid).restarts) == (2, Restarts())
    assert world.engine.violations == []


@pytest.mark.parametrize("is_enqueued", [True, False])
@pytest.mark.parametrize(
    ("loss", "restarts"),
    [(None, Restarts(infra=1)), (Loss.MAINTENANCE, Restarts(maintenance=1)), (Loss.LIMIT, None)],
)
def test_a_loss_is_paid_by_its_cause(queue_world, loss, restarts, *, is_enqueued):
    world = queue_world(script=runs(queue_s=1000.0 if is_enqueued else 0.0))
    controller = world.controller(budgets=Budgets(infra=1, maintenance=1))
    uid = world.submit()
    go(controller)
    assert world.state(uid) is (S.ENQUEUED if is_enqueued else S.RUNNING)
    world.engine.lose(world.key(uid), loss=loss)
    controller.observe_once()
    if restarts is None:
        assert (world.state(uid), world.error(uid).code) == (S.FAILED, 4)
        return
    assert (world.state(uid), world.job(uid).restarts) == (S.QUEUED, restarts)
    go(controller, 2)
    assert world.job(uid).attempt == 2
    assert "Attempt 1 was lost" in world.messages(uid)


def test_one_that_is_cancelled_while_it_waits_never_starts(queue_world):
    world = queue_world(script=runs(queue_s=5.0))
    controller = world.controller()
    uid = world.submit()
    go(controller)
    world.cancel(uid)
    assert world.state(uid) is S.CANCELLING
    go(controller, 2)
    assert world.state(uid) is S.CANCELLED
    world.clock.s += 60
    go(controller)
    assert world.engine.started[AttemptKey(uid, 1)] == 0
    assert world.store.holding() == []


def test_it_waits_no_longer_than_it_may_and_runs_for_as_long_as_is_left(queue_world):
    scheduling = Scheduling(waiting_s_max=30.0, running_s_max=100.0)
    world = queue_world(script=runs(queue_s=1000.0))
    controller = world.controller()
    uid = world.submit(scheduling=scheduling)
    go(controller)
    world.clock.s += 31
    go(controller, 3)
    assert (world.state(uid), world.error(uid).code) == (S.CANCELLED, 4)
    assert "waited for longer than the 30 s" in world.error(uid).message


def test_a_second_attempt_may_run_for_as_long_as_the_first_has_left_it(queue_world):
    world = queue_world(script=runs(queue_s=10.0))
    controller = world.controller(budgets=Budgets(infra=1))
    uid = world.submit(scheduling=Scheduling(running_s_max=100.0))
    go(controller)
    world.clock.s += 20
    go(controller)
    assert world.state(uid) is S.RUNNING
    world.clock.s += 40
    controller.lease_once()
    world.engine.lose(world.key(uid))
    controller.observe_once()
    go(controller)
    (held,) = world.store.holding()
    assert held.claim.running_s_max == pytest.approx(60.0, abs=1.0)
    assert world.job(uid).job.status.state is S.ENQUEUED


def test_places_that_are_told_late_come_into_the_rows(queue_world, monkeypatch):
    world = queue_world()
    controller = world.controller()
    observe = world.engine.observe
    monkeypatch.setattr(
        world.engine, "observe", lambda keys: [s._replace(placed=()) for s in observe(keys)]
    )
    uid = world.submit(replicas=2)
    go(controller)
    assert world.state(uid) is S.RUNNING
    assert [(r.node, r.state) for r in world.store.replicas(uid)] == [("", "RUNNING")] * 2
    monkeypatch.undo()
    go(controller)
    assert [(r.node, r.state) for r in world.store.replicas(uid)] == [("node-0", "RUNNING")] * 2
    version = world.job(uid).version
    go(world.controller(), 2)
    assert world.story(uid).count("PLACED") == 1
    assert world.job(uid).version == version


def test_orders_for_nodes_leave_its_jobs_alone(queue_world):
    world = queue_world()
    controller = world.controller()
    uid = world.submit()
    go(controller)
    world.maintain(world.node(uid))
    go(controller, 3)
    assert world.state(uid) is S.RUNNING


def test_to_clients_it_is_queued_and_filters_find_it(queue_world):
    world = queue_world(script=runs(queue_s=1000.0), enqueued_max=1)
    controller = world.controller()
    uids = {world.submit(), world.submit()}
    go(controller, 2)
    assert world.states(uids) == {S.QUEUED, S.ENQUEUED}
    for word in ("QUEUED", "ENQUEUED"):
        query = JobQuery(
            project="demo",
            kind=JobKind.CUSTOM_JOB,
            filter=Compare(field="state", operator="=", value=word),
        )
        assert {record.uid for record in world.store.list_jobs(query)} == uids
    waiting = next(uid for uid in uids if world.state(uid) is S.QUEUED)
    assert world.store.queue_position(waiting) == 0, "only what waits here is counted here"


def test_each_engine_gets_its_own_jobs(queue_world):
    """What is placed here and what there goes on side by side."""
    world = queue_world(script=runs(queue_s=1000.0))
    one = [Node(name="node-0", slots=1)]
    here = FakeEngine(one, script=runs(1000.0), monotonic=world.clock.monotonic)
    engines = Engines(
        {
            "local": ServedEngine(engine=here),
            "fake": ServedEngine(engine=world.engine, labels={"trainshed-x": "y"}),
        }
    )
    controller = world.controller(engines=engines)
    small, gang = world.submit(), world.submit(replicas=3)
    go(controller)
    held = {job.uid: job for job in world.store.holding()}
    assert held[gang].claim.wants == {"trainshed-x": "y"}
    assert "passed over: local (" in world.messages(gang)
    assert (held[small].engine, held[small].claim) == ("local", None)
    assert [seat.engine for seat in held[small].seats] == ["local"]
    assert (world.state(small), world.state(gang)) == (S.RUNNING, S.ENQUEUED)
    places = {(row.engine, row.node.name): row.replicas for row in world.store.nodes()}
    assert places["local", "node-0"] == 1
    assert not places["fake", "node-0"]


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.full)])
def test_killed_between_any_two_calls_on_the_way_through_the_queue(queue_world, stride):
    """One run's calls of the store and the engine, in turn, are each the last one of a server."""
    refused_once = set()

    def script(key, _plan):
        if key.uid in refused_once and key.attempt == 1:
            return Script(refused=FULL)
        return Script(runs_s=1.0, queue_s=0.5)

    world = queue_world(nodes(2, slots=4), script=script)
    deaths = 0
    while True:
        gang, back, cancelled = world.submit(replicas=3), world.submit(project="b"), world.submit()
        refused_once.add(back)
        uids = [gang, back, cancelled]
        fuse = Fuse(deaths * stride + 1)
        try:
            controller = deadly_controller(world, fuse)
            go(controller)
            world.cancel(cancelled)
            see_to_the_end(world, controller, uids)
        except Killed:
            deaths += 1
        if fuse.left > 0:
            break
        world.cancel(cancelled)
        see_to_the_end(world, world.controller(), uids)
        assert world.states([gang, back]) == {S.SUCCEEDED}
        assert world.state(cancelled) in {S.CANCELLED, S.SUCCEEDED}
        assert world.job(gang).attempt == 1
        assert world.job(back).attempt == 2
        assert {world.job(uid).restarts for uid in uids} == {Restarts()}
        for uid in uids:
            started = [n for key, n in world.engine.started.items() if key.uid == uid and n]
            assert len(started) <= 1
        assert not world.engine.running
        assert world.store.holding() == []
    assert deaths > 20 / stride


def see_to_the_end(world, controller, uids):
    for _ in range(12):
        if world.states(uids) <= FINAL and not world.store.commands("server-a"):
            return
        world.clock.s += 1
        go(controller)


def test_compose_gets_the_claim(queue_world):
    places = []

    def composing(record, attempt, place):
        places.append(place)
        return compose(record, attempt, place)

    world = queue_world()
    controller = world.controller(compose=composing)
    world.submit(replicas=2)
    go(controller)
    (claim,) = places
    assert (claim.engine, claim.project, claim.demand.replica_count) == ("fake", "demo", 2)
