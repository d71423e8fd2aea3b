"""Programs that fail, attempts that are lost or stopped by others: who starts again, how often."""

from controller.world import World, go, runs
from trainshed.model.attempt import AttemptKey
from trainshed.model.job import Scheduling
from trainshed.model.restarts import Budgets, Restarts
from trainshed.model.status import JobState
from trainshed.model.stopping import StopReason


def running(make_world, *, scheduling=None, **more):
    world: World = make_world(script=runs())
    controller = world.controller(**more)
    uid = world.submit(scheduling=scheduling)
    go(controller, 2)
    assert world.state(uid) is JobState.RUNNING
    return world, controller, uid


def fail(world, controller, uid, status=139, **how):
    world.engine.end(world.key(uid), status, **how)
    go(controller, 2)


def test_by_default_a_program_that_fails_is_not_tried_again(make_world):
    world, controller, uid = running(make_world)
    fail(world, controller, uid, signal=11)
    assert world.state(uid) is JobState.FAILED
    assert "139 (SIGSEGV)" in world.error(uid).message
    assert world.job(uid).restarts == Restarts()


def test_with_a_budget_what_a_signal_ended_is_tried_again_so_often(make_world):
    world, controller, uid = running(make_world, budgets=Budgets(user=2))
    for attempt in (1, 2):
        assert (world.state(uid), world.job(uid).attempt) == (JobState.RUNNING, attempt)
        fail(world, controller, uid, 137, signal=9, oom=True, peak_memory_bytes=2 << 30)
    messages = world.messages(uid)
    assert "out of memory; peak memory 2.0 GiB" in messages
    assert "the job is queued again for attempt 3" in messages
    assert world.job(uid).restarts == Restarts(user=2)
    fail(world, controller, uid, signal=11)
    assert world.state(uid) is JobState.FAILED
    assert world.error(uid).code == 3


def test_what_a_program_has_said_of_itself_is_final(make_world):
    world, controller, uid = running(make_world, budgets=Budgets(user=2))
    fail(world, controller, uid, 1)
    assert world.state(uid) is JobState.FAILED


def test_a_failure_does_not_use_the_budget_of_the_machines_nor_the_other_way_round(make_world):
    world, controller, uid = running(make_world, budgets=Budgets(user=1, infra=1))
    fail(world, controller, uid, signal=11)
    world.engine.lose(world.key(uid))
    go(controller, 2)
    assert world.job(uid).restarts == Restarts(user=1, infra=1)
    assert (world.state(uid), world.job(uid).attempt) == (JobState.RUNNING, 3)
    world.engine.lose(world.key(uid))
    go(controller, 2)
    assert world.state(uid) is JobState.FAILED
    assert "all 1 restarts are used up" in world.error(uid).message


def test_a_job_that_wants_no_retries_fails_with_its_first_failure(make_world):
    scheduling = Scheduling(disable_retries=True)
    world, controller, uid = running(make_world, scheduling=scheduling, budgets=Budgets(user=9))
    fail(world, controller, uid, signal=11)
    assert world.state(uid) is JobState.FAILED


def test_an_attempt_that_somebody_else_has_stopped_counts_as_lost(make_world):
    """A machine that is shut down stops its supervisors in order; that is no program's failure."""
    world, controller, uid = running(make_world)
    world.engine.interrupt(world.key(uid))
    go(controller, 2)
    assert (world.state(uid), world.job(uid).attempt) == (JobState.RUNNING, 2)
    assert world.job(uid).restarts == Restarts(infra=1)
    assert "another user or program has stopped it" in world.messages(uid)


def test_an_engine_whose_older_attempt_is_still_there_is_asked_again(make_world):
    world, controller, uid = running(make_world)
    launch, refusals = world.engine.launch, iter(range(2))

    def refuse_first(key, plan, seats):
        if next(refusals, None) is not None:
            raise RuntimeError("attempt 1 of the job is still there")
        launch(key, plan, seats)

    world.engine.launch = refuse_first
    world.engine.lose(world.key(uid))
    go(controller, 3)
    assert (world.state(uid), world.job(uid).attempt) == (JobState.PREPARING, 2)
    for _ in range(3):
        world.clock.s += 2
        go(controller)
    assert (world.state(uid), world.job(uid).attempt) == (JobState.RUNNING, 2)


def test_engines_are_told_why_an_attempt_ends(make_world):
    world, controller, over = running(make_world)
    cancelled = world.submit()
    go(controller, 2)
    fail(world, controller, over, 0)
    world.cancel(cancelled)
    go(controller)
    reasons = {
        uid: [order.reason for order in world.engine.orders[AttemptKey(uid, 1)]]
        for uid in (over, cancelled)
    }
    assert reasons[over] == [StopReason.END]
    assert reasons[cancelled][0] is StopReason.CANCEL
    assert world.engine.orders[AttemptKey(cancelled, 1)][0].grace_s == 1.0
