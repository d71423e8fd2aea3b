"""The store's contract: the time of attempts is counted once, and outlives their jobs."""

from typing import Any, Final

import pytest

from store.builders import PROJECT, USAGE_DAY, HandClock, add, go, place, read
from store.builders import usage_row as row
from trainshed.model.event_kinds import GOODPUT
from trainshed.model.status import JobState
from trainshed.store import codec
from trainshed.store.opening import Store
from trainshed.store.records.steps import NewEvent
from trainshed.store.records.usage import JobUse

DAY = USAGE_DAY
ALL: Final[dict[str, Any]] = {"since_day": DAY - 30, "until_day": DAY + 30, "projects": None}


def ran(store: Store, **fields: Any) -> int:
    uid = int(add(store, **fields).uid)
    place(store, uid)
    go(store, uid, JobState.RUNNING)
    go(store, uid, JobState.SUCCEEDED)
    return uid


class TestUsage:
    """What is asked of it."""

    def test_jobs_whose_seats_changed_are_read_once(self, store: Store) -> None:
        add(store, job_id="waits")
        first, second = ran(store, job_id="a"), ran(store, job_id="b")
        changed = store.changed_jobs(9)
        assert [job.uid for job in changed] == [first, second]
        assert [job.uid for job in store.changed_jobs(1)] == [first]
        store.write_usage(read(store, first), [row()], changed[0][0])
        assert [job.uid for job in store.changed_jobs(9)] == [second]
        store.write_usage(None, (), changed[1][0])
        assert not store.changed_jobs(9)
        store.write_usage(None, (), changed[0][0])
        runs = add(store, job_id="runs").uid
        place(store, runs)
        assert [(job.uid, job.is_held) for job in store.changed_jobs(9)] == [(runs, True)]
        store.write_usage(None, (), store.changed_jobs(9)[0].mark)
        assert not store.changed_jobs(9), "an older mark, of another server, changes nothing"

    def test_the_time_of_an_attempt_is_that_of_one_machine(self, store: Store) -> None:
        uid, other = ran(store, job_id="a"), ran(store, job_id="b")
        uses = {"seconds": {"productive": 60.0, "idle": 3.0, "starting": 4.0}}
        days = [row(day, **uses) for day in (DAY, DAY + 1)]
        types = [row(day, machine_type="n1", gpus=0, energy_j=None, **uses) for day in (DAY,)]
        types += [row(DAY + 1, machine_type="n1", gpus=1, energy_j=1.0, **uses)]
        live = row(attempt=2, end_ns=None, seconds={"unknown": 1.0}, energy_j=None)
        store.write_usage(read(store, uid), [*days, *types, live])
        first, second = store.attempt_uses([uid, other])
        assert (first.uid, first.attempt, first.placed_ns, first.end_ns) == (uid, 1, 1, 2)
        assert (first.held_s, first.productive_s, first.idle_s) == (134.0, 120.0, 6.0)
        assert (first.gpu_seconds, first.energy_j) == (2 * 134.0 + 67.0, 15.0)
        assert (second.attempt, second.end_ns, second.unknown_s) == (2, None, 1.0)
        assert (second.gpu_seconds, second.energy_j) == (2.0, None)

    def test_rows_are_replaced_whole(self, store: Store, clock: HandClock) -> None:
        uid = ran(store)
        assert store.usage_update_ns(uid) is None
        store.write_usage(read(store, uid), [row(), row(DAY + 1)])
        store.write_usage(read(store, uid), [row(energy_j=None, hour_price=None)])
        assert store.usage_rows(uid) == [row(energy_j=None, hour_price=None)]
        assert store.usage_update_ns(uid) == clock()

    def test_many_jobs_are_read_and_written_in_one_transaction(self, store: Store) -> None:
        uids = [ran(store, job_id=name) for name in "abc"]
        jobs = store.using_jobs([*uids, 1])
        assert jobs.keys() == set(uids)
        for uid, job in jobs.items():
            assert job.record == read(store, uid)
            assert (job.spec, job.demand) == (store.expanded(uid), store.demand(uid))
            assert job.events == store.events(uid)
            assert job.find_primary(1) == "primary-0"
        event = NewEvent(kind=GOODPUT, message="...")
        store.forget([uids[2]])
        store.write_uses([JobUse(jobs[uid].record, [row()], event) for uid in uids], 7)
        for uid in uids:
            assert store.usage_rows(uid) == [row()]
        kinds = [store.events(uid)[-1].kind for uid in uids[:2]]
        assert kinds == ["GOODPUT", "GOODPUT"]
        assert not store.events(uids[2]), "a job that was deleted gets no event"
        assert store.using_jobs([]) == {}

    def test_rows_that_were_computed_before_the_end_do_not_replace_those_of_the_end(
        self, store: Store
    ) -> None:
        uid = ran(store)
        event = NewEvent(kind=GOODPUT, message="...")
        store.write_usage(read(store, uid), [row()], event=event)
        store.write_usage(read(store, uid), [row(end_ns=None, seconds={"unknown": 1.0})], 7)
        assert store.usage_rows(uid) == [row()]

    def test_rows_outlive_their_job(self, store: Store, clock: HandClock) -> None:
        uid = ran(store)
        store.write_usage(read(store, uid), [row()])
        clock.forward(60)
        store.forget([uid])
        assert store.job_by_uid(uid) is None
        assert store.usage_rows(uid) == [row()]
        [usage] = store.usage_sums("project", **ALL)
        assert (usage.key, usage.seconds) == (PROJECT, {"productive": 60.0, "starting": 4.0})

    @pytest.mark.parametrize(
        ("by", "keys"),
        [
            ("project", ["census", "taxi"]),
            ("user", ["ada", "bob"]),
            ("type", ["a2-highgpu-1g"]),
            ("day", [DAY, DAY + 1]),
        ],
    )
    def test_sums_have_one_key(self, store: Store, by: str, keys: list[object]) -> None:
        first = ran(store, job_id="a")
        second = ran(store, job_id="b", project="taxi", creator="bob")
        store.write_usage(read(store, first), [row(), row(DAY + 1)])
        store.write_usage(read(store, second), [row()])
        sums = store.usage_sums(by, **ALL)
        assert sorted(usage.key for usage in sums) == keys
        assert sum(usage.seconds["productive"] for usage in sums) == 180.0
        jobs = store.usage_jobs(by, **ALL)
        assert sorted(jobs) == keys
        assert max(jobs.values()) == (2 if by in {"type", "day"} else 1)
        visible = {**ALL, "projects": ["taxi", "others"]}
        assert [usage.energy_j for usage in store.usage_sums(by, **visible)] == [7.0]
        tomorrow = {**ALL, "since_day": DAY + 1}
        assert sum(store.usage_jobs(by, **tomorrow).values()) == 1
        assert not store.usage_sums(by, **{**ALL, "projects": []})

    def test_sums_of_two_prices_or_sizes_stay_apart(self, store: Store) -> None:
        uid = ran(store)
        rows = [row(), row(DAY + 1, currency="EUR"), row(DAY + 2, hour_price=None, energy_j=None)]
        store.write_usage(read(store, uid), rows)
        sums = store.usage_sums("project", **ALL)
        assert {(usage.currency, usage.hour_price, usage.energy_j) for usage in sums} == {
            ("USD", 3.0, 7.0),
            ("EUR", 3.0, 7.0),
            ("USD", None, None),
        }

    def test_seconds_of_gpus_are_added_to_their_day(self, store: Store) -> None:
        key = (DAY, "local", "n1", "NVIDIA_TESLA_T4", "free")
        held = (DAY, "local", "n1", "NVIDIA_TESLA_T4", "held")
        tomorrow = (DAY + 1, "local", "n1", "NVIDIA_TESLA_T4", "free")
        assert store.gpu_look_ns() is None
        store.add_gpu_seconds({}, before_ns=None, until_ns=100)
        store.add_gpu_seconds({key: 10.0, held: 4.0}, before_ns=100, until_ns=200)
        store.add_gpu_seconds({key: 5.0, tomorrow: 1.0}, before_ns=200, until_ns=300)
        assert store.gpu_look_ns() == 300
        store.add_gpu_seconds({key: 9.0}, before_ns=200, until_ns=310)
        store.add_gpu_seconds({key: 9.0}, before_ns=None, until_ns=310)
        assert store.gpu_look_ns() == 300, "another server has added this time"
        bounds = {"since_day": DAY, "until_day": DAY + 1}
        assert store.gpu_seconds(**bounds) == {"free": 15.0, "held": 4.0}

    def test_old_days_are_dropped(self, store: Store) -> None:
        uid = ran(store)
        store.write_usage(read(store, uid), [row(), row(DAY + 1)])
        store.add_gpu_seconds({}, before_ns=None, until_ns=1)
        store.add_gpu_seconds({(DAY, "local", "n1", "T4", "free"): 1.0}, before_ns=1, until_ns=2)
        store.drop_usage(DAY + 1)
        assert [stored.day for stored in store.usage_rows(uid)] == [DAY + 1]
        assert not store.gpu_seconds(since_day=0, until_day=DAY + 9)

    def test_texts_that_no_database_stores_are_replaced(self, store: Store) -> None:
        uid = ran(store, creator="a\x00\ud800")
        store.write_usage(read(store, uid), [row(machine_type="t\x00")])
        [usage] = store.usage_sums("user", **ALL)
        assert usage.key == codec.plain("a\x00\ud800")
