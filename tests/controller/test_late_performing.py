"""A launch that comes late: another server, or an older attempt, was in its way."""

from controller.world import go, runs
from trainshed.engines.base import NotYet
from trainshed.model.status import JobState


def test_a_job_that_has_ended_since_it_was_read_is_no_mistake(make_world, monkeypatch, caplog):
    world = make_world(script=runs(0.0))
    frozen = world.controller("server-a")
    uid = world.submit()
    frozen.schedule_once()
    read = world.store.jobs_by_uid

    def stand_still(uids):
        """What was read grows old: another server takes the job over and sees it to its end."""
        monkeypatch.undo()
        records = read(uids)
        world.clock.s += 60
        go(world.controller("server-b"), 3)
        assert world.state(uid) is JobState.SUCCEEDED
        return records

    monkeypatch.setattr(world.store, "jobs_by_uid", stand_still)
    frozen.perform_once()
    go(frozen)
    assert world.engine.launches[world.key(uid)] == 1
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_an_older_attempt_that_still_ends_is_waited_for_and_is_no_error(
    make_world, monkeypatch, caplog
):
    """On a busy machine the kernel needs a while to end what was killed."""
    world = make_world()
    uid = world.submit()
    controller = world.controller()
    launch, reasons = world.engine.launch, ["processes of attempt 1/1 still live"]

    def launch_later(*args):
        if reasons:
            raise NotYet(reasons.pop())
        launch(*args)

    monkeypatch.setattr(world.engine, "launch", launch_later)
    go(controller, 2)
    assert "will try again: processes of attempt 1/1 still live." in world.messages(uid)
    world.clock.s += 60
    go(controller, 2)
    assert world.state(uid) is JobState.SUCCEEDED
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
