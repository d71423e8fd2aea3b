"""A backup is whole whoever writes meanwhile, says where it is not, and comes back."""

import errno
import os
import shutil
import threading
from contextlib import closing

import pytest

from store.builders import add, new_job
from trainshed.files.beneath import Beneath
from trainshed.files.server_files import BACKUP_FILE
from trainshed.model.faults import UsageFault
from trainshed.store import audit
from trainshed.store.base import StoreFault
from trainshed.store.opening import open_store
from trainshed.workbench import backups
from trainshed.workbench.doctor.examine import results_of
from trainshed.workbench.doctor.looking import look

JOBS = 20


def url_of(folder):
    return f"sqlite:///{folder}/trainshed.db"


def uids_in(folder):
    return {job.uid for job in audit.rows(url_of(folder)).jobs}


def doctor(folder):
    snapshot = look(folder, url_of(folder), list)
    return {result.check.name: result.word for result in results_of(snapshot)}


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    (folder / "jobs").mkdir(parents=True)
    (folder / "admin-token").write_text("secret")
    (folder / "server.json").write_text("{}")
    (folder / "gpus.json").write_text("{}")
    (folder / "node_gpus.json").write_text("{}")
    (folder / "ports.json").write_text("{}")
    os.mkfifo(folder / "ports")
    (folder / "buckets" / "bkt").mkdir(parents=True)
    (folder / "buckets" / "bkt" / "object").write_text("object")
    return folder


@pytest.fixture
def store(data):
    with closing(open_store(url_of(data))) as opened:
        yield opened


def make_attempt(data, uid):
    folder = data / "jobs" / str(uid) / "1"
    (folder / "log").mkdir(parents=True)
    (folder / "records.jsonl").write_text("")
    (folder / "log" / "00000001.jsonl").write_text("")
    (folder / "spare").write_bytes(bytes(100))
    os.mkfifo(folder / "control")  # a socket, whose path would be too long here
    return folder


def test_a_backup_has_all_that_was_there_before_it_began_whoever_adds_to_it(data, store, tmp_path):
    before = {add(store).uid for _ in range(JOBS)}
    for uid in before:
        make_attempt(data, uid)
    make_attempt(data, 7)
    end = threading.Event()

    def press_on():
        while not end.is_set():
            store.add_job(new_job())

    busy = threading.Thread(target=press_on)
    busy.start()
    manifest = backups.make(data, url_of(data), tmp_path / "backup", buckets=True)
    end.set()
    busy.join()
    folder = tmp_path / "backup"
    assert before <= uids_in(folder)
    assert manifest.jobs == len(uids_in(folder))
    assert manifest.remarks == []
    assert {path.name for path in folder.iterdir()} == {
        "admin-token", "backup-files.jsonl", "backup.json", "buckets", "jobs", "trainshed.db",
    }  # fmt: skip
    assert {int(path.name) for path in (folder / "jobs").iterdir()} == before
    assert not list(folder.glob("jobs/*/1/spare"))
    assert list(backups.wrong(folder)) == []
    words = doctor(folder)
    assert words["backups-are-whole"] == words["database-is-sound"] == "ok"
    assert "active-is-attended" not in words


def cut(folder):
    path = folder / "trainshed.db"
    path.write_bytes(path.read_bytes()[:-4096])


def change(folder):
    (folder / "admin-token").write_text("Secret")


def lose(folder):
    (folder / "admin-token").unlink()


def end_early(folder):
    (folder / BACKUP_FILE).unlink()


