"""What the doctor sees of folders, files and processes, and that it leaves them as they are."""

import fcntl
import json
import os
import resource
import struct
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.engines.local.engine import LocalEngine
from trainshed.files.server_files import RunningServer, write_running
from trainshed.model.attempt import AttemptKey
from trainshed.model.log_line import LogLine, encode, segment_name
from trainshed.service.upkeep.file_modes import make_private
from trainshed.store.opening import open_store
from trainshed.workbench.doctor.looking import LogReader, look, read_records

KEY = AttemptKey(4_611_686_018_427_387_000 + os.getpid(), 1)


def lines(*stamps):
    return [encode(LogLine(stamp_ns=ns, task_name="t-0", text=f"line {ns}")) for ns in stamps]


def log_of(*segments):
    log = LogReader()
    for number, segment in enumerate(segments, 1):
        log.read_segment(segment_name(number), segment)
    return log.summarize()


stamps = st.lists(st.integers(1, 1 << 62), min_size=2, unique=True).map(sorted)


@given(stamps, st.data())
def test_a_log_that_ascends_is_whole_however_it_is_cut(times, data):
    place = data.draw(st.integers(0, len(times)))
    log = log_of(lines(*times[:place]), lines(*times[place:]))
    assert (log.wrong, log.is_torn, log.lines) == ((), False, len(times))
    assert (log.first_ns, log.last_ns) == (times[0], times[-1])


@given(stamps, st.data())
def test_two_lines_out_of_order_are_found(times, data):
    place = data.draw(st.integers(1, len(times) - 1))
    times[place - 1], times[place] = times[place], times[place - 1]
    cut = data.draw(st.integers(0, len(times)))
    assert (
        "is not after the previous line"
        in log_of(lines(*times[:cut]), lines(*times[cut:])).wrong[0]
    )


@given(stamps, st.data())
def test_a_line_that_is_no_line_is_found_where_it_is(times, data):
    place = data.draw(st.integers(0, len(times) - 1))
    written = lines(*times)
    written[place] = data.draw(st.sampled_from([b"\0\0\0\n", b"[1\n", b"{}\n", b"\xff\xfe\n"]))
    (wrong,) = log_of(written).wrong
    assert wrong == f"line {place + 1} of segment 00000001.jsonl cannot be read"


def test_only_the_end_of_the_last_segment_may_be_torn():
    first, second = lines(1, 2)
    assert log_of([first, second[:-4]]).is_torn
    assert log_of([first, second[:-4]]).wrong == ()
    assert "not the last" in log_of([first[:-4]], [second]).wrong[0]


def test_much_damage_is_counted():
    log = log_of([b"x\n"] * 100)
    assert len(log.wrong) == 4
    assert log.wrong[-1] == "and 97 more faults"


@pytest.mark.parametrize(
    ("data", "kinds", "wrong"),
    [
        (b"", [], ()),
        (b'\n{"is": "Began", "pid": 1}\n\n{"is": "Ended"}\n', ["Began", "Ended"], ()),
        (b'\n{"is": "Began", "pid": 1}\n\n{"is": "End', ["Began"], ()),
        (b'\n{"is": "En\n{"is": "Ended"}\n', ["Ended"], ()),
        (b'\n{"i\n{"is": "Ended"}\n', ["Ended"], ()),
        (b'\0\0\0\n{"is": "Ended"}\n', ["Ended"], ("line 1 cannot be read",)),
        (b'\n{"pid": 3}\n', [], ("line 2 cannot be read",)),
        (b"\n[]\n7\n", [], ("line 2 cannot be read", "line 3 cannot be read")),
    ],
)
def test_a_torn_record_is_none_and_anything_else_is_damage(data, kinds, wrong):
    records, damage = read_records(data)
    assert [record["is"] for record in records] == kinds
    assert damage == wrong


@pytest.fixture
def data(tmp_path):
    """A data directory with one attempt that has ended, and an empty database."""
    data = tmp_path / "data"
    attempt = data / f"jobs/{KEY.uid}/{KEY.attempt}"
    (attempt / "log").mkdir(parents=True)
    attempt.chmod(0o700)
    (attempt / "lock").touch()
    (attempt / "records.jsonl").write_text('\n{"is": "Began"}\n\n{"is": "Ended"}\n')
    (attempt / "log/00000001.jsonl").write_bytes(b"".join(lines(1, 2)))
    open_store(url(data)).close()
    return data


def url(data):
    return f"sqlite:///{data}/trainshed.db"


def attempt_in(data):
    return data / f"jobs/{KEY.uid}/{KEY.attempt}"


def snapshot_of(data):
    return look(data, url(data), LocalEngine(data / "jobs").list_attempts)


def test_a_folder_is_seen_as_it_is(data):
    folder = snapshot_of(data).folders[KEY]
    assert folder.has("Ended")
    assert not folder.has("Ready", "Decided")
    assert (folder.is_private, folder.is_held, folder.wrong_records) == (True, False, ())
    assert (folder.log.lines, folder.log.last_ns) == (2, 2)


def test_nothing_is_written_by_looking(data):
    def state():
        return {
            path: (path.stat().st_mtime_ns, path.stat().st_size, path.stat().st_mode)
            for path in [data, *data.rglob("*")]
        }

    before = state()
    snapshot_of(data)
    assert state() == before


def test_a_lock_that_is_held_is_a_supervisor(data):
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    with (attempt_in(data) / "lock").open("r+b") as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, lock)
        assert snapshot_of(data).folders[KEY].is_held
    assert not snapshot_of(data).folders[KEY].is_held


