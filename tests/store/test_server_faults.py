"""A server of PostgreSQL that fails is named with what is wrong, and used again when it is well."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import make_url, text

from postgres_server import running_postgres
from store.builders import add
from store.faulty_store import check_whole, writes
from trainshed.store.base import StoreFault
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind

SOON = text("SET idle_in_transaction_session_timeout = 500")


def test_a_read_only_server_is_named_and_used_again(postgres_url, clock):
    store = open_store(postgres_url, clock)
    uid = add(store).uid
    for state, refuses in (("on", True), ("off", False)):
        setting = text(f"ALTER ROLE postgres SET default_transaction_read_only = {state}")
        allow = text("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
        with store._db._read_engine.connect() as connection:
            connection.execute(allow)
            connection.execute(setting)
        store._db._write_engine.dispose()
        for write in writes(store, uid) if refuses else ():
            with pytest.raises(StoreFault, match="is read-only and takes no writes"):
                write()
        assert store.job_by_uid(uid).uid == uid
    store.close()


def test_a_server_that_stands_still_in_a_write_does_not_keep_others_from_theirs(
    postgres_url, clock
):
    still, other = open_store(postgres_url, clock), open_store(postgres_url, clock)
    uid = add(other).uid
    with still._db._write_engine.connect() as connection:
        connection.execute(text("UPDATE jobs SET version = version + 1"))
        connection.execute(SOON)
        other.set_labels(uid, {"written": "by-the-other"}, None)  # waits for the row's lock
        connection.invalidate()
    assert other.job_by_uid(uid).job.labels == {"written": "by-the-other"}
    still.close()
    other.close()


def test_how_long_a_server_may_stand_still_in_a_write(postgres_url, clock):
    store = open_store(postgres_url, clock)
    for engine in (store._db._write_engine, store._db._read_engine):
        with engine.connect() as connection:
            answer = connection.execute(text("SHOW idle_in_transaction_session_timeout"))
            assert answer.scalar_one() == "10s"
    store.close()


@pytest.fixture
def own_postgres(postgres):
    """One that may be stopped: nobody else uses it."""
    assert postgres
    with running_postgres() as server:
        yield server


def test_a_server_that_goes_and_comes_back_loses_nothing(own_postgres, clock):
    url = own_postgres.new_database()
    store = open_store(url, clock)
    uid = add(store).uid
    accepted, faults, numbers = [], [], itertools.count()

    def submit():
        try:
            while True:
                accepted.append(add(store, kind=JobKind.ML_JOB, job_id=f"j{next(numbers)}").uid)
        except StoreFault as fault:
            faults.append(str(fault))

    with ThreadPoolExecutor(8) as pool:
        working = [pool.submit(submit) for _ in range(8)]
        try:
            while len(accepted) < 50:
                assert not any(future.done() for future in working)
                time.sleep(0.01)
        finally:
            own_postgres.stop()
    assert [future.exception() for future in working] == [None] * 8
    assert len(faults) == 8, "it was stopped in the middle"
    place_there = make_url(url).query["host"]
    for call in (*writes(store, uid), lambda: store.job_by_uid(uid), store.holding, store.servers):
        with pytest.raises(
            StoreFault, match=f"on {place_there} (does not answer|is being stopped)"
        ):
            call()
    assert all(place_there in fault for fault in faults)
    own_postgres.start()
    check_whole(store, [uid, *accepted])
    for write in writes(store, uid):
        write()
    store.close()
