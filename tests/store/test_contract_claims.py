"""What the store keeps of jobs that an engine's own queue places."""

from dataclasses import replace

from store.builders import (
    CLAIM,
    PROJECT,
    SEATS,
    SERVER,
    HandClock,
    add,
    go,
    hand_over,
    place,
    read,
    refused,
)
from trainshed.lifecycle.events import Command
from trainshed.model.attempt import AttemptKey
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.status import JobState
from trainshed.store.opening import Store
from trainshed.store.records.jobs import Holding
from trainshed.store.records.steps import NewEvent

FULL = Explanation(reason=Reason.ENGINE_FULL, message="It takes no more.")
STOPPED = Explanation(reason=Reason.HELD, message="Somebody has stopped it there.")
RESUMED = NewEvent(kind="RESUMED", message="ada resumed the job.")
WAITS = Explanation(reason=Reason.ENGINE_QUEUE, message="Others first.", position=3, since_s=1.5)
THERE = tuple(replace(seat, engine=CLAIM.engine) for seat in SEATS)


def only(store: Store) -> Holding:
    (held,) = store.holding()
    return held


class TestClaims:
    def test_a_claim_is_held_until_the_attempt_is_over(self, store: Store) -> None:
        uid = add(store).uid
        hand_over(store, uid)
        held = only(store)
        assert (held.claim, held.place, held.seats) == (CLAIM, CLAIM, ())
        assert (held.engine, held.enqueued, held.attempt) == ("cluster", True, 1)
        assert [(seat.role, seat.index, seat.node) for seat in held.replicas] == [
            (seat.role, seat.index, "") for seat in SEATS
        ]
        assert store.replicas(uid) == []
        assert [command.kind for command in store.commands(SERVER)] == [Command.LAUNCH]
        go(store, uid, JobState.QUEUED)
        assert list(store.holding()) == []
        assert list(store.commands(SERVER)) == []
        assert hand_over(store, uid).attempt == 2

    def test_places_come_later_and_are_news(self, store: Store) -> None:
        uid = add(store).uid
        hand_over(store, uid)
        mark, _, _ = store.holding_changed(0)
        go(store, uid, JobState.PREPARING)
        mark, (moved,), _ = store.holding_changed(mark)
        assert (moved.enqueued, moved.seats) == (False, ())
        go(store, uid, JobState.RUNNING)
        mark, came, gone = store.holding_changed(mark)
        assert (list(came), list(gone)) == ([], [])
        go(store, uid, JobState.RUNNING, placed=THERE)
        mark, (moved,), _ = store.holding_changed(mark)
        assert (moved.seats, list(moved.replicas), moved.claim) == (THERE, list(THERE), CLAIM)
        assert read(store, uid).attempt == 1
        assert store.job_by_uid(uid) is not None

    def test_who_has_launched_an_attempt_is_known_for_ever(self, store: Store) -> None:
        here, there = add(store).uid, add(store).uid
        place(store, here)
        hand_over(store, there)
        keys = [AttemptKey(here, 1), AttemptKey(there, 1), AttemptKey(there, 2)]
        assert store.engines_of(keys) == {keys[0]: "", keys[1]: "cluster"}
        go(store, there, JobState.FAILED)
        assert store.engines_of(keys) == {keys[0]: "", keys[1]: "cluster"}
        assert store.engines_of([]) == {}

    def test_launches_into_queues_are_counted_until_they_are_confirmed(self, store: Store) -> None:
        uids = [add(store).uid for _ in range(3)]
        place(store, uids[0])
        for uid in uids[1:]:
            hand_over(store, uid)
        assert store.handing_over() == {"cluster": 2}
        store.confirm([command.seq for command in store.commands(SERVER, uids=[uids[1]])])
        assert store.handing_over() == {"cluster": 1}
        go(store, uids[2], JobState.CANCELLING)
        assert store.handing_over() == {}

    def test_what_was_refused_waits_and_says_so_until_it_has_places(
        self, store: Store, clock: HandClock
    ) -> None:
        uid = add(store).uid
        for tries in (1, 2):
            hand_over(store, uid)
            clock.forward(1)
            record = go(store, uid, JobState.QUEUED, refused=FULL, commands=(Command.STOP,))
            (waiting,) = store.waiting(limit=9)
            assert record.job.explanation == FULL
            assert (waiting.refusals, record.refusals) == (tries, tries)
            assert waiting.refused == record.job.status.update_time
        assert {c.attempt for c in store.commands(SERVER) if c.kind is Command.STOP} == {1, 2}
        hand_over(store, uid)
        assert read(store, uid).job.explanation is None
        assert read(store, uid).refusals == 2
        go(store, uid, JobState.PREPARING)
        assert read(store, uid).refusals == 0
        go(store, uid, JobState.QUEUED)
        (waiting,) = store.waiting(limit=9)
        assert waiting.refused is None

    def test_what_is_held_is_left_out_until_it_is_resumed(self, store: Store) -> None:
        uid, other = add(store).uid, add(store).uid
        hand_over(store, uid)
        go(store, uid, JobState.PREPARING)
        record = go(store, uid, JobState.QUEUED, held=STOPPED, commands=(Command.STOP,))
        assert (record.is_held, record.job.explanation) == (True, STOPPED)
        assert [job.uid for job in store.waiting(limit=9)] == [other]
        assert [row[-1] for row in store.unexplained(limit=9)] == [other]
        assert store.queue_position(other) == 0
        assert not store.resume(other, RESUMED)
        assert store.resume(uid, RESUMED)
        resumed = read(store, uid)
        assert (resumed.is_held, resumed.refusals, resumed.job.explanation) == (False, 0, None)
        assert resumed.version > record.version
        assert {job.uid for job in store.waiting(limit=9)} == {uid, other}
        assert store.events(uid)[-1].message == RESUMED.message
        assert not store.resume(uid, RESUMED), "it is resumed once"
        assert hand_over(store, uid).attempt == 2

    def test_what_is_held_can_be_cancelled(self, store: Store) -> None:
        uid = add(store).uid
        hand_over(store, uid)
        go(store, uid, JobState.QUEUED, held=STOPPED)
        go(store, uid, JobState.CANCELLED)
        assert not store.resume(uid, RESUMED)
        assert read(store, uid).job.explanation is None

    def test_why_it_waits_there_is_gone_with_the_wait(self, store: Store) -> None:
        uid = add(store).uid
        hand_over(store, uid)
        store.explain({uid: FULL})
        assert read(store, uid).job.explanation is None, "it is in that state no more"
        store.explain({uid: WAITS}, JobState.ENQUEUED)
        assert read(store, uid).job.explanation == WAITS
        assert store.active(SERVER)[0].explained
        go(store, uid, JobState.PREPARING)
        assert read(store, uid).job.explanation is None
        store.explain({uid: WAITS}, JobState.PREPARING)
        store.explain({uid: None}, JobState.PREPARING)
        assert read(store, uid).job.explanation is None

    def test_only_what_waits_here_is_in_the_line(self, store: Store) -> None:
        first, second = add(store).uid, add(store).uid
        hand_over(store, first)
        assert store.queue_position(first) is None
        assert store.queue_position(second) == 0
        assert [waiting.uid for waiting in store.waiting(limit=9)] == [second]
        assert store.counts() == {(PROJECT, "ENQUEUED"): 1, (PROJECT, "QUEUED"): 1}

    def test_a_job_has_one_attempt_at_a_time(self, store: Store) -> None:
        uid = add(store).uid
        hand_over(store, uid)
        with refused(AssertionError):
            hand_over(store, uid)
        assert read(store, uid).attempt == 1

    def test_its_wishes_and_what_is_left_of_its_time_are_known_where_it_waits(
        self, store: Store, clock: HandClock
    ) -> None:
        labels = {"trainshed-engine": "cluster", "team": "a"}
        uid = add(store, labels=labels, running_s_max=100.0).uid
        (waiting,) = store.waiting(limit=9)
        assert waiting.wants == {"trainshed-engine": "cluster"}
        assert waiting.running_s_left == 100.0
        hand_over(store, uid)
        go(store, uid, JobState.RUNNING)
        clock.forward(40)
        go(store, uid, JobState.QUEUED)
        (waiting,) = store.waiting(limit=9)
        assert waiting.running_s_left == 60.0