@pytest.mark.parametrize("harm", [cut, change, lose, end_early])
def test_what_is_not_whole_is_found_and_not_put_back(data, store, tmp_path, harm):
    add(store)
    backups.make(data, url_of(data), tmp_path / "backup", buckets=False)
    harm(tmp_path / "backup")
    assert doctor(tmp_path / "backup")["backups-are-whole"] == "FAILED"
    with pytest.raises(UsageFault, match="is incomplete"):
        backups.restore(tmp_path / "backup", tmp_path / "new", url_of(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_backup_comes_back_when_no_server_runs_and_nothing_is_removed(data, tmp_path):
    folder = tmp_path / "backup"
    with closing(open_store(url_of(data))) as store:
        old = add(store).uid
        attempt = make_attempt(data, old)
        backups.make(data, url_of(data), folder, buckets=True)
        add(store)
        with pytest.raises(StoreFault, match="is in use by another server"):
            backups.restore(folder, data, url_of(data))
    records = attempt / "records.jsonl"
    records.write_text("newer\n")
    (data / "admin-token").unlink()
    shutil.rmtree(data / "buckets")
    before = backups.restore(folder, data, url_of(data)).before
    assert uids_in(data) == {old}
    assert before.exists()
    assert (data / "admin-token").read_text() == "secret"
    assert (data / "buckets" / "bkt" / "object").read_text() == "object"
    assert records.read_text() == "newer\n"
    assert not (data / BACKUP_FILE).exists()
    with closing(open_store(url_of(data))) as store:
        assert store.job_by_uid(old)
    assert backups.restore(folder, data, url_of(data)).before != before


def test_a_copy_without_what_lies_beside_the_database_is_no_sound_data_directory(
    data, store, tmp_path
):
    """It passes SQLite's own check of its integrity."""
    add(store)
    (tmp_path / "copy").mkdir()
    shutil.copy(data / "trainshed.db", tmp_path / "copy")
    assert doctor(tmp_path / "copy")["every-job-has-its-story"] == "unseen"


def test_a_backup_needs_a_folder_of_its_own(data, store, tmp_path):
    add(store)
    with pytest.raises(UsageFault, match="is in the data directory"):
        backups.make(data, url_of(data), data / "backup", buckets=True)
    with pytest.raises(UsageFault, match="is not empty"):
        backups.make(data, url_of(data), tmp_path, buckets=True)
    with pytest.raises(StoreFault, match="pg_dump"):
        backups.make(data, "postgresql+psycopg://a@b/c", tmp_path / "new", buckets=True)


def test_a_restore_does_not_write_where_a_link_of_a_job_leads(data, store, tmp_path):
    """Run by root it made files in folders of the machine, such as /etc/ld.so.preload."""
    add(store)
    machine = tmp_path / "etc"
    machine.mkdir(mode=0o755)
    (data / "buckets/bkt/out").mkdir()
    (data / "buckets/bkt/out/ld.so.preload").write_text("of the job")
    backups.make(data, url_of(data), tmp_path / "backup", buckets=True)
    store.close()
    shutil.rmtree(data / "buckets/bkt/out")
    (data / "buckets/bkt/out").symlink_to(machine)
    (data / "buckets/bkt/object").unlink()
    (data / "buckets/bkt/object").symlink_to(machine / "shadow")
    done = backups.restore(tmp_path / "backup", data, url_of(data))
    assert list(machine.iterdir()) == []
    assert machine.stat().st_mode & 0o777 == 0o755
    assert done.remarks == [
        (
            "names that were left out because a link or something else has their place: 2, the "
            "first is buckets/bkt/object"
        )
    ]


def test_a_list_that_names_files_elsewhere_is_not_believed(data, store, tmp_path):
    add(store)
    folder = tmp_path / "backup"
    backups.make(data, url_of(data), folder, buckets=True)
    (tmp_path / "elsewhere").write_text("text")
    with (folder / "backup-files.jsonl").open("a") as file:
        for name in ("../elsewhere", str(tmp_path / "elsewhere")):
            file.write(f'["{name}", 4, "{"0" * 64}"]\n')
    assert list(backups.wrong(folder)) == [
        "../elsewhere is missing",
        f"{tmp_path}/elsewhere is missing",
    ]


def test_a_backup_keeps_holes_and_says_what_it_left_out(data, store, tmp_path):
    add(store)
    with (data / "buckets/bkt/sparse").open("wb") as file:
        file.truncate(1 << 40)
    os.mkfifo(data / "buckets/bkt/pipe")
    folder = tmp_path / "backup"
    manifest = backups.make(data, url_of(data), folder, buckets=True)
    assert manifest.remarks == [
        "pipes, sockets and devices that were left out: 1, the first is buckets/bkt/pipe"
    ]
    assert backups.read(folder) == manifest
    assert list(backups.wrong(folder)) == []
    new = tmp_path / "new"
    backups.restore(folder, new, url_of(new))
    for copy in (folder, new):
        status = (copy / "buckets/bkt/sparse").stat()
        assert status.st_size == 1 << 40
        assert status.st_blocks * 512 < 1 << 20


def test_no_job_prevents_a_backup_by_the_mode_of_a_file(data, store, tmp_path, monkeypatch):
    """Without root a job is the server's user, and its file of mode 000 ended each backup."""
    work = make_attempt(data, add(store).uid) / "work"
    work.mkdir()
    for path in (work / "closed", data / "buckets" / "bkt" / "closed"):
        path.write_text("x")
    read = Beneath.read

    def refuse(self, name):
        if name.endswith(closed):
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(self, name)

    monkeypatch.setattr(Beneath, "read", refuse)  # root may read whatever the mode is
    closed = "closed"
    manifest = backups.make(data, url_of(data), tmp_path / "backup", buckets=True)
    assert ["modes forbid" in line and ": 2, " in line for line in manifest.remarks] == [True]
    closed = ("admin-token", "records.jsonl")
    with pytest.raises(PermissionError):
        backups.make(data, url_of(data), tmp_path / "second", buckets=True)
