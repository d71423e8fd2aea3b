"""However a job, its command or its supervisor ends, no process of it lives on."""

import errno
import fcntl
import gc
import os
import signal
import stat
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from engines.support import (
    DEADLINE_S,
    FOREVER,
    MARK,
    assert_no_survivor,
    cluster,
    marked_processes,
    run_replicas,
    wait_until,
    without_cgroups,
)
from trainshed.engines.processes import cgroup, tree
from trainshed.engines.supervise.kernel.cgroups import writable
from trainshed.engines.supervise.record.segments import SEGMENT_BYTES_MAX

LAUNCHER = Path(__file__).parent / "launcher.py"

#: Trainers that are hard to end; each prints "ready" when all of its processes run.
SLEEPER = "import time; print('ready'); time.sleep(600)"
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready'); time.sleep(600)"
FORKED = "import os, time\npid = os.fork()\nif pid: print('ready')\ntime.sleep(600)"
DAEMON = """
import os, signal, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        os.write(write, b'x')
        time.sleep(600)
    os._exit(0)
os.read(read, 1)
print('ready')
"""
DAEMON_AND_STAYS = DAEMON + "time.sleep(600)"
NOHUP = (
    "import subprocess, time\n"
    "subprocess.Popen('nohup setsid sleep 600 >/dev/null 2>&1 & echo ready', shell=True)\n"
    "time.sleep(600)"
)
TRAINERS = {
    "sleeper": SLEEPER,
    "deaf": DEAF,
    "forked": FORKED,
    "daemon": DAEMON_AND_STAYS,
    "nohup": NOHUP,
}
MEANS = ["leaf", "sweep"]

#: Who ignores its orders, and who leaves its session; test_kill.py ends every kind there is.
HARDEST = {"deaf", "daemon"}
every_trainer = pytest.mark.parametrize(
    "trainer",
    [
        pytest.param(code, id=name, marks=() if name in HARDEST else pytest.mark.full)
        for name, code in TRAINERS.items()
    ],
)
#: What a trainer does about its end does not depend on which signal the command was sent.
every_signal = pytest.mark.parametrize(
    ("signum", "trainer"),
    [
        pytest.param(
            signum,
            trainer,
            id=f"{signum.name}-{name}",
            marks=()
            if name == "deaf" or (signum, name) == (signal.SIGINT, "daemon")
            else pytest.mark.full,
        )
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for name, trainer in TRAINERS.items()
    ],
)
every_means = pytest.mark.parametrize("means", MEANS)


