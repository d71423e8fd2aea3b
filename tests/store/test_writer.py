"""Many callers' writes share a commit, and nothing else."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from store.builders import PROJECT, new_job
from trainshed.model.access import AccessRole
from trainshed.store import codec
from trainshed.store.base import AlreadyThere, StoreFault
from trainshed.store.opening import open_store
from trainshed.store.records.access import SigningKey
from trainshed.store.records.jobs import JobKind
from trainshed.store.tables import PROJECTS


class Gate:
    """Keeps the writer busy, so that what comes meanwhile becomes one batch."""

    def __init__(self, store):
        self._store = store
        self._go = threading.Event()
        self._held = threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self._store._db.write, args=[self._wait])
        self._thread.start()
        self._held.wait()
        return self

    def __exit__(self, *_):
        self._go.set()
        self._thread.join()

    def _wait(self, _):
        self._held.set()
        self._go.wait()


def together(store, *calls):
    """Hand in all calls while the writer is busy; their outcomes."""
    queue = store._db._writer._queue
    with ThreadPoolExecutor(len(calls)) as pool:
        with Gate(store):
            futures = []
            for call in calls:
                before = queue.qsize()
                futures.append(pool.submit(call))
                while queue.qsize() == before:
                    pass
        return [future.exception() or future.result() for future in futures]


def commits(store, monkeypatch):
    engine = store._db._write_engine
    counted = []
    do_commit = engine.dialect.do_commit
    monkeypatch.setattr(engine.dialect, "do_commit", lambda c: (counted.append(1), do_commit(c))[1])
    return counted


def test_writes_that_wait_together_are_committed_together(store, monkeypatch):
    counted = commits(store, monkeypatch)
    outcomes = together(store, *[lambda: store.add_job(new_job())] * 8)
    assert len({record.uid for record, is_new in outcomes if is_new}) == 8
    assert len(counted) == 1


def test_a_refusal_is_one_callers_only(store):
    named = new_job(kind=JobKind.ML_JOB, job_id="j")
    outcomes = together(
        store,
        *[lambda: store.add_job(named)] * 2,
        lambda: store.add_job(new_job()),
        lambda: store.set_labels(1, {}, None),
        lambda: store.project("new"),
    )
    assert isinstance(outcomes[1], AlreadyThere)
    assert isinstance(outcomes[3], KeyError)
    assert [type(outcome) for outcome in outcomes].count(tuple) == 3
    assert store.waiting_count() == 2
    assert store.job(PROJECT, JobKind.ML_JOB, "j").uid == outcomes[0][0].uid


def test_repetitions_in_one_batch_find_their_first(store):
    new = new_job(retry_key="k")
    outcomes = together(store, *[lambda: store.add_job(new)] * 4)
    assert len({record.uid for record, _ in outcomes}) == 1
    assert [is_new for _, is_new in outcomes].count(True) == 1


def test_a_failure_undoes_its_own_write_and_no_other(store):
    def half(tx):
        tx.connection.execute(PROJECTS.insert(), {"id": "half", "number": "1"})
        raise ZeroDivisionError

    outcomes = together(
        store,
        lambda: store.add_job(new_job()),
        lambda: store._db.write(half),
        lambda: store.add_job(new_job()),
    )
    assert isinstance(outcomes[1], ZeroDivisionError)
    assert store.waiting_count() == 2
    assert store.project("1") == ("1", "1"), "nothing of the half write is left"


def test_a_fault_of_the_database_is_told_to_its_caller(store, clock):
    key = SigningKey(
        key_id="k",
        email="e",
        public_key="p",
        project="*",
        role=AccessRole.VIEWER,
        create_time=codec.to_time(clock()),
    )
    store.add_key(key)
    with pytest.raises(StoreFault, match="cannot be used"):
        store.add_key(key)
    assert list(store.all_keys()) == [key]


def test_what_was_handed_in_is_finished_and_then_no_more_is_taken(url, clock):
    opened = open_store(url, clock)
    with ThreadPoolExecutor(9) as pool:
        with Gate(opened):
            adds = [pool.submit(opened.add_job, new_job()) for _ in range(8)]
            while opened._db._writer._queue.qsize() < 8:
                pass
            closing = pool.submit(opened.close)
        assert all(add.result()[1] for add in adds)
        closing.result()
    with pytest.raises(StoreFault, match="closed"):
        opened.add_job(new_job())
    again = open_store(url, clock)
    assert again.waiting_count() == 8
    again.close()
