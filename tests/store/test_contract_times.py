"""The store's contract: how long jobs run and wait, how they are stopped and restarted."""

from store.builders import PROJECT, SERVER, HandClock, add, go, place, read
from trainshed.lifecycle.events import Command
from trainshed.model.restarts import Cause, Restarts
from trainshed.model.status import JobState
from trainshed.model.stopping import StopOrder, StopReason
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind, JobQuery

STOP = Command.STOP
S = JobState


def _due(store: Store) -> list[int]:
    return [due.uid for due in store.due(limit=9)]


def _run(store: Store, uid: int) -> None:
    place(store, uid)
    go(store, uid, S.RUNNING)


class TestTimes:
    """Running time, deadlines, restarts."""

    def test_running_time_is_that_of_all_attempts_and_of_nothing_else(
        self, store: Store, clock: HandClock
    ) -> None:
        uid = add(store).uid
        clock.forward(100)
        place(store, uid)
        clock.forward(100)
        assert go(store, uid, S.RUNNING).ran_s == 0
        clock.forward(7)
        assert read(store, uid).ran_s == 7, "also while it runs"
        assert go(store, uid, S.RUNNING).ran_s == 7, "a word about what runs is no new start"
        clock.forward(3)
        go(store, uid, S.RESTARTING)
        clock.forward(100)
        go(store, uid, S.QUEUED)
        clock.forward(100)
        _run(store, uid)
        clock.forward(5)
        assert go(store, uid, S.SUCCEEDED).ran_s == 15
        clock.forward(100)
        assert go(store, uid, S.SUCCEEDED).ran_s == 15
        [record] = store.list_jobs(JobQuery(project=PROJECT, kind=JobKind.CUSTOM_JOB))
        assert record.ran_s == store.jobs_by_uid([uid])[uid].ran_s == 15

    def test_an_attempt_that_was_over_before_anybody_looked_has_not_run_until_then(
        self, store: Store, clock: HandClock
    ) -> None:
        uid = add(store, running_s_max=60.0).uid
        _run(store, uid)
        clock.forward(1000)
        assert go(store, uid, S.QUEUED, ran_s_max=10.0).ran_s == 10
        _run(store, uid)
        clock.forward(20)
        assert go(store, uid, S.QUEUED, ran_s_max=1e300).ran_s == 30, "never longer than it was"
        _run(store, uid)
        assert not _due(store)
        clock.forward(5)
        assert go(store, uid, S.SUCCEEDED, ran_s_max=30.0).ran_s == 35

    def test_a_clock_that_went_back_takes_no_running_time_away(
        self, store: Store, clock: HandClock
    ) -> None:
        uid = add(store).uid
        _run(store, uid)
        clock.forward(-60)
        assert read(store, uid).ran_s == 0
        assert go(store, uid, S.FAILED).ran_s == 0

    def test_a_job_is_due_when_it_has_run_for_as_long_as_it_may(
        self, store: Store, clock: HandClock
    ) -> None:
        uid = add(store, running_s_max=60.0).uid
        clock.forward(1000)
        assert not _due(store)
        _run(store, uid)
        clock.forward(59)
        assert not _due(store)
        clock.forward(1)
        [due] = store.due(limit=9)
        record = read(store, uid)
        assert (due.uid, due.state, due.version) == (uid, S.RUNNING, record.version)
        assert (due.attempt, due.has_run) == (1, True)
        go(store, uid, S.CANCELLING)
        assert not _due(store), "it is being ended already"

    def test_a_restart_does_not_begin_the_time_anew(self, store: Store, clock: HandClock) -> None:
        uid = add(store, running_s_max=60.0, waiting_s_max=10.0).uid
        _run(store, uid)
        clock.forward(40)
        for state in (S.RESTARTING, S.QUEUED):
            go(store, uid, state)
            clock.forward(1000)
            assert not _due(store), "it neither runs nor waits for the first time"
        _run(store, uid)
        clock.forward(19)
        assert not _due(store)
        clock.forward(1)
        assert _due(store) == [uid]
        go(store, uid, S.RUNNING)
        assert _due(store) == [uid]

    def test_a_job_is_due_when_it_has_waited_for_as_long_as_it_may(
        self, store: Store, clock: HandClock
    ) -> None:
        uid = add(store, waiting_s_max=60.0).uid
        clock.forward(30)
        place(store, uid)
        go(store, uid, S.RESTARTING)
        go(store, uid, S.QUEUED)
        clock.forward(29)
        assert not _due(store)
        clock.forward(1)
        [due] = store.due(limit=9)
        assert (due.uid, due.state, due.attempt, due.has_run) == (uid, S.QUEUED, 1, False)
        place(store, uid)
        assert _due(store) == [uid], "it waits for its first replica to run"
        go(store, uid, S.RUNNING)
        clock.forward(10**6)
        assert not _due(store), "nothing limits its running"
        go(store, uid, S.QUEUED)
        assert not _due(store)

    def test_what_is_over_is_never_due(self, store: Store, clock: HandClock) -> None:
        uid = add(store, waiting_s_max=60.0, running_s_max=60.0).uid
        go(store, uid, S.CANCELLED)
        other = add(store, waiting_s_max=60.0, running_s_max=60.0).uid
        _run(store, other)
        go(store, other, S.SUCCEEDED)
        clock.forward(1000)
        assert not _due(store)

    def test_those_that_are_due_longest_come_first(self, store: Store, clock: HandClock) -> None:
        uids = [add(store, waiting_s_max=float(seconds)).uid for seconds in (30, 10, 20, 1000)]
        clock.forward(500)
        assert _due(store) == [uids[1], uids[2], uids[0]]
        assert [due.uid for due in store.due(limit=1)] == [uids[1]]

    def test_a_limit_of_ages_is_none(self, store: Store, clock: HandClock) -> None:
        uid = add(store, waiting_s_max=1e300, running_s_max=1e300).uid
        clock.forward(10**8)
        _run(store, uid)
        clock.forward(10**8)
        assert not _due(store)

    def test_restarts_are_counted_by_whoever_grants_them(self, store: Store) -> None:
        uid = add(store).uid
        assert read(store, uid).restarts == Restarts()
        _run(store, uid)
        assert [active.restarts for active in store.active(SERVER)] == [Restarts()]
        once = Restarts().plus(Cause.INFRA)
        assert go(store, uid, S.QUEUED, restarts=once).restarts == once
        place(store, uid)
        assert [active.restarts for active in store.active(SERVER)] == [once]
        twice = once.plus(Cause.MAINTENANCE)
        go(store, uid, S.RESTARTING, restarts=twice)
        assert go(store, uid, S.FAILED).restarts == twice

    def test_an_order_to_stop_stands_with_its_command(self, store: Store) -> None:
        uid = add(store).uid
        _run(store, uid)
        order = StopOrder(
            grace_s=120.0, reason=StopReason.MAINTENANCE, message="n1 needs a new disk"
        )
        go(store, uid, S.RESTARTING, commands=(STOP,), stop=order)
        go(store, uid, S.QUEUED, commands=(STOP,))
        assert [(c.attempt, c.kind, c.stop) for c in store.commands(SERVER)] == [
            (1, STOP, order),
            (1, STOP, None),
        ]
        place(store, uid)
        go(store, uid, S.RUNNING, stop=order)
        assert [c.stop for c in store.commands(SERVER)] == [order, None, None]

    def test_what_is_being_restarted_keeps_its_places_until_it_waits(self, store: Store) -> None:
        uid = add(store).uid
        _run(store, uid)
        mark, _, _ = store.holding_changed(0)
        record = go(store, uid, S.RESTARTING)
        assert (record.owner, record.attempt) == (SERVER, 1)
        assert [active.state for active in store.active(SERVER)] == [S.RESTARTING]
        assert [held.uid for held in store.holding()] == [uid]
        assert [job.uid for job in store.waiting(limit=9)] == []
        record = go(store, uid, S.QUEUED)
        assert record.owner is None
        assert list(store.holding_changed(mark)[2]) == [uid]
        assert [job.uid for job in store.waiting(limit=9)] == [uid]
