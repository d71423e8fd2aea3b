"""A file system that is full, read-only or away: nothing is lost, and it goes on by itself."""

import errno
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import termios
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from engines.attempts import (
    KEY,
    ended,
    engine_at,
    folder,
    marked,
    observe,
    order,
    record,
    supervisor,
    texts,
    until,
)
from engines.support import FOREVER, awaiting, marked_processes, touching, wait_until
from trainshed.engines.local.attempts import start
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.files import room
from trainshed.model.attempt import Phase
from trainshed.model.faults import EngineFault

COUNT = 5000
PIPE_FULL = 60_000


def is_sleeping(pid):
    """Whether a process waits: with something left to read, it would run or be about to."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def talking(done, go):
    """More than fits into a pipe; then it says that it has written everything."""
    return (
        awaiting(go)
        + f"for i in range({COUNT}): print(f'{{i:07d}}', 'x' * 50, flush=True)\n"
        + touching(done)
    )


@contextmanager
def refusing_writes(pid):
    """Let a process make no file longer, as on a full disk."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def has_full_pipe(mark):
    """Whether a program of the job waits in a write: nobody reads what it has written."""
    for pid in marked_processes(mark):
        with suppress(OSError):
            reader = os.open(f"/proc/{pid}/fd/1", os.O_RDONLY | os.O_NONBLOCK)
            unread = fcntl.ioctl(reader, termios.FIONREAD, bytes(4))
            os.close(reader)
            return int.from_bytes(unread, sys.byteorder) > PIPE_FULL
    return False


def test_programs_wait_while_nothing_can_be_written_and_no_line_is_lost(root, mark, tmp_path):
    go, done = tmp_path / "go", tmp_path / "done"
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, talking(done, go)), ())
    until(engine, Phase.READY)
    with refusing_writes(supervisor(root)):
        go.touch()
        wait_until(
            lambda: has_full_pipe(mark) and is_sleeping(supervisor(root)),
            "the log cannot be written",
        )
        assert not done.exists()
        assert observe(engine).phase is Phase.READY
    assert ended(engine).outcome.exit_code == 0
    assert [int(text[:7]) for text in texts(root)] == list(range(COUNT))
    (note,) = texts(root, "service")
    assert note.startswith("The log could not be written for")


def test_a_job_s_end_waits_for_the_disk_but_its_stop_does_not(root, mark):
    """It may be the job that has filled it."""
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, FOREVER), ())
    until(engine, Phase.READY)
    with refusing_writes(supervisor(root)):
        engine.stop(KEY, order(5.0))
        wait_until(lambda: not marked_processes(mark), "nothing of the job lives")
        assert observe(engine).phase is Phase.READY
        assert record(root, "Ended") is None
    assert ended(engine).outcome.interrupted


def test_a_job_that_ends_by_itself_is_not_torn_down_before_that_is_known(root, mark, tmp_path):
    go = tmp_path / "go"
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, awaiting(go), FOREVER), ())
    until(engine, Phase.READY)
    primary, _ = sorted(marked_processes(mark))
    with refusing_writes(supervisor(root)):
        go.touch()
        wait_until(lambda: not Path(f"/proc/{primary}").exists(), "the primary was collected")
        assert marked_processes(mark), "the worker still lives"
        assert record(root, "Decided") is None
    assert ended(engine).outcome.exit_code == 0


#: Becomes another program that may make no file longer.
REFUSED = (
    "import os, resource, sys\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def test_one_that_cannot_write_that_it_began_does_nothing_until_it_can(
    root, mark, tmp_path, monkeypatch
):
    ran, real = tmp_path / "ran", start.supervisor_argv
    argv = (sys.executable, "-c", REFUSED)
    monkeypatch.setattr(start, "supervisor_argv", lambda word: (*argv, *real(word)))
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, touching(ran)), ())
    attempt = AttemptFolder(folder(root))
    wait_until(attempt.is_held, "the supervisor has come")
    wait_until((folder(root) / "records.jsonl").exists, "it has tried to write")
    assert observe(engine).phase is Phase.STARTING
    assert not ran.exists()
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(engine._attempts.get(KEY).child, resource.RLIMIT_FSIZE, unlimited)
    assert ended(engine).outcome.exit_code == 0
    assert ran.exists()


