"""The store's contract: steps, each of which fits its row or changes nothing."""

from datetime import timedelta

from store.builders import (
    LEASE_S,
    PLACED,
    SEATS,
    SERVER,
    HandClock,
    add,
    go,
    kinds,
    place,
    read,
)
from trainshed.lifecycle.events import Command
from trainshed.model.explanation import Change, Explanation, Reason
from trainshed.model.status import FINAL, JobError, JobState
from trainshed.store.opening import Store
from trainshed.store.records.steps import NewEvent, ReplicaRow, Step

LAUNCH, STOP = Command.LAUNCH, Command.STOP
WHY = Explanation(
    reason=Reason.CAPACITY,
    message="the nodes are in use",
    blockers=("projects/p/jobs/j",),
    change=Change(field="replica_count", asked="4", accepted="2", text="would start now with 2"),
)


class TestSteps:
    """States, attempts, replicas, commands."""

    def test_a_step_needs_the_version_that_it_was_thought_about(self, store: Store) -> None:
        record = add(store)
        step = Step(uid=record.uid, version=1, state=JobState.CANCELLED, events=(PLACED,))
        assert list(store.apply([step])) == [True]
        assert list(store.apply([step])) == [False]
        assert read(store, record.uid).version == 2
        assert kinds(store, record.uid) == ["ACCEPTED", "PLACED"]
        assert list(store.apply([])) == []

    def test_each_step_of_many_stands_for_itself(self, store: Store) -> None:
        uids = [add(store).uid for _ in range(40)]
        steps = [
            Step(uid=uid, version=1 + number % 2, state=JobState.CANCELLED)
            for number, uid in enumerate(uids)
        ]
        assert list(store.apply(steps)) == [number % 2 == 0 for number in range(40)]
        states = [read(store, uid).job.status.state for uid in uids]
        assert states == [JobState.CANCELLED, JobState.QUEUED] * 20

    def test_two_steps_of_one_job_follow_each_other(self, store: Store) -> None:
        uid = add(store).uid
        opening = Step(
            uid=uid, version=1, state=JobState.PREPARING, seats=SEATS, commands=(LAUNCH,)
        )
        ending = Step(uid=uid, version=2, state=JobState.CANCELLING, commands=(STOP,))
        again = Step(uid=uid, version=2, state=JobState.RUNNING)
        assert list(store.apply([opening, ending, again])) == [True, True, False]
        store.join(SERVER, LEASE_S)
        assert list(store.take_over(SERVER)) == [uid]
        assert [c.kind for c in store.commands(SERVER)] == [STOP]

    def test_placing_opens_an_attempt_with_all_its_replicas(
        self, store: Store, clock: HandClock
    ) -> None:
        uid = add(store).uid
        store.explain({uid: WHY})
        clock.forward(1)
        record = place(store, uid)
        assert (record.attempt, record.owner) == (1, SERVER)
        assert record.job.status.state is JobState.PREPARING
        assert record.job.explanation is None
        assert [(r.role, r.index, r.node, r.state) for r in store.replicas(uid)] == [
            ("primary", 0, "n1", "PLACED"),
            ("worker", 0, "n1", "PLACED"),
            ("worker", 1, "n2", "PLACED"),
        ]
        assert store.events(uid)[-1].attempt == 1
        [command] = store.commands(SERVER)
        assert (command.uid, command.attempt, command.kind) == (uid, 1, LAUNCH)

    def test_what_runs_is_not_placed_a_second_time(self, store: Store) -> None:
        uid = add(store).uid
        record = place(store, uid)
        step = Step(uid=uid, version=record.version, state=JobState.PREPARING, seats=SEATS)
        assert list(store.apply([step])) == [False]
        assert read(store, uid).attempt == 1

    def test_a_restart_waits_again_and_keeps_its_first_start(
        self, store: Store, clock: HandClock
    ) -> None:
        uid = add(store).uid
        place(store, uid)
        clock.forward(1)
        started = go(store, uid, JobState.RUNNING).job.status.start_time
        clock.forward(1)
        record = go(store, uid, JobState.QUEUED, commands=(STOP,))
        assert record.owner is None
        assert not store.holding()
        assert [job.uid for job in store.waiting(limit=9)] == [uid]
        assert [c.kind for c in store.commands(SERVER)] == [STOP], "the launch is superseded"
        assert place(store, uid).attempt == 2
        assert [(c.attempt, c.kind) for c in store.commands(SERVER)] == [(1, STOP), (2, LAUNCH)]
        clock.forward(1)
        assert go(store, uid, JobState.RUNNING).job.status.start_time == started
        assert {r.state for r in store.replicas(uid, 1)} == {"PLACED"}

    def test_an_end_has_its_time_its_error_and_no_place(
        self, store: Store, clock: HandClock
    ) -> None:
        for state in sorted(FINAL, key=lambda s: s.name):
            uid = add(store).uid
            place(store, uid)
            go(store, uid, JobState.RUNNING)
            clock.forward(5)
            error = JobError(code=2, message="exit code 1")
            record = go(store, uid, state, error=error, commands=(STOP,))
            status = record.job.status
            assert status.start_time is not None
            assert status.end_time == status.update_time == status.start_time + timedelta(seconds=5)
            assert status.error == error
            assert record.owner is None
            assert not store.holding()
            assert not store.active(SERVER)
            clock.forward(5)
            late = go(store, uid, state, events=(NewEvent(kind="NOTE", message=""),))
            assert late.job.status.end_time == status.end_time
            assert late.job.status.error == error

    def test_what_is_over_stays_over(self, store: Store) -> None:
        uid = add(store).uid
        version = go(store, uid, JobState.FAILED).version
        for state in set(JobState) - {JobState.FAILED}:
            step = Step(uid=uid, version=version, state=state, seats=SEATS)
            assert list(store.apply([step])) == [False]

    def test_a_job_that_never_had_an_attempt_needs_no_stopping(self, store: Store) -> None:
        uid = add(store).uid
        go(store, uid, JobState.CANCELLED, commands=(STOP,), owner=SERVER)
        assert not store.commands(SERVER)

    def test_commands_stay_until_they_are_confirmed(self, store: Store) -> None:
        uids = [add(store).uid for _ in range(3)]
        for uid in uids:
            place(store, uid)
        commands = store.commands(SERVER)
        assert [c.uid for c in commands] == uids
        store.confirm([commands[1].seq, commands[0].seq])
        store.confirm([])
        assert [c.uid for c in store.commands(SERVER)] == uids[2:]
        assert len(store.commands(SERVER, limit=0)) == 0
        assert not store.commands("server-b")

    def test_a_stop_is_kept_after_the_end_and_a_launch_is_not(self, store: Store) -> None:
        uid = add(store).uid
        place(store, uid)
        go(store, uid, JobState.FAILED, commands=(STOP,))
        assert [c.kind for c in store.commands(SERVER)] == [STOP]

    def test_replicas_are_replaced_as_a_whole(self, store: Store) -> None:
        uid = add(store).uid
        place(store, uid)
        rows = (
            ReplicaRow(role="primary", index=0, task_name="w0-0", node="n1", state="RUNNING"),
            ReplicaRow(
                role="worker", index=0, task_name="w1-0", node="n1", state="FAILED", exit_code=3
            ),
            ReplicaRow(
                role="worker", index=1, task_name="w1-1", node="n2", state="FAILED", signal=9
            ),
        )
        go(store, uid, JobState.RUNNING, replicas=rows)
        assert tuple(store.replicas(uid)) == rows
        go(store, uid, JobState.RUNNING, replicas=())
        assert tuple(store.replicas(uid)) == ()

    def test_a_server_without_a_valid_lease_changes_nothing(
        self, store: Store, clock: HandClock
    ) -> None:
        uid = add(store).uid
        step = Step(uid=uid, version=1, state=JobState.CANCELLED, server=SERVER)
        assert list(store.apply([step])) == [False]
        store.join(SERVER, LEASE_S)
        clock.forward(LEASE_S)
        assert list(store.apply([step])) == [False]
        store.join(SERVER, LEASE_S)
        assert list(store.apply([step])) == [True]

    def test_explaining_changes_neither_version_nor_etag(self, store: Store) -> None:
        record, running = add(store), add(store).uid
        place(store, running)
        store.explain({record.uid: WHY, running: WHY, 1: WHY})
        store.explain({})
        after = read(store, record.uid)
        assert after.job.explanation == WHY
        assert (after.version, after.job.etag) == (record.version, record.job.etag)
        assert read(store, running).job.explanation is None, "it does not wait any more"
        assert not store.unexplained(limit=9)
