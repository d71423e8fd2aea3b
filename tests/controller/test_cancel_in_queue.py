"""What a cancelled job kept others from is theirs at once, and nobody waits behind it any more."""

from controller.world import go, nodes, runs
from trainshed.model.explanation import Reason
from trainshed.model.status import JobState


def test_a_job_cancelled_in_the_queue_holds_nobody_up(make_world):
    world = make_world(nodes(1, slots=3), script=runs())
    controller = world.controller()
    world.submit(replicas=2)
    go(controller)
    world.clock.s += 1  # what starts now may end later than the first
    gang = world.submit(replicas=3)
    small = world.submit()
    go(controller, 2)
    assert world.job(small).job.explanation.reason is Reason.RESERVED

    world.cancel(gang)
    controller._schedule_if_due()  # no time has passed

    assert world.state(small) is JobState.PREPARING


def test_nothing_is_looked_at_again_where_nothing_was_cancelled(make_world):
    world = make_world(nodes(1, slots=1), script=runs())
    controller = world.controller()
    world.submit()
    world.submit()
    go(controller, 3)
    assert not controller._scheduler.due()
