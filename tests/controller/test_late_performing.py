"""A server that stands still in the midst of a launch, while another one does its work."""

from controller.world import go, runs
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