def test_a_launch_on_a_full_disk_is_to_be_tried_again(root, mark, monkeypatch):
    """It is not the job's fault: an EngineFault would fail it."""

    def no_room(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    engine = engine_at(root)
    with monkeypatch.context() as full:
        full.setattr(start.plan_file, "write_json", no_room)
        with pytest.raises(OSError, match="No space left"):
            engine.launch(KEY, marked(mark, "print('x')"), ())
    engine.launch(KEY, marked(mark, "print('x')"), ())
    ended(engine)
    assert texts(root) == ["x"]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 8 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or mount("-t", "tmpfs", "-o", "size=8m", "tmpfs", place):
        pytest.skip("only root may mount: run the tests as root")
    yield place
    subprocess.run([program("umount"), "--lazy", place], check=True)


def mount(*words):
    argv = [program("mount"), *words]
    return subprocess.run(argv, check=False, capture_output=True).returncode


def program(name):
    return shutil.which(name) or f"/bin/{name}"


def test_a_disk_that_is_really_full_costs_no_line(small_disk, mark, tmp_path):
    root, ballast = small_disk / "jobs", small_disk / "ballast"
    go, done = tmp_path / "go", tmp_path / "done"
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, talking(done, go)), ())
    until(engine, Phase.READY)
    fill(ballast)
    go.touch()
    wait_until(lambda: has_full_pipe(mark), "the disk is full")
    assert not done.exists()
    ballast.unlink()
    assert ended(engine).outcome.exit_code == 0
    assert [int(text[:7]) for text in texts(root)] == list(range(COUNT))
    assert "No space left on device" in texts(root, "service")[0]


TALKS_FOR_EVER = "while True: print('x' * 1000)"


def test_a_job_that_prints_leaves_room_on_the_disk_and_its_end_is_told_on_a_full_one(
    small_disk, mark
):
    root = small_disk / "jobs"
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, TALKS_FOR_EVER), ())
    waits = "MiB are free on the server's disk: programs block on their output"
    wait_until(lambda: any(waits in text for text in texts(root, "service")), "the log waits")
    assert room.free_bytes(small_disk) > 1 << 20
    assert observe(engine).phase is Phase.READY
    fill(small_disk / "ballast")
    with pytest.raises(EngineFault, match="No space left"):  # to be repeated, and obeyed already
        engine.stop(KEY, order(0.0))
    assert ended(engine).outcome.interrupted
    assert not (folder(root) / "spare").exists()


def test_a_job_ends_by_itself_while_its_output_waits_for_a_full_disk(small_disk, mark, tmp_path):
    """The supervisor read its last lines only when there was room on the disk.

    Until then the server showed the job as running.
    """
    root, go = small_disk / "jobs", tmp_path / "go"
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, talking(tmp_path / "done", go)), ())
    until(engine, Phase.READY)
    fill(small_disk / "ballast")
    go.touch()
    wait_until(lambda: has_full_pipe(mark), "the log waits for the disk")
    (pid,) = marked_processes(mark)
    os.kill(pid, signal.SIGKILL)
    assert ended(engine).outcome.exit_code == 128 + signal.SIGKILL
    numbers = [int(text[:7]) for text in texts(root)]
    assert PIPE_FULL // 60 < len(numbers) < COUNT
    assert numbers == list(range(len(numbers)))


def fill(path):
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            return


def test_a_disk_that_becomes_read_only_costs_no_line(small_disk, mark, tmp_path):
    root = small_disk / "jobs"
    go, done = tmp_path / "go", tmp_path / "done"
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, talking(done, go)), ())
    until(engine, Phase.READY)
    (folder(root) / "log").mkdir(exist_ok=True)
    bind = folder(root) / "log"
    assert not mount("--bind", "-o", "ro", bind, bind)
    try:
        go.touch()
        wait_until(lambda: has_full_pipe(mark), "the log is read-only")
    finally:
        subprocess.run([program("umount"), "--lazy", bind], check=True)
    assert ended(engine).outcome.exit_code == 0
    assert [int(text[:7]) for text in texts(root)] == list(range(COUNT))
    assert "Read-only file system" in texts(root, "service")[0]
