"""Which reports of a trial count, and the file of its supervisor."""

import math
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from engines.events import event, record, simple
from engines.support import wait_until
from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.observe import measured
from trainshed.engines.supervise.record.reports import Reported, ReportLog, decode
from trainshed.engines.supervise.watch import folder_events, watch_metrics
from trainshed.engines.supervise.watch.folder_events import FolderEvents
from trainshed.engines.supervise.watch.hypertune_file import MetricFile
from trainshed.engines.supervise.watch.watch_metrics import Choice, MetricWatch, outermost
from trainshed.model.attempt import MetricsPlan, Report

# which of them count


def reported(tag, step, value=0.0):
    return Reported(tag, value, step, None)


def test_only_wanted_metrics_count():
    both = [reported("loss", 1), reported("lr", 1)]
    assert Choice(["loss"]).of_file(both) == both[:1]
    assert Choice(["loss"]).of_events(both, evaluates=False) == both[:1]
    assert Choice([]).of_file(both) == both
    assert Choice([]).of_events(both, evaluates=False) == []


def test_what_comes_by_both_ways_counts_once():
    choice = Choice(["loss"])
    choice.of_file([reported("loss", 1)])
    assert choice.of_events([reported("loss", 1), reported("loss", 2)], evaluates=True) == [
        reported("loss", 2)
    ]


def test_a_metric_of_an_evaluation_is_not_the_one_of_the_training():
    choice = Choice(["loss", "acc"])
    assert choice.of_events([reported("loss", 1)], evaluates=False)
    assert choice.of_events([reported("loss", 1)], evaluates=True)
    assert not choice.of_events([reported("loss", 2)], evaluates=False)
    assert choice.of_events([reported("acc", 2)], evaluates=False)


def test_steps_that_are_remembered_do_not_fill_the_memory():
    choice = Choice(["loss"])
    for step in range(3 * Choice.STEPS_MAX):
        choice.of_file([reported("loss", step)])
    assert len(choice._by_file) == Choice.STEPS_MAX


def test_a_folder_within_another_is_read_once():
    assert outermost(["/a/b/", "/a/b/logs", "/a/bc", "/a/b", "/d"]) == ["/a/b", "/a/bc", "/d"]
    assert outermost(["/", "/a"]) == ["/"]


# the file of the supervisor


def test_a_full_disk_tears_no_line_and_doubles_none(tmp_path, monkeypatch):
    path = tmp_path / "reports.jsonl"
    log = ReportLog(str(path))
    real, room = os.write, [0, 7, 7, 1000]

    def write(descriptor, data):
        space = room.pop(0)
        if not space:
            raise OSError(28, "No space left on device")
        return real(descriptor, bytes(data[:space]))

    reports = [Report("loss", float(i), i, 0.5) for i in range(5)]
    log.add(reports)
    with monkeypatch.context() as full:
        full.setattr(os, "write", write)
        assert not log.write()
        assert log.waiting_bytes
        room[2:2] = [0]
        assert not log.write()
    log.add([Report("lr", float("nan"), 9, 1.0)])
    assert log.write(durably=True)
    *written, last = map(decode, path.read_bytes().splitlines())
    assert written == reports
    assert last.tag == "lr"
    assert math.isnan(last.value)


# the watch


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


def watched(loop, tmp_path, **metrics):
    attempt = AttemptFolder(tmp_path / "attempt")
    attempt.make()
    return MetricWatch(loop, attempt, MetricsPlan(tags=("loss",), **metrics)), attempt


def turn(loop):
    loop.after(0.01, lambda: None)
    loop.turn()


def finished(loop, watch):
    wait_until(lambda: watch.finish() or turn(loop), "everything is read")


@pytest.mark.parametrize("has_inotify", [True, False])
def test_a_file_is_read_while_it_is_written_also_without_inotify(
    loop, tmp_path, monkeypatch, has_inotify
):
    if not has_inotify:
        monkeypatch.setattr(folder_events, "ctypes", SimpleNamespace())
    path = tmp_path / "deep" / "output.metrics"
    watch, attempt = watched(loop, tmp_path, files=(str(path),))
    assert (watch._events.fileno() >= 0) is has_inotify
    path.write_text('{"loss": "0.5", "global_step": "3"}\n')
    wait_until(lambda: turn(loop) or measured(attempt, 0).reports, "the report is told")
    finished(loop, watch)
    assert [(r.tag, r.value, r.step) for r in measured(attempt, 0).reports] == [("loss", 0.5, 3)]


def test_a_mistake_of_ours_ends_nobody_s_job(loop, tmp_path, monkeypatch):
    watch, attempt = watched(loop, tmp_path, files=(str(tmp_path / "x" / "output.metrics"),))
    monkeypatch.setattr(MetricFile, "read", lambda _self: 1 // 0)
    finished(loop, watch)
    assert "reading the reports failed: ZeroDivisionError" in measured(attempt, 0).found


def test_an_end_does_not_wait_for_ever(loop, tmp_path, monkeypatch):
    monkeypatch.setattr(watch_metrics, "LAST_S_MAX", 0.0)
    monkeypatch.setattr(watch_metrics, "_AT_A_TIME_S", 0.0)
    watch, attempt = watched(loop, tmp_path, summaries=(str(tmp_path / "logs"),))
    (tmp_path / "logs").mkdir()
    many = b"".join(record(event(simple("loss", 1.0), step=i)) for i in range(100))
    (tmp_path / "logs" / "a.tfevents").write_bytes(many)
    finished(loop, watch)
    assert 0 < len(measured(attempt, 0).reports) < 100
    assert "not all event files were read within" in measured(attempt, 0).found


def test_more_than_the_kernel_can_tell_may_be_any_file(tmp_path):
    events = FolderEvents([str(tmp_path)])
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with (tmp_path / "file-0").open("wb", 0) as one, (tmp_path / "file-1").open("wb", 0) as other:
        for _ in range(limit // 2 + 1):
            one.write(b"x")
            other.write(b"x")
    changes = []
    while (names := events.changed()) != set():
        changes.append(names)
    events.close()
    assert changes[0] == {"file-0", "file-1"}
    assert changes[-1] is None
