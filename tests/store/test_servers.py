"""Several servers share one PostgreSQL database: nothing is lost, taken twice, or missed."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from store.builders import (
    LEASE_S,
    PROJECT,
    USAGE_DAY,
    HandClock,
    add,
    new_job,
    place,
    read,
    usage_row,
)
from trainshed.lifecycle.events import Command
from trainshed.model.event_kinds import GOODPUT
from trainshed.model.resources import Seat
from trainshed.model.roles import Role
from trainshed.model.status import JobState
from trainshed.store.base import AlreadyThere
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind
from trainshed.store.records.steps import NewEvent, Step

SEATS = (Seat(role=Role.PRIMARY, index=0, node="n1"),)


@pytest.fixture
def servers(postgres_url):
    """Two stores on one database, opened at the same time."""
    clock = HandClock()
    with ThreadPoolExecutor(2) as pool:
        opened = list(pool.map(lambda _: open_store(postgres_url, clock), range(2)))
    for number, store in enumerate(opened):
        store.join(f"server-{number}", LEASE_S)
    yield opened
    for store in opened:
        store.close()


def at_once(servers, *calls):
    """Run each call on both servers, four threads each."""
    with ThreadPoolExecutor(8) as pool:
        futures = [
            pool.submit(call, store) for call in calls for store in servers for _ in range(4)
        ]
        return [future.exception() or future.result() for future in futures]


def placing(uid, version):
    return Step(
        uid=uid,
        version=version,
        state=JobState.PREPARING,
        seats=SEATS,
        commands=(Command.LAUNCH,),
        events=(NewEvent(kind="PLACED", message=""),),
        owner="server-0",
    )


def test_an_id_is_given_once_by_all_servers_together(servers):
    new = new_job(kind=JobKind.ML_JOB, job_id="j")
    outcomes = at_once(servers, lambda store: store.add_job(new))
    assert [isinstance(outcome, AlreadyThere) for outcome in outcomes].count(True) == 7
    assert servers[0].waiting_count() == 1


def test_a_retry_that_reaches_another_server_finds_the_first_job(servers):
    new = new_job(retry_key="gcloud/1")
    outcomes = at_once(servers, lambda store: store.add_job(new))
    assert len({record.uid for record, _ in outcomes}) == 1
    assert [is_new for _, is_new in outcomes].count(True) == 1


def test_of_steps_from_one_version_one_fits(servers):
    uids = [add(servers[0]).uid for _ in range(20)]

    def forth(store):
        return store.apply([placing(uid, 1) for uid in uids])

    def back(store):
        return store.apply([placing(uid, 1) for uid in reversed(uids)])

    outcomes = at_once(servers, forth, back)
    assert sum(map(sum, outcomes)) == len(uids)
    for uid in uids:
        assert (read(servers[1], uid).attempt, read(servers[1], uid).version) == (1, 2)
        assert [e.kind for e in servers[1].events(uid)] == ["ACCEPTED", "PLACED"]
    assert len(servers[1].commands("server-0")) == len(uids)


def test_a_dead_servers_jobs_go_to_one_of_the_others(servers):
    uids = {add(servers[0]).uid for _ in range(30)}
    for uid in uids:
        place(servers[0], uid, owner="dead")
    with ThreadPoolExecutor(2) as pool:
        takeovers = list(pool.map(lambda n: servers[n].take_over(f"server-{n}"), range(2)))
    assert sorted([*takeovers[0], *takeovers[1]]) == sorted(uids)
    for number in range(2):
        assert {a.uid for a in servers[0].active(f"server-{number}")} == set(takeovers[number])


def test_one_server_leads(servers):
    for _ in range(5):
        with ThreadPoolExecutor(2) as pool:
            leads = list(
                pool.map(lambda n: servers[n].join(f"server-{n}", LEASE_S, lead=True), range(2))
            )
        assert leads.count(True) == 1
        servers[leads.index(True)].leave(f"server-{leads.index(True)}")


def test_no_change_of_holding_is_missed_however_servers_overlap(servers):
    uids = [[add(servers[n]).uid for _ in range(40)] for n in range(2)]
    holding, mark, gone = set(), 0, set()

    def work(number):
        for uid in uids[number]:
            assert servers[number].apply([placing(uid, 1)])[0]
            done = Step(uid=uid, version=2, state=JobState.SUCCEEDED)
            if uid % 2:
                assert servers[number].apply([done])[0]

    with ThreadPoolExecutor(2) as pool:
        working = [pool.submit(work, n) for n in range(2)]
        while True:
            over = all(future.done() for future in working)
            mark, came, left = servers[0].holding_changed(mark)
            holding |= {held.uid for held in came}
            gone |= set(left)
            holding -= set(left)
            if over:
                break
        for future in working:
            future.result()
    assert holding == {uid for batch in uids for uid in batch if not uid % 2}
    assert holding == {held.uid for held in servers[1].holding()}


def test_stories_of_one_job_ascend_whoever_writes(servers):
    uid = add(servers[0]).uid
    at_once(servers, lambda store: store.add_event(uid, NewEvent(kind="NOTE", message="")))
    events = servers[0].events(uid)
    stamps = [event.stamp_ns for event in events]
    assert len(events) == 9
    assert stamps == sorted(set(stamps))


def test_uids_that_meet_are_made_again(servers, monkeypatch):
    first = add(servers[0]).uid
    make = servers[1]._db.new_uid
    uids = iter([first])
    monkeypatch.setattr(servers[1]._db, "new_uid", lambda: next(uids, None) or make())
    second = add(servers[1], retry_key="k")
    assert second.uid != first
    assert servers[0].job(PROJECT, JobKind.CUSTOM_JOB, second.job.job_id) == second
    assert servers[0].add_job(new_job(retry_key="k")) == (second, False)


def test_a_store_goes_on_when_its_connections_were_cut(servers):
    uid = add(servers[0]).uid
    engine = servers[1]._db._read_engine
    with engine.connect() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid()"
        )
    assert read(servers[0], uid).uid == uid
    assert add(servers[0]).uid > uid


def test_of_servers_that_store_the_use_of_a_job_at_once_one_adds_the_event(servers):
    uid = add(servers[0]).uid
    job = read(servers[0], uid)
    before = [usage_row(day, end_ns=None) for day in range(USAGE_DAY, USAGE_DAY + 5)]
    event = NewEvent(kind=GOODPUT, message="...")

    def store_live(store):
        store.write_usage(job, before)

    def store_end(store):
        store.write_usage(job, [usage_row()], event=event)

    assert at_once(servers, store_live, store_end) == [None] * 16
    assert servers[0].usage_rows(uid) == [usage_row()]
    assert len(servers[0].events_of_kind(uid, GOODPUT, limit=9)) == 1
