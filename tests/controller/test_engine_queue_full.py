"""Engines whose own queue is full, refuses, or holds many: what waits here meanwhile."""

import threading
import time

from controller.world import explained, go, nodes, runs
from trainshed.controller.handing_over import AT_ONCE_MAX
from trainshed.controller.observe import PARTS_MAX
from trainshed.model.attempt import AttemptKey
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.restarts import Restarts
from trainshed.model.status import JobState
from trainshed.testing.fake_engine import Script

S = JobState
PRIORITY = Explanation(reason=Reason.ENGINE_QUEUE, message="Others have a higher priority there.")
HELD = Explanation(reason=Reason.HELD, message="Somebody has held it there.")
FULL = Explanation(reason=Reason.ENGINE_FULL, message="Its account has as many jobs as it may.")


def test_no_more_than_it_may_hold_lie_in_its_queue_the_most_urgent_first(queue_world):
    world = queue_world(script=runs(queue_s=1000.0), enqueued_max=2)
    controller = world.controller()
    old, urgent, older = world.submit(), world.submit(priority=5), world.submit()
    late = world.submit()
    go(controller, 2)
    assert world.states([urgent, old]) == {S.ENQUEUED}
    assert world.states([older, late]) == {S.QUEUED}
    assert explained(world, older).reason is Reason.ENGINE_FULL
    assert "The queue of fake is full: it holds 2 jobs" in explained(world, older).message
    world.cancel(urgent)
    go(controller, 3)
    assert world.states([old, older]) == {S.ENQUEUED}
    assert world.state(late) is S.QUEUED


def test_what_is_admitted_makes_room_in_the_queue(queue_world):
    world = queue_world(script=runs(queue_s=5.0), enqueued_max=1)
    controller = world.controller()
    uids = [world.submit(), world.submit()]
    go(controller, 2)
    assert [world.state(uid) for uid in uids] == [S.ENQUEUED, S.QUEUED]
    world.clock.s += 6
    go(controller, 2)
    assert [world.state(uid) for uid in uids] == [S.RUNNING, S.ENQUEUED]


def test_who_waits_for_room_in_the_queue_is_thought_of_as_soon_as_there_is(queue_world):
    world = queue_world(script=runs(queue_s=1.0), enqueued_max=1)
    controller = world.controller()
    world.submit(), world.submit()
    go(controller, 2)
    assert not controller._scheduler.due()
    world.clock.s += 2
    controller.observe_once()
    assert controller._scheduler.due()


def test_one_that_was_refused_says_that_its_engine_is_away_meanwhile(queue_world):
    world = queue_world(script=lambda _k, _p: Script(refused=FULL, runs_s=None))
    controller = world.controller()
    uid = world.submit()
    go(controller)
    assert explained(world, uid).message == FULL.message
    world.engine.unreachable = True
    go(controller, 2)
    assert explained(world, uid).reason is Reason.ENGINE_AWAY
    world.engine.unreachable = False
    go(controller, 2)
    assert explained(world, uid).reason is Reason.ENGINE_FULL


def test_one_that_is_refused_waits_on_and_is_tried_again_with_another_number(queue_world):
    refusing = [True]
    world = queue_world(
        script=lambda _k, _p: Script(refused=FULL if refusing[0] else None, runs_s=None)
    )
    controller = world.controller()
    uid = world.submit()
    go(controller)
    assert world.state(uid) is S.QUEUED
    assert explained(world, uid).message == FULL.message
    assert world.store.holding() == []
    assert world.job(uid).restarts == Restarts()
    for _ in range(10):
        go(controller)
        assert world.job(uid).attempt == 1, "it is not asked before the pause is over"
    for _ in range(200):
        world.clock.s += 1
        go(controller)
    assert 5 < world.job(uid).attempt < 12, "each pause is twice the one before, up to a minute"
    assert explained(world, uid).message == FULL.message
    assert world.story(uid).count("REFUSED") == 1
    assert "HANDED_OVER" not in world.story(uid), "it is said once its engine has it"
    refusing[0] = False
    for _ in range(90):
        world.clock.s += 1
        go(controller)
    assert world.state(uid) is S.RUNNING
    assert world.job(uid).refusals == 0
    assert world.story(uid).count("HANDED_OVER") == 1
    assert world.job(uid).restarts == Restarts()
    assert world.engine.violations == []


