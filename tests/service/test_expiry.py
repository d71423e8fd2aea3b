"""Jobs that are over are forgotten after some days: rows, story and folder."""

import time

import pytest

from databases import new_database
from store.builders import HandClock, add, go
from trainshed.engines.local.engine import LocalEngine
from trainshed.model.status import JobState
from trainshed.service.upkeep.housekeeping import Expiry
from trainshed.store.opening import open_store
from trainshed.store.steady_clock import SteadyClock

DAY_S = 86_400


class Shelf:
    """A store, a folder of jobs, and a clock for both."""

    def __init__(self, folder):
        self.clock = HandClock()
        self.jobs_dir = folder / "jobs"
        self.engine = LocalEngine(self.jobs_dir)
        self.store = open_store(new_database(folder), self.clock)

    def job(self, state=None):
        uid = add(self.store).uid
        if state is not None:
            go(self.store, uid, state)
        work = self.jobs_dir / str(uid) / "1" / "work"
        work.mkdir(parents=True)
        (work / "notes").write_text("x")
        return uid

    def tidy(self, days_max, remove=None):
        return self.expiry(days_max, remove, rest=lambda _: None).tidy()

    def expiry(self, days_max, remove=None, **more):
        return Expiry(
            store=self.store,
            remove=remove or self.engine.forget,
            days_max=days_max,
            **more,
        )

    @property
    def folders(self):
        return {int(path.name) for path in self.jobs_dir.iterdir()}


@pytest.fixture
def shelf(tmp_path):
    shelf = Shelf(tmp_path)
    yield shelf
    shelf.store.close()


def test_what_is_over_for_long_enough_goes_and_nothing_else(shelf):
    old = [shelf.job(JobState.SUCCEEDED) for _ in range(60)]
    waiting = shelf.job()
    shelf.clock.forward(5 * DAY_S)
    young = shelf.job(JobState.FAILED)
    shelf.clock.forward(3 * DAY_S)
    assert shelf.tidy(7) == len(old)
    assert shelf.folders == {waiting, young}
    assert all(shelf.store.job_by_uid(uid) is None for uid in old)
    assert shelf.store.job_by_uid(young) is not None
    assert shelf.tidy(7) == 0


def test_by_default_all_is_kept_for_ever(shelf):
    uid = shelf.job(JobState.SUCCEEDED)
    shelf.clock.forward(10_000 * DAY_S)
    assert shelf.tidy(None) == 0
    assert shelf.folders == {uid}


def test_a_folder_that_is_gone_already_is_no_fault(shelf):
    uid = shelf.job(JobState.SUCCEEDED)
    assert shelf.engine.forget(uid)
    shelf.clock.forward(DAY_S)
    assert shelf.tidy(0.5) == 1


def test_a_job_whose_folder_cannot_be_removed_is_not_forgotten(shelf):
    """Nobody would find the folder again."""
    uid = shelf.job(JobState.SUCCEEDED)
    shelf.clock.forward(DAY_S)

    def refuse(_uid):
        raise PermissionError("read-only")

    with pytest.raises(PermissionError):
        shelf.tidy(0.5, refuse)
    assert shelf.store.job_by_uid(uid) is not None
    assert shelf.tidy(0.5) == 1


def test_a_job_of_which_something_lives_is_kept_until_it_does_not(shelf):
    alive, other = shelf.job(JobState.SUCCEEDED), shelf.job(JobState.SUCCEEDED)
    shelf.clock.forward(DAY_S)
    assert shelf.tidy(0.5, lambda uid: uid != alive) == 1
    assert shelf.store.job_by_uid(alive) is not None
    assert shelf.store.job_by_uid(other) is None
    assert shelf.tidy(0.5) == 1


def test_a_store_that_keeps_its_jobs_does_not_hold_the_caller(shelf):
    uid = shelf.job(JobState.SUCCEEDED)
    shelf.clock.forward(DAY_S)
    shelf.store.forget = lambda _uids: None
    assert shelf.tidy(0.5) == 1
    assert shelf.store.job_by_uid(uid) is not None


def test_a_folder_that_cannot_be_removed_keeps_no_other_job(shelf):
    """One that a container left to root would otherwise fill the disk with all that came after."""
    stuck, *removable = [shelf.job(JobState.SUCCEEDED) for _ in range(60)]
    shelf.clock.forward(DAY_S)

    def remove(uid):
        if uid == stuck:
            raise PermissionError("root's")
        return shelf.engine.forget(uid)

    with pytest.raises(PermissionError, match="root's"):
        shelf.tidy(0.5, remove)
    assert shelf.folders == {stuck}
    assert shelf.store.job_by_uid(stuck) is not None
    assert all(shelf.store.job_by_uid(uid) is None for uid in removable)


def test_where_no_folder_can_be_removed_it_is_not_tried_for_ever(shelf):
    for _ in range(150):
        shelf.job(JobState.SUCCEEDED)
    shelf.clock.forward(DAY_S)
    attempts = []

    def refuse(uid):
        attempts.append(uid)
        raise PermissionError("read-only")

    with pytest.raises(PermissionError):
        shelf.tidy(0.5, refuse)
    assert len(attempts) == len(set(attempts)) <= 150


def test_a_wall_clock_that_was_set_makes_no_job_old(tmp_path):
    wall_ns = time.time_ns()
    steady = SteadyClock(wall=lambda: wall_ns)
    store = open_store(f"sqlite:///{tmp_path / 'trainshed.db'}", steady)
    uid = add(store).uid
    go(store, uid, JobState.SUCCEEDED)
    wall_ns += 400 * DAY_S * 10**9
    removed = []
    Expiry(store=store, remove=removed.append, days_max=30.0).tidy()
    assert not removed
    assert store.job_by_uid(uid) is not None
    store.close()


def test_however_many_go_it_rests_as_long_as_it_works(shelf):
    """By a clock of the test: whoever reads meanwhile has the interpreter half of the time."""
    for _ in range(30):
        shelf.job(JobState.SUCCEEDED)
    shelf.clock.forward(DAY_S)
    now_s, rests = 0.0, []

    def remove(uid):
        nonlocal now_s
        now_s += 0.01
        return shelf.engine.forget(uid)

    count = shelf.expiry(0.5, remove, rest=rests.append, monotonic=lambda: now_s).tidy()
    assert count == 30
    assert sum(rests) == pytest.approx(now_s)
    assert 0.0 < max(rests) <= 0.5
