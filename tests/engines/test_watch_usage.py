"""The usage of an attempt is written while it runs, whatever its programs do to the files."""

import errno
import itertools
import json
import math
import os
import resource
import signal
import threading
import time
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

from engines.attempts import KEY, ended, engine_at, folder, marked, order, supervisor, texts, until
from engines.support import FOREVER, awaiting, plan_of, python_replica, wait_until
from trainshed.engines.local.devices import locks as device_locks
from trainshed.engines.supervise.kernel.limits import START_USAGE, Usage
from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record import usage_file
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.gpu_file import GpuFigures, write_gpu_file
from trainshed.engines.supervise.watch import watch_usage
from trainshed.engines.supervise.watch.watch_usage import UsageWatch
from trainshed.model.attempt import Phase
from trainshed.model.roles import Role
from trainshed.model.usage import ReportedProgress, Spread, parse_progress
from trainshed_trainer import progress

NAME = "master-replica-0"
S = 1_000_000_000
NOTHING = Usage(cpu_ns=0, read_bytes=0, written_bytes=0)
REPORTS = (
    "import os, time\n"
    "path = os.environ['TRAINSHED_PROGRESS_FILE']\n"
    "for step in range(10, 40, 10):\n"
    "    with open(path + '.new', 'w') as file:\n"
    '        file.write(\'{"step": %d, "total": 30, "loss": %f}\' % (step, 1 / step))\n'
    "    os.replace(path + '.new', path)\n"
    "    end = time.monotonic() + 0.4\n"
    "    while time.monotonic() < end: pass\n"
    "print(step)\n"
)


def test_an_attempt_is_sampled_while_it_runs_and_at_its_end(root, mark):
    engine = engine_at(root, usage_s=1.0)
    engine.launch(KEY, marked(mark, REPORTS + FOREVER, REPORTS), ())
    lines = wait_until(lambda: len(engine.read_usage(KEY)) >= 2 and engine.read_usage(KEY), "lines")
    engine.stop(KEY, order(0.0))
    ended(engine)
    assert sorted(lines[0].replicas) == [NAME, "worker-replica-0"]
    assert all(line.replicas[NAME].memory.low > 1 << 20 for line in lines)
    assert all(line.replicas[NAME].processes.mean >= 1 for line in lines)
    assert lines[0].gpus == {}
    (last, *_), newest = reversed(engine.read_usage(KEY)), texts(root)
    assert newest == ["30"]
    assert last.replicas[NAME].memory is None, "it has ended"
    assert last.replicas[NAME].cpu is not None
    steps = [replica for line in engine.read_usage(KEY) if (replica := line.replicas.get(NAME))]
    steps = [replica for replica in steps if replica.step]
    assert (steps[-1].step[1], steps[-1].total) == (30, 30)
    assert steps[-1].values["loss"].low == pytest.approx(1 / 30, rel=1e-3)
    assert engine.forget(KEY.uid)
    assert engine.read_usage(KEY) == []


@pytest.mark.full
def test_the_gpus_of_an_attempt_are_those_that_it_holds_and_that_the_server_measures(
    root, mark, tmp_path, monkeypatch
):
    """The server writes its readings; while it is away, the GPUs are not measured."""
    device_locks.prepare(tmp_path / "locks")
    monkeypatch.setenv("TRAINSHED_LOCK_DIR", str(tmp_path / "locks"))
    engine = engine_at(root, find_gpus=None, fake_gpus=2, usage_s=1.0)
    replica = python_replica(Role.PRIMARY, 0, FOREVER, gpu_count=1)
    energies_j = itertools.count(1000, 7)

    def write_figures(at):
        energy_j = float(next(energies_j))
        figures = GpuFigures(use=0.5, memory=9.0, power=7.0, energy_j=energy_j)
        uuids = ("GPU-fake-0000", "GPU-fake-0001")
        write_gpu_file(str(tmp_path / "node_gpus.json"), at, dict.fromkeys(uuids, figures))
        return engine.read_usage(KEY)

    def has_energy():
        gpus = [line.gpus for line in write_figures(time.time())]
        return sum(1 for row in gpus for gpu in row.values() if gpu.energy_j) >= 2 and gpus

    engine.launch(KEY, plan_of([replica], mark), ())
    gpus = wait_until(has_energy, "two lines have the energy of a GPU")
    (own,) = {uuid for row in gpus for uuid in row}
    assert own.startswith("GPU-fake-")
    assert {gpu.use for row in gpus for gpu in row.values()} == {Spread(0.5, 0.5, 0.5)}
    write_figures(time.time() - 60)
    count = len(engine.read_usage(KEY)) + 1
    wait_until(lambda: len(engine.read_usage(KEY)) > count, "lines without the server")
    assert engine.read_usage(KEY)[-1].gpus == {}
    engine.stop(KEY, order(0.0))
    ended(engine)