def test_an_engine_that_is_full_is_asked_with_one_job_at_a_time(queue_world):
    world = queue_world(script=runs(queue_s=1000.0))
    world.engine.queue_max = 2
    controller = world.controller()
    uids = [world.submit() for _ in range(6)]
    for _ in range(60):
        world.clock.s += 1
        go(controller)
    assert len(world.engine.enqueued) == 2
    attempts = [world.job(uid).attempt for uid in uids]
    assert attempts[3:] == [1, 1, 1], "the others wait for the first of them"
    world.engine.queue_max = None
    for _ in range(70):
        world.clock.s += 1
        go(controller)
    assert world.states(uids) == {S.ENQUEUED}


def test_jobs_of_others_do_not_wait_for_those_that_are_refused(queue_world):
    def script(key, _plan):
        return Script(refused=FULL if key.uid in refused else None, queue_s=1000.0)

    world = queue_world(script=script)
    controller = world.controller()
    refused = {world.submit(project="full") for _ in range(3)}
    go(controller, 3)
    other = world.submit(project="free")
    go(controller)
    assert world.state(other) is S.ENQUEUED
    assert world.states(refused) == {S.QUEUED}


def test_many_that_wait_cost_little_and_are_handed_over_without_delay(queue_world):
    world = queue_world(nodes(1, slots=2), script=runs(queue_s=1e9))
    controller = world.controller()
    uids = [world.submit() for _ in range(1000)]
    rounds = 0
    while len(world.engine.enqueued) < len(uids):
        rounds += 1
        assert rounds < 30
        go(controller)
    assert rounds <= len(uids) / AT_ONCE_MAX + 3
    go(controller, 10)
    assert world.states(uids) == {S.ENQUEUED}
    calls = []
    real = world.engine.observe
    world.engine.observe = lambda keys: (calls.append(len(keys)), real(keys))[1]
    for _ in range(PARTS_MAX):
        controller.observe_once()
    assert sum(calls) == len(uids), "each is looked at once in so many passes"
    world.engine.explain(AttemptKey(uids[0], 1), HELD)
    controller.observe_once()
    assert explained(world, uids[0]).reason is Reason.HELD, "what is heard of is looked at at once"


def test_more_than_go_at_once_go_on_as_soon_as_those_are_confirmed(queue_world):
    world = queue_world(script=runs(queue_s=1e9))
    controller = world.controller()
    for _ in range(AT_ONCE_MAX + 1):
        world.submit()
    controller.schedule_once()
    controller.perform_once()
    assert len(world.engine.enqueued) == AT_ONCE_MAX
    assert controller._scheduler.due(), "nobody need say anything"
    go(controller)
    assert len(world.engine.enqueued) == AT_ONCE_MAX + 1


def test_launches_go_on_beside_each_other_and_hold_up_nobody(queue_world):
    world = queue_world(script=runs(queue_s=1000.0), launches_at_once=4)
    gate, inside, most = threading.Semaphore(0), [], []
    real = world.engine.launch

    def launch(key, plan, place):
        inside.append(key)
        most.append(len(inside))
        assert gate.acquire(timeout=60)
        inside.remove(key)
        real(key, plan, place)

    world.engine.launch = launch
    controller = world.controller()
    uids = [world.submit() for _ in range(6)]
    controller.schedule_once()
    assert controller.perform_once() == 0
    until(lambda: len(inside) == 4)
    controller.perform_once()
    cancelled = uids[5]
    world.cancel(cancelled)
    assert controller.perform_once() >= 1, "a stop does not wait for launches"
    for _ in uids:
        gate.release()
    until(lambda: controller.perform_once() is not None and not world.store.commands("server-a"))
    controller.observe_once()
    assert world.states(uids[:5]) == {S.ENQUEUED}
    assert world.state(cancelled) is S.CANCELLED
    assert max(most) == 4
    assert set(world.engine.launches.values()) == {1}


def test_launches_beside_each_other_are_confirmed_together(queue_world, monkeypatch):
    world = queue_world(script=runs(queue_s=1000.0), launches_at_once=4)
    controller = world.controller()
    uids = [world.submit() for _ in range(4)]
    controller.schedule_once()
    writes, confirm = [], world.store.confirm
    monkeypatch.setattr(
        world.store, "confirm", lambda *given: (writes.append(given), confirm(*given))
    )
    controller.perform_once()
    until(lambda: len(world.engine.launches) == 4 and not controller._launches._under_way)
    controller.perform_once()
    assert len(writes) == 1
    assert not world.store.commands("server-a")
    assert set(world.engine.launches.values()) == {1}
    assert world.states(uids) == {S.ENQUEUED}


def until(look):
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.01)