@contextmanager
def launched(mark, *codes, grace_s=0.3, means="leaf"):
    """A launcher in a process of its own, once all its trainers are ready."""
    process = subprocess.Popen(
        [sys.executable, str(LAUNCHER), str(grace_s), means, *codes],
        env={**os.environ, MARK: mark},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        for _ in codes:
            line = process.stdout.readline()
            assert line.endswith(" ready\n"), line
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@every_means
@every_signal
def test_a_signal_to_the_command_ends_every_process(signum, trainer, means, mark):
    with launched(mark, trainer, SLEEPER, means=means) as launcher:
        launcher.send_signal(signum)
        assert launcher.wait(DEADLINE_S) == 128 + signum
        assert_no_survivor(mark)
        assert launcher.stdout.read().endswith(f"stopped by {signum.name}\n")


@every_means
@every_trainer
def test_a_kill_of_the_command_ends_every_process(trainer, means, mark):
    with launched(mark, trainer, SLEEPER, means=means) as launcher:
        launcher.kill()
        assert_no_survivor(mark)


WRITER = "print('ready', flush=True)\nfor n in range(400): print(f'{n:0100000}', flush=True)"
WRITTEN_MAX = 5 * SEGMENT_BYTES_MAX


def has_stopped_growing(folder, sizes):
    """Whether a log is as long as two looks ago."""
    sizes.append(sum(path.stat().st_size for path in folder.rglob("log/*")))
    return len(sizes) > 20 and sizes[-20] == sizes[-1] > 3 * SEGMENT_BYTES_MAX


def test_programs_wait_for_a_terminal_that_takes_no_more(mark, tmp_path, monkeypatch):
    """As they do in a shell: what nobody reads does not fill the disk, and no line is lost."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    sizes = []
    with launched(mark, WRITER) as launcher:
        wait_until(lambda: has_stopped_growing(tmp_path, sizes), "its log grows no more")
        assert sizes[-1] < WRITTEN_MAX
        lines = [line[-5:] for line in launcher.stdout]
    assert [int(line) for line in lines[:400]] == list(range(400))
    assert launcher.returncode == 0


def test_a_kill_of_a_command_whose_terminal_takes_no_more_ends_every_process(
    mark, tmp_path, monkeypatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    sizes = []
    with launched(mark, WRITER) as launcher:
        wait_until(lambda: has_stopped_growing(tmp_path, sizes), "its log grows no more")
        launcher.kill()
        assert_no_survivor(mark)
        wait_until(lambda: not any(tmp_path.iterdir()), "its folder is gone")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_the_folder_of_a_run_is_removed_also_if_the_command_was_killed(
    signum, mark, tmp_path, monkeypatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with launched(mark, SLEEPER) as launcher:
        (folder,) = tmp_path.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        launcher.send_signal(signum)
        wait_until(lambda: not any(tmp_path.iterdir()), "its folder is gone")
        assert_no_survivor(mark)


@every_means
@every_trainer
def test_a_kill_of_the_supervisor_ends_every_process_and_fails_the_job(trainer, means, mark):
    with launched(mark, trainer, SLEEPER, means=means) as launcher:
        (supervisor,) = tree.children(launcher.pid)
        os.kill(supervisor, signal.SIGKILL)
        assert launcher.wait(DEADLINE_S) == 1
        assert_no_survivor(mark)


def test_the_first_ctrl_c_lets_trainers_save_and_the_second_kills_them(mark):
    with launched(mark, DEAF, DEAF, grace_s=600) as launcher:
        launcher.send_signal(signal.SIGINT)
        assert "again to kill" in launcher.stdout.readline()
        assert launcher.poll() is None
        launcher.send_signal(signal.SIGINT)
        assert launcher.wait(DEADLINE_S) == 130


def test_a_process_that_left_its_group_is_asked_to_end_before_it_is_killed(mark):
    trainer = (
        "import os, signal, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('saved')))\n"
        "    print('ready')\n"
        "while True: time.sleep(0.01)"
    )
    with launched(mark, trainer, grace_s=600) as launcher:
        launcher.send_signal(signal.SIGINT)
        assert "master-replica-0 saved\n" in launcher.stdout.read()


def test_ctrl_c_at_a_terminal_reaches_trainers_as_sigterm_only(mark):
    """The replicas are in sessions of their own, so the terminal's SIGINT is the launcher's."""
    trainer = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: print('SIGINT'))\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('SIGTERM')))\n"
        "print('ready')\n"
        "while True: time.sleep(0.01)"
    )
    with launched(mark, trainer, grace_s=600) as launcher:
        (supervisor,) = tree.children(launcher.pid)
        (replica,) = tree.children(supervisor)
        groups = {os.getpgid(pid) for pid in (launcher.pid, supervisor, replica)}
        assert len(groups) == 3
        launcher.send_signal(signal.SIGINT)
        assert "master-replica-0 SIGTERM\n" in launcher.stdout.read()


def test_the_supervisor_leaves_ending_signals_to_the_command_and_has_a_name_of_its_own(mark):
    with launched(mark, SLEEPER) as launcher:
        (supervisor,) = tree.children(launcher.pid)
        words = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (launcher.pid, supervisor)]
        assert b"launcher.py" in words[0]
        assert b"launcher.py" not in words[1]
        assert b"supervise.main" in words[1]
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(supervisor, signum)
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(DEADLINE_S) == 128 + signal.SIGTERM


@every_means
@pytest.mark.parametrize("code", ["", "raise SystemExit(5)"], ids=["success", "failure"])
def test_a_job_that_ends_by_itself_takes_its_daemons_with_it(code, means, mark):
    replicas = cluster(DAEMON + code, FOREVER)
    with without_cgroups() if means == "sweep" else nullcontext():
        outcome, recorder = run_replicas(replicas, mark, grace_s=0.2, settle_s=0.0)
    assert outcome.exit_code == (5 if code else 0)
    assert recorder.texts("master-replica-0") == ["ready"]
    assert not marked_processes(mark)


def test_a_daemon_of_a_worker_that_ended_early_does_not_outlive_the_job(mark, tmp_path):
    done = tmp_path / "done"
    worker = DAEMON + f"open({str(done)!r}, 'w').close()"
    primary = f"import os, time\nwhile not os.path.exists({str(done)!r}): time.sleep(0.01)"
    outcome, _ = run_replicas(cluster(primary, worker), mark, grace_s=0.2)
    assert outcome.exit_code == 0
    assert not marked_processes(mark)


def has_leaves():
    home = cgroup.own_directory()
    return home is not None and writable(home)


@pytest.mark.skipif(not has_leaves(), reason="no writable cgroup2 directory: run as root")
def test_what_a_launcher_killed_with_its_supervisor_has_left_is_ended_by_the_next_one(
    mark, tmp_path, monkeypatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # nobody is left who could remove the folder
    with launched(mark, DAEMON_AND_STAYS) as launcher:
        (supervisor,) = tree.children(launcher.pid)
        os.kill(launcher.pid, signal.SIGSTOP)  # so that it cannot sweep
        os.kill(supervisor, signal.SIGKILL)
        os.kill(launcher.pid, signal.SIGKILL)
        launcher.wait()
        # none where somebody else has just launched something on this machine
        wait_until(lambda: len(marked_processes(mark)) <= 1, "only the daemon is left")
        outcome, _ = run_replicas(cluster(""))
        assert outcome.exit_code == 0
        assert_no_survivor(mark)


def test_a_leaf_that_cannot_be_locked_leaves_neither_a_descriptor_nor_a_directory(
    tmp_path, monkeypatch
):
    """In a directory that stands for a cgroup: what a failing flock leaves is the same there."""

    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    (tmp_path / "cgroup.procs").touch()
    monkeypatch.setattr(fcntl, "flock", refuse)
    before = held_by_this_process()
    assert cgroup.make_box(str(tmp_path), "job") is None
    assert held_by_this_process() == before
    assert [path.name for path in tmp_path.iterdir()] == ["cgroup.procs"]


def test_the_next_launcher_leaves_the_job_of_a_living_one_alone(mark):
    with launched(mark, SLEEPER) as launcher:
        running = marked_processes(mark)
        run_replicas(cluster(""))
        assert marked_processes(mark) == running
        assert launcher.poll() is None


def test_the_launcher_s_own_children_are_not_touched(mark):
    other = subprocess.Popen([sys.executable, "-c", FOREVER])
    try:
        run_replicas(cluster(DAEMON), mark, grace_s=0.2)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def held_by_this_process():
    gc.collect()  # what other tests have left may hold descriptors
    descriptors = sorted(int(path.name) for path in Path("/proc/self/fd").iterdir())
    return descriptors, sorted(tree.children(os.getpid()))


def test_descriptors_and_children_of_the_launcher_are_as_before(mark):
    run_replicas(cluster(""), mark)
    before = held_by_this_process()
    for _ in range(3):
        run_replicas(cluster("", FOREVER), mark, settle_s=0.0)
    assert held_by_this_process() == before


def test_signal_handlers_are_as_before(mark):
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(AttributeError):
        run_replicas(cluster("print('x')"), mark, sink=object())
    assert before == [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