@pytest.mark.full
def test_a_job_runs_on_while_its_usage_cannot_be_written(root, mark, tmp_path):
    """Its supervisor can make no file longer, as on a full disk."""
    go = tmp_path / "go"
    engine = engine_at(root, usage_s=1.0)
    engine.launch(KEY, marked(mark, awaiting(go) + "print('over')\n"), ())
    until(engine, Phase.READY)
    wait_until(lambda: engine.read_usage(KEY), "the first line")
    before = resource.prlimit(supervisor(root), resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    count, began = len(engine.read_usage(KEY)), time.time()
    wait_until(lambda: time.time() - began > 3.5, "some samples have failed")
    assert len(engine.read_usage(KEY)) <= count + 1
    resource.prlimit(supervisor(root), resource.RLIMIT_FSIZE, before)
    wait_until(lambda: len(engine.read_usage(KEY)) > count + 1, "samples go on")
    go.touch()
    assert ended(engine).outcome.exit_code == 0
    assert texts(root) == ["over"]
    warnings = [text for text in texts(root, "service") if "usage of this attempt" in text]
    assert len(warnings) == 1, texts(root, "service")


@pytest.mark.full
def test_without_samples_no_file_is_written(root, mark):
    engine = engine_at(root, usage_s=0.0)
    engine.launch(KEY, marked(mark, REPORTS), ())
    ended(engine)
    assert engine.read_usage(KEY) == []
    assert not (folder(root) / "usage.jsonl").exists()


@pytest.mark.full
def test_a_supervisor_that_was_stopped_makes_a_gap(root, mark):
    engine = engine_at(root, usage_s=1.0)
    engine.launch(KEY, marked(mark, FOREVER), ())
    until(engine, Phase.READY)
    wait_until(lambda: engine.read_usage(KEY), "the first line")
    os.kill(supervisor(root), signal.SIGSTOP)
    stopped = time.time()
    wait_until(lambda: time.time() - stopped > 9, "more than three samples are missing")
    os.kill(supervisor(root), signal.SIGCONT)
    wait_until(lambda: engine.read_usage(KEY)[-1].at > stopped + 9, "a line after the gap")
    engine.stop(KEY, order(0.0))
    ended(engine)
    lines = engine.read_usage(KEY)
    starts = [line.at - line.s for line in lines]
    gaps = [start - line.at for line, start in zip(lines, starts[1:], strict=False)]
    assert max(gaps) > 8
    assert sorted(gaps)[-2] < 8


class FakeGang:
    """Replicas whose usage a test says."""

    def __init__(self, *usages):
        self.usages = list(usages)
        self.exits = {}
        self.gpus = {}
        self.report = b""
        self.measured_every_s = 0.0
        self.first = START_USAGE

    def usage(self, index):
        return self.usages[index]

    def usage_at_start(self, index):
        del index
        return self.first

    def read_report(self, index):
        assert index < len(self.usages)
        return self.report

    def read_gpus(self, now_s):
        assert now_s >= 1e9
        return self.gpus


class FakeLoop(Loop):
    """A loop whose clock a test moves."""

    clock_s = 100.0

    def now(self):
        return self.clock_s


@pytest.fixture
def attempt(tmp_path):
    attempt_folder = AttemptFolder(tmp_path / "jobs" / "1" / "1")
    attempt_folder.make()
    Path(attempt_folder.shared).mkdir()
    return attempt_folder


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The clock of the day goes on with the one of the loop."""
    FakeLoop.clock_s = 100.0
    clock = SimpleNamespace(time=lambda: 1e9 + FakeLoop.clock_s, process_time=lambda: 0.0)
    monkeypatch.setattr(watch_usage, "time", clock)
    return clock


def watched(attempt, gang, notes, *names):
    loop = FakeLoop()
    watch = UsageWatch(
        loop, attempt, names, 10.0, replicas=gang, note=lambda *words: notes.append(words)
    )
    return loop, watch


def test_a_full_disk_is_told_once_and_samples_go_on_later(attempt, monkeypatch):
    notes, gang = [], FakeGang(NOTHING)
    loop, watch = watched(attempt, gang, notes, NAME)
    is_full = True

    def write(descriptor, data, write=os.write):
        if is_full:
            write(descriptor, data[:5])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(usage_file.os, "write", write)
    for second in range(1, 4):
        is_full = second < 3
        gang.usages = [Usage(cpu_ns=second * 5 * S, memory_bytes=7)]
        FakeLoop.clock_s += 10
        loop.turn()
    ((text, severity),) = notes
    assert text.startswith("cannot write the usage of this attempt: No space left on device; the")
    assert severity == "WARNING"
    (line,) = usage_file.read_usage(attempt)
    assert line.replicas[NAME].cpu.mean == pytest.approx(0.5)
    watch.finish()
    loop.close()


def test_an_error_in_a_measurement_ends_the_samples_and_not_the_job(attempt):
    notes, gang = [], FakeGang()
    loop, watch = watched(attempt, gang, notes, NAME)
    FakeLoop.clock_s += 10
    loop.turn()
    watch.finish()
    loop.close()
    ((text, severity),) = notes
    assert text.startswith("cannot measure the usage of this attempt: IndexError: list index")
    assert severity == "WARNING"


def test_a_program_on_another_machine_that_ended_before_the_watch_has_its_rates(attempt):
    gang = FakeGang(Usage(cpu_ns=3 * S, at_s=7.0))
    gang.first = START_USAGE._replace(at_s=5.0)
    gang.exits = {0: object()}
    loop, watch = watched(attempt, gang, [], NAME)
    watch.finish()
    loop.close()
    (line,) = usage_file.read_usage(attempt)
    assert line.replicas[NAME].cpu.mean == 1.5  # of a core, by the clock of that machine


def test_replicas_that_ended_are_measured_once_more(attempt):
    gang = FakeGang(NOTHING, NOTHING)
    loop, watch = watched(attempt, gang, [], "a", "b")
    gang.exits = {0: object()}
    gang.usages = [Usage(cpu_ns=S, memory_bytes=5, tasks=1), Usage(cpu_ns=S, memory_bytes=6)]
    for _ in range(2):
        FakeLoop.clock_s += 10
        loop.turn()
        gang.usages = [Usage(cpu_ns=9 * S, memory_bytes=5), Usage(cpu_ns=3 * S, memory_bytes=6)]
    watch.finish()
    loop.close()
    first, second = usage_file.read_usage(attempt)[:2]
    assert first.replicas["a"].cpu.mean == pytest.approx(0.1)
    assert first.replicas["a"].memory is first.replicas["a"].processes is None
    assert list(second.replicas) == ["b"]
    assert second.replicas["b"].cpu.mean == pytest.approx(0.2)


def test_replicas_that_a_search_has_to_find_are_measured_every_30_seconds(attempt):
    gang = FakeGang(NOTHING)
    gang.measured_every_s = 30.0
    loop, _ = watched(attempt, gang, [], NAME)
    gang.gpus = {"GPU-1": GpuFigures(use=0.5)}
    for turn in range(1, 7):
        gang.usages = [Usage(cpu_ns=turn * S)]
        FakeLoop.clock_s += 10
        loop.turn()
    loop.close()
    lines = usage_file.read_usage(attempt)
    assert [NAME in line.replicas for line in lines] == [False, False, True] * 2
    assert [line.replicas[NAME].cpu.mean for line in lines if line.replicas] == [0.1, 0.1]
    assert all(line.gpus["GPU-1"].use == Spread(0.5, 0.5, 0.5) for line in lines)


@pytest.mark.parametrize(("cost_s", "seconds"), [(0.004, 10), (0.02, 20), (9.0, 60)])
def test_replicas_with_many_processes_are_measured_less_often(attempt, clock, cost_s, seconds):
    """Two replicas may cost a thousandth of a core."""
    clock.process_time = itertools.count(0, cost_s).__next__
    gang = FakeGang(NOTHING, NOTHING)
    loop, _ = watched(attempt, gang, [], "a", "b")
    for turn in range(1, 13):
        gang.usages = [Usage(cpu_ns=turn * S) for _ in "ab"]
        FakeLoop.clock_s += 10
        loop.turn()
    loop.close()
    times = [line.at for line in usage_file.read_usage(attempt) if line.replicas]
    pauses = [later - at for at, later in itertools.pairwise(times)]
    assert set(pauses) == {seconds}


def write_big(path):
    with path.open("wb") as file:
        file.truncate(1 << 30)


HOSTILE = {
    "a link": lambda path: path.symlink_to("/etc/passwd"),
    "a link to a folder": lambda path: path.symlink_to("/proc"),
    "a pipe": os.mkfifo,
    "a folder": lambda path: path.mkdir(),
    "a gigabyte": write_big,
    "empty": lambda path: path.write_text(""),
    "missing": lambda _: None,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_progress_file_that_is_none_is_not_read(attempt, tmp_path, make):
    make(tmp_path / "jobs" / "1" / "1" / "progress" / NAME)
    assert parse_progress(attempt.read_report(NAME)) == ReportedProgress()


@pytest.mark.parametrize(
    ("text", "progress"),
    [
        ('{"step": 1e300, "loss": NaN, "a": Infinity, "b": true, "c": "1"}', ReportedProgress()),
        ('{"step": -1, "total": 1.5, "loss": 2}', ReportedProgress(values={"loss": 2.0})),
        ('{"step": 3.0, "total": 10}', ReportedProgress(3, 10)),
        ('{"step": 1' + "0" * 60_000 + "}", ReportedProgress()),
        ("[" * 60_000, ReportedProgress()),
        ('{"step": 4, "to', ReportedProgress()),
        ("[1]", ReportedProgress()),
        ('{"a\\nb": 1, "' + "x" * 129 + '": 2, "ok": 3}', ReportedProgress(values={"ok": 3.0})),
    ],
    ids=range(8),
)
def test_what_a_progress_file_may_say(attempt, tmp_path, text, progress):
    path = tmp_path / "jobs" / "1" / "1" / "progress" / NAME
    path.write_text(text)
    assert parse_progress(attempt.read_report(NAME)) == progress


def test_a_report_that_changes_while_it_is_read_is_whole_or_none(attempt):
    path = Path(attempt.progress(NAME))
    reports = [{"step": 1}, {"step": 2, "loss": 0.5, "note": "x" * 10_000}]
    is_over = threading.Event()

    def rewrite():
        for report in itertools.cycle(reports):
            if is_over.is_set():
                return
            path.write_text(json.dumps(report))

    writer = threading.Thread(target=rewrite)
    writer.start()
    read = [parse_progress(attempt.read_report(NAME)) for _ in range(500)]
    is_over.set()
    writer.join()
    whole = (ReportedProgress(1), ReportedProgress(2, None, {"loss": 0.5}))
    assert all(report in (ReportedProgress(), *whole) for report in read)


def test_a_report_counts_once(attempt):
    gang = FakeGang(NOTHING)
    loop, watch = watched(attempt, gang, [], NAME)
    for report in (b'{"step": 5}', b'{"step": 5}', b'{"step": 7, "a": 1}', b'{"st'):
        gang.report = report
        FakeLoop.clock_s += 10
        loop.turn()
    watch.finish()
    loop.close()
    replicas = [line.replicas.get(NAME) for line in usage_file.read_usage(attempt)]
    assert [replica.step for replica in replicas if replica] == [(5, 5), (7, 7)]


def test_a_folder_of_progress_files_that_leads_elsewhere_is_not_entered(attempt, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / NAME).write_text('{"step": 5}')
    Path(attempt.shared).rmdir()
    Path(attempt.shared).symlink_to(elsewhere)
    assert attempt.read_report(NAME) == b""


def test_what_the_trainer_library_reports_is_read(attempt, monkeypatch):
    monkeypatch.setenv("TRAINSHED_PROGRESS_FILE", attempt.progress(NAME))
    values = {"loss": Fraction(1, 2), "saving_s": 1.5, "phase": "warm-up", "bad": math.nan}
    assert progress(step=Fraction(3), total=9, **values)
    expected = ReportedProgress(3, 9, {"loss": 0.5, "saving_s": 1.5})
    assert parse_progress(attempt.read_report(NAME)) == expected
