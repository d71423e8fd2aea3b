"""A file that fails is named with what is wrong, and used again when it is well."""

import os
import shutil
import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from sqlalchemy import event, text

from store.builders import add, new_job
from store.faulty_store import check_whole, writes
from trainshed.store import database
from trainshed.store.base import StoreFault
from trainshed.store.opening import open_store

IMPATIENCE = "busy_timeout=50"
ROOM_MAX = 5000


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(database, "_PRAGMAS", (*database._PRAGMAS, IMPATIENCE))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trainshed.db"


@pytest.fixture
def on_disk(path, clock):
    opened = open_store(f"sqlite:///{path}", clock)
    yield opened
    opened.close()


def test_a_lock_of_another_program_is_named_and_waited_out(on_disk, path):
    uid = add(on_disk).uid
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for write in writes(on_disk, uid):
            with pytest.raises(StoreFault, match=f"{path} is locked by another program"):
                write()
        assert on_disk.job_by_uid(uid).version == 1, "it can still be read"
        other.execute("ROLLBACK")
    for write in writes(on_disk, uid):
        write()


def test_all_who_wait_for_a_lock_are_told_together(on_disk, path):
    tries = []
    event.listen(on_disk._db._write_engine, "handle_error", tries.append)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(8) as pool:
            exceptions = [pool.submit(on_disk.add_job, new_job()).exception for _ in range(8)]
            assert {type(exception()) for exception in exceptions} == {StoreFault}
    assert len(tries) <= len(exceptions), "nobody waited for himself and for the others too"


def add_until(store, fault):
    """The uids of the jobs that were accepted before the store said why it takes no more."""
    uids = []
    while len(uids) < ROOM_MAX:
        try:
            uids.append(add(store, job_dir="x" * 5000).uid)
        except StoreFault as error:
            assert fault in str(error)  # noqa: PT017 - the first ones are accepted
            return uids
    raise AssertionError("there was room for all")


def test_a_full_disk_loses_nothing_and_is_used_again_when_there_is_room(on_disk, path):
    def room(pages):
        limit = f"PRAGMA max_page_count = {pages}"
        on_disk._db.write(lambda tx: tx.connection.exec_driver_sql(limit).close())

    pages = on_disk._db.read(lambda tx: tx.execute(text("PRAGMA page_count")).scalar_one())
    room(pages + 20)
    uids = add_until(on_disk, f"{path} cannot grow: no space is left on its disk")
    with pytest.raises(StoreFault, match="no space is left"):
        add(on_disk, job_dir="x" * 50_000)
    assert on_disk.waiting_count() == len(uids) > 0
    check_whole(on_disk, uids)
    room(10**6)
    check_whole(on_disk, [*uids, add(on_disk).uid])


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount(["-t", "tmpfs", "-o", "size=1m", "tmpfs", folder])
    yield folder
    umount(folder)


def umount(folder):
    subprocess.run([shutil.which("umount"), folder], check=True)


def mount(arguments):
    done = subprocess.run([shutil.which("mount"), *arguments], check=False, capture_output=True)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.decode().strip()}")


def test_a_disk_that_is_really_full_loses_nothing_either(small_disk, clock):
    store = open_store(f"sqlite:///{small_disk}/trainshed.db", clock)
    with closing(store):
        uids = add_until(store, f"{small_disk}/trainshed.db cannot grow")
        check_whole(store, uids)
        mount(["-o", "remount,size=8m", small_disk])
        check_whole(store, [*uids, add(store, job_dir="x" * 5000).uid])


@pytest.fixture
def read_only(tmp_path, on_disk):
    """A copy of a store's folder that nobody may write to, root neither."""
    add(on_disk)
    folder = tmp_path / "copy"
    folder.mkdir()
    with closing(sqlite3.connect(tmp_path / "trainshed.db")) as source:
        source.execute("VACUUM INTO ?", [str(folder / "trainshed.db")])
    if os.geteuid():
        folder.chmod(0o500)
        yield folder
        folder.chmod(0o700)
    else:
        mount(["--bind", folder, folder])
        mount(["-o", "remount,bind,ro", folder])
        yield folder
        umount(folder)


def test_a_read_only_folder_is_named(read_only, clock):
    with pytest.raises(StoreFault, match=rf"{read_only}/.*: (Read-only|Permission)"):
        open_store(f"sqlite:///{read_only}/trainshed.db", clock)


def test_a_damaged_file_is_named_and_a_copy_that_is_put_back_is_used(path, clock):
    store = open_store(f"sqlite:///{path}", clock)
    uid = add(store).uid
    store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xa5" * (len(whole) - 100))
    with pytest.raises(StoreFault, match=f"{path} is damaged"):
        open_store(f"sqlite:///{path}", clock)
    path.write_bytes(whole)
    with closing(open_store(f"sqlite:///{path}", clock)) as again:
        assert again.job_by_uid(uid).uid == uid


def test_pages_that_cannot_be_read_are_read_again_when_they_can(on_disk, path):
    uid = add(on_disk).uid
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
    on_disk._db._read_engine.dispose()  # whoever has read a page need not read it again
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xa5" * (len(whole) - 100))
    for _ in range(2):
        with pytest.raises(StoreFault, match=f"{path} is damaged"):
            on_disk.job_by_uid(uid)
    with path.open("r+b") as file:
        file.write(whole)
    assert on_disk.job_by_uid(uid).uid == uid


def test_a_file_that_is_taken_away_is_missed_and_not_made_anew(on_disk, path):
    uid = add(on_disk).uid
    away = path.rename(path.with_name("away.db"))
    on_disk._db._read_engine.dispose()
    on_disk._db._write_engine.dispose()
    for call in (lambda: add(on_disk), lambda: on_disk.job_by_uid(uid)):
        with pytest.raises(StoreFault, match=f"{path} was removed or replaced"):
            call()
    assert not path.exists()
    away.rename(path)
    check_whole(on_disk, [uid, add(on_disk).uid])


def test_a_row_that_means_nothing_is_a_fault_of_the_database(store):
    uid, well = add(store).uid, add(store).uid
    spoil = text("UPDATE specs SET spec = '{\"dialect\": 7' WHERE uid = :uid")
    store._db.write(lambda tx: tx.connection.execute(spoil, {"uid": uid}).close())
    with pytest.raises(StoreFault, match="malformed JobSpec"):
        store.job_by_uid(uid)
    assert store.job_by_uid(well).uid == well