def test_a_folder_that_others_may_use_is_seen_unless_one_above_is_closed(data):
    attempt_in(data).chmod(0o755)
    assert not snapshot_of(data).folders[KEY].is_private
    (data / "jobs").chmod(0o700)
    assert snapshot_of(data).folders[KEY].is_private


@contextmanager
def running(**environ):
    """A process with a changed environment, ended at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env={**os.environ, **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


def test_a_process_is_known_by_its_environment_with_its_devices(data):
    marks = {"TRAINSHED_JOB": str(KEY), "NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b"}
    with running(**marks) as pid:
        (process,) = (row for row in snapshot_of(data).processes if row.key == KEY)
    assert (process.pid, process.devices) == (pid, {"GPU-a", "GPU-b"})
    assert "input()" in process.command
    assert KEY not in {row.key for row in snapshot_of(data).processes}


@pytest.mark.parametrize("mark", ["", "7", "a/b", "7/", "/1", "-7/1"])
def test_a_mark_that_is_none_is_nobody(data, mark):
    with running(TRAINSHED_JOB=mark) as pid:
        assert pid not in {process.pid for process in snapshot_of(data).processes}


@pytest.mark.parametrize("word", ["void", "", "all"])
def test_no_device_is_no_device(data, word):
    with running(TRAINSHED_JOB=str(KEY), NVIDIA_VISIBLE_DEVICES=word):
        (process,) = (row for row in snapshot_of(data).processes if row.key == KEY)
    assert process.devices == frozenset()


def test_secrets_that_others_may_read_are_seen(data):
    for name in ("admin-token", "tls/ca.key"):
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).touch(mode=0o600)
    make_private(data)
    assert snapshot_of(data).disk.open_modes == {}
    (data / "admin-token").chmod(0o644)
    assert snapshot_of(data).disk.open_modes == {f"{data}/admin-token": 0o644}


def test_folders_caches_and_sockets_that_others_may_open_are_seen(data, tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINSHED_CACHE_DIR", str(tmp_path / "cache"))
    (data / "buckets/bkt").mkdir(parents=True)
    (data / "buckets/bkt").chmod(0o2770)
    make_private(data)
    (tmp_path / "cache/environments").mkdir(parents=True, mode=0o755)
    socket_ = data / "jobs/7/2/control"
    socket_.parent.mkdir(parents=True, exist_ok=True)
    socket_.touch(mode=0o666)
    socket_.chmod(0o666)
    (data / "buckets/bkt").chmod(0o775)
    (data / "jobs").chmod(0o750)
    assert snapshot_of(data).disk.open_modes == {
        f"{data}/buckets/bkt": 0o775,
        f"{data}/jobs": 0o750,
        f"{data}/jobs/7/2/control": 0o666,
        f"{tmp_path}/cache/environments": 0o755,
    }


def test_a_file_of_tomorrow_and_an_upload_of_last_year_are_seen(data):
    session = data / "uploads/sessions/one"
    session.mkdir(parents=True)
    (session / "data").touch()
    assert snapshot_of(data).disk.old_uploads == ()
    assert snapshot_of(data).disk.future_s <= 0
    now = time.time()
    os.utime(session / "data", (now, now - 365 * 86_400))
    os.utime(attempt_in(data) / "records.jsonl", (now, now + 3600))
    disk = snapshot_of(data).disk
    assert disk.old_uploads == (str(session),)
    assert disk.future_s == pytest.approx(3600, abs=60)


def test_a_note_of_an_object_that_cannot_be_read_is_seen(data):
    folder = data / "objects/bkt/ab"
    folder.mkdir(parents=True)
    note = {"name": "x", "fingerprint": {"mtime_ns": 1, "size": 1, "inode": 1}}
    (folder / "abcd.json").write_text(json.dumps({**note, "created_ns": 1, "updated_ns": 1}))
    assert snapshot_of(data).disk.unreadable_notes == ()
    torn = folder / "abce.json"
    torn.write_text('{"name": "y", "finger')
    assert snapshot_of(data).disk.unreadable_notes == (str(torn),)


def test_the_limit_of_open_files_is_the_servers(data):
    assert snapshot_of(data).files_max == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    with running() as pid:
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (123, hard))
        write_running(data, RunningServer(url="", grpc=None, pid=pid, anonymous=False, ca=None))
        snapshot = snapshot_of(data)
    assert (snapshot.server_pid, snapshot.files_max) == (pid, 123)
    assert snapshot_of(data).server_pid is None


@pytest.mark.parametrize(
    "content", [b"", b"no database at all", b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_database_that_is_none_is_said_in_a_sentence(data, content):
    (data / "trainshed.db").write_bytes(content)
    snapshot = snapshot_of(data)
    assert not snapshot.rows.jobs
    assert snapshot.unseen["ROWS"]
    assert snapshot.folders[KEY].has("Ended"), "the rest is seen all the same"


def test_a_folder_that_may_not_be_read_is_said(data, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied", "log")

    monkeypatch.setattr("trainshed.workbench.doctor.looking.read_log", refuse)
    snapshot = snapshot_of(data)
    assert not snapshot.folders
    assert "Permission denied" in snapshot.unseen["DISK"]


def test_what_lies_among_the_jobs_and_is_none_is_left_alone(data):
    (data / "jobs/lost+found").mkdir()
    (data / "jobs/17").mkdir()
    (data / "jobs/17/notes").mkdir()
    (data / "jobs/18").write_text(json.dumps({}))
    assert list(snapshot_of(data).folders) == [KEY]
