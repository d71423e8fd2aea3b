"""The file of a database is the one that was opened, and has room on a disk that gets full."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from e2e.disks import full, small_disk
from store.builders import add, place
from store.faulty_store import writes
from trainshed.store import database_file
from trainshed.store.base import StoreFault
from trainshed.store.opening import open_store
from trainshed.store.records.steps import NewEvent

EVENTS = 200


def url_of(folder):
    return f"sqlite:///{folder}/trainshed.db"


def remove(path):
    path.unlink()


def replace(path):
    shutil.copyfile(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def remove_log(path):
    path.with_name("trainshed.db-wal").unlink()


@pytest.mark.parametrize("harm", [remove, replace, remove_log])
def test_a_file_that_is_gone_or_another_is_noticed_before_anything_is_answered(
    tmp_path, clock, harm
):
    with closing(open_store(url_of(tmp_path), clock)) as store:
        uid = add(store).uid
        harm(tmp_path / "trainshed.db")
        for write in writes(store, uid):
            with pytest.raises(StoreFault, match="was removed or replaced") as raised:
                write()
            assert "database was removed or replaced" in raised.value.answer
        with pytest.raises(StoreFault, match="was removed or replaced"):
            store.waiting_count()


def test_a_file_that_is_put_back_is_used_again(tmp_path, clock):
    with closing(open_store(url_of(tmp_path), clock)) as store:
        uid, path = add(store).uid, tmp_path / "trainshed.db"
        path.rename(tmp_path / "away")
        with pytest.raises(StoreFault, match="was removed or replaced"):
            add(store)
        (tmp_path / "away").rename(path)
        assert store.job_by_uid(add(store).uid)
        assert store.job_by_uid(uid)


def tell(store, uid):
    """What a server writes of a job that goes on."""
    store.add_event(uid, NewEvent(kind="NOTE", message="x" * 100))


def test_on_a_full_disk_jobs_are_ended_and_none_is_added(tmp_path, clock):
    with (
        small_disk(tmp_path / "disk", 64) as disk,
        closing(open_store(url_of(disk), clock)) as store,
    ):
        uid = add(store).uid
        store.keep_room()
        with full(disk / "ballast"):
            with pytest.raises(StoreFault, match=r"trainshed\.db cannot grow: no space") as raised:
                add(store)
            assert "jobs can be cancelled" in raised.value.answer
            place(store, uid)
            for _ in range(EVENTS):
                tell(store, uid)
        add(store)
        assert len(store.events(uid, limit=2 * EVENTS)) > EVENTS


@pytest.mark.parametrize("mib", [12, 20])
@pytest.mark.parametrize("jobs", [1, 50])
def test_on_a_small_disk_that_gets_full_between_two_looks_jobs_are_cancelled(
    tmp_path, clock, mib, jobs
):
    """The log held all tables, had no room for more, and was never copied into the file."""
    with (
        small_disk(tmp_path / "disk", mib) as disk,
        closing(open_store(url_of(disk), clock)) as store,
    ):
        store.keep_room()
        uids = [add(store).uid for _ in range(jobs)]
        with full(disk / "ballast"):
            for uid in uids:
                place(store, uid)
            for _ in range(EVENTS):
                tell(store, uids[0])
            with pytest.raises(StoreFault, match="no space is left on its disk"):
                add(store)


def test_a_store_is_opened_and_used_on_a_full_disk(tmp_path, clock):
    with small_disk(tmp_path / "disk", 64) as disk:
        store = open_store(url_of(disk), clock)
        uid = add(store).uid
        store.keep_room()
        with full(disk / "ballast"):
            store.close()
            with full(disk / "more"), closing(open_store(url_of(disk), clock)) as again:
                assert again.waiting_count() == 1
                for _ in range(EVENTS):
                    tell(again, uid)


def test_the_room_is_in_the_file_and_its_log_and_is_kept_once(tmp_path, clock):
    with closing(open_store(url_of(tmp_path), clock)) as store:
        add(store)
        store.keep_room()
        size = (tmp_path / "trainshed.db").stat().st_size
        assert size > database_file.FREE_BYTES
        assert (tmp_path / "trainshed.db-wal").stat().st_blocks * 512 >= database_file.LOG_BYTES
        store.keep_room()
        assert (tmp_path / "trainshed.db").stat().st_size == size
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["trainshed.db", "trainshed.db-spare", "trainshed.db.lock"]
    with closing(sqlite3.connect(tmp_path / "trainshed.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT count(*) FROM jobs").fetchall() == [(1,)]


def test_no_log_is_made_by_a_thread_that_keeps_room_after_the_end(tmp_path, clock, monkeypatch):
    store = open_store(url_of(tmp_path), clock)
    add(store)
    file = store._db._file
    store.close()
    with pytest.raises(StoreFault, match="closed"):
        store.keep_room()
    monkeypatch.setattr(file, "check", lambda: None)  # it was open when the thread looked
    file.hold_log()
    assert not (tmp_path / "trainshed.db-wal").exists()
