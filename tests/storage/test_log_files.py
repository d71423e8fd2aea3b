"""Logs are read while they are written: every whole line, once, in order, from anywhere."""

import os
import resource
import shutil
import subprocess
import sys
import time
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.model.log_line import LOG_FOLDER, LogLine, encode, segment_name
from trainshed.storage.log_files import JobLog
from trainshed.storage.log_segments import Span

UID = 7
DEADLINE_S = 120.0


def line(stamp_ns, task="a", text="x"):
    return LogLine(stamp_ns=stamp_ns, task_name=task, text=text)


def write(root, lines, *, attempt=1, number=1, torn=b""):
    folder = root / str(UID) / str(attempt) / LOG_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / segment_name(number)
    path.write_bytes(b"".join(map(encode, lines)) + torn)
    return path


def lines_of(log, *, limit, after_ns=None, from_ns=None, **span):
    first = max(from_ns or 0, 0 if after_ns is None else after_ns + 1)
    return list(islice(log.read(UID, Span(from_ns=first, **span)), limit))


def size_of(log):
    return sum(path.stat().st_size for path in log.root.glob(f"{UID}/*/{LOG_FOLDER}/*"))


@st.composite
def logs(draw):
    """Lines with ascending stamps, cut into segments of attempts; some end torn, some are empty."""
    count = draw(st.integers(0, 30))
    steps = draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))
    stamps = [sum(steps[: i + 1]) for i in range(count)]
    tasks = st.sampled_from(["a", 'b"', "service"])
    texts = st.sampled_from(["x", ' "a", ', "é\0\n", '[5, "a", "', ""])
    lines = [line(stamp, draw(tasks), draw(texts)) for stamp in stamps]
    cuts = sorted(draw(st.lists(st.integers(0, count), max_size=5)))
    parts = [lines[a:b] for a, b in pairwise([0, *cuts, count])]
    torn = st.sampled_from([b"", b"[", b'[99, "a", "INFO", "std'])
    return [(part, draw(torn)) for part in parts]


@given(logs(), st.data())
@settings(max_examples=60)
def test_whatever_was_damaged_all_other_lines_are_found(tmp_path_factory, parts, data):
    root, left = tmp_path_factory.mktemp("jobs"), []
    noise = st.sampled_from([b"", b"[", b"9", b"\0", b"\xfe" * 40, b"[1", b'[5, "a', b"{}", b", "])
    for attempt, (part, torn) in enumerate(parts, 1):
        path = write(root, part, attempt=attempt, torn=torn)
        bytes_of = path.read_bytes().splitlines(keepends=True)
        for place, entry in enumerate(part):
            if data.draw(st.booleans()):
                bytes_of[place] = data.draw(noise) + b"\n"
            else:
                left.append(entry)
        path.write_bytes(b"".join(bytes_of))
    log = JobLog(root)
    for first in data.draw(st.lists(st.integers(0, 130), min_size=5, max_size=5)):
        expected = [entry for entry in left if entry.stamp_ns >= first]
        assert lines_of(log, from_ns=first, limit=100) == expected
        newest = log.read(UID, Span(from_ns=first, newest_first=True))
        assert list(newest) == expected[::-1]


@given(logs(), st.data())
@settings(max_examples=60)
def test_any_span_is_what_a_plain_search_would_find(tmp_path_factory, parts, data):
    root = tmp_path_factory.mktemp("jobs")
    for attempt, (part, torn) in enumerate(parts, 1):
        write(root, part[: len(part) // 2], attempt=attempt, number=1)
        write(root, part[len(part) // 2 :], attempt=attempt, number=2, torn=torn)
    log, everything = JobLog(root), [entry for part, _ in parts for entry in part]
    stamps = st.none() | st.integers(0, 130)
    for _ in range(5):
        after, first, before = data.draw(stamps), data.draw(stamps), data.draw(stamps)
        task = data.draw(st.sampled_from([None, "a", 'b"', "nobody"]))
        limit = data.draw(st.integers(0, 31))
        expected = [
            entry
            for entry in everything
            if (after is None or entry.stamp_ns > after)
            and (first is None or entry.stamp_ns >= first)
            and (before is None or entry.stamp_ns < before)
            and task in (None, entry.task_name)
        ]
        span = {"after_ns": after, "from_ns": first, "before_ns": before, "task": task}
        assert lines_of(log, limit=limit, **span) == expected[:limit]
        of_task = [entry for entry in everything if task in (None, entry.task_name)]
        assert log.tail(UID, limit, task=task) == of_task[max(0, len(of_task) - limit) :]
        newest_first = Span(from_ns=first or 0, before_ns=before, task=task, newest_first=True)
        if after is None:
            assert list(log.read(UID, newest_first)) == expected[::-1]


def test_a_job_without_a_log_has_no_lines(tmp_path):
    log = JobLog(tmp_path / "nothing")
    assert (lines_of(log, limit=5), size_of(log), list(log.uids())) == ([], 0, [])


def test_a_torn_line_appears_when_it_is_whole(tmp_path):
    log, first, second = JobLog(tmp_path), line(1), line(2, text="whole")
    data = encode(second)
    path = write(tmp_path, [first])
    for end in range(len(data)):
        write(tmp_path, [first], torn=data[:end])
        assert lines_of(log, limit=5) == [first]
    with path.open("ab") as file:
        file.write(data[len(data) - 1 :])
    assert lines_of(log, limit=5) == [first, second]


CUT_SHORT = """
import os, sys
from pathlib import Path
from trainshed.storage.log_files import JobLog
from trainshed.storage.log_segments import Span
root = Path(sys.argv[1])
lines = JobLog(root).read(7, Span())
next(lines)
[segment] = root.glob("7/1/log/*")
os.truncate(segment, 0)
print(len(list(lines)) <= 50_000)
"""


def test_a_log_that_a_program_cuts_short_meanwhile_kills_nobody(tmp_path):
    write(tmp_path, [line(stamp, text="x" * 100) for stamp in range(1, 50_000)])
    done = subprocess.run(
        [sys.executable, "-c", CUT_SHORT, tmp_path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "True\n")


WRITER = """
import sys
from pathlib import Path
from trainshed.engines.supervise.record.segments import SegmentWriter
folder = Path(sys.argv[1]); folder.parent.mkdir(parents=True)
sink = SegmentWriter(folder, segment_bytes_max=2000)
for i in range(5000):
    sink.line("a", str(i), severity="INFO", stream="stdout")
    if i % 7 == 0:
        sink.flush()
assert sink.sync()
sink.close()
"""


def test_readers_that_come_and_go_miss_nothing_while_it_is_written_and_rotated(tmp_path):
    folder = tmp_path / str(UID) / "1" / LOG_FOLDER
    entries, deadline = [], time.monotonic() + DEADLINE_S
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)])
    with writer:
        over = False
        while not over:
            over = writer.poll() is not None
            last = entries[-1].stamp_ns if entries else None
            entries += lines_of(JobLog(tmp_path), after_ns=last, limit=len(entries) % 997 + 1)
            over = over and len(entries) >= 5000
            assert time.monotonic() < deadline
    assert [int(entry.text) for entry in entries] == list(range(5000))
    assert all(a.stamp_ns < b.stamp_ns for a, b in pairwise(entries))
    assert len(list(folder.iterdir())) > 10


def test_pruning_removes_the_oldest_and_never_the_newest_of_an_attempt(tmp_path, monkeypatch):
    paths = [
        write(tmp_path, [line(10 * a + n, text="x" * 1000)], attempt=a, number=n)
        for a in (1, 2)
        for n in (1, 2, 3)
    ]
    log = JobLog(tmp_path)
    one = paths[0].stat().st_size
    assert size_of(log) == 6 * one
    assert log.prune(UID, 6 * one) == 0
    assert log.prune(UID, 4 * one) == 2 * one
    assert [entry.stamp_ns for entry in lines_of(log, limit=9)] == [13, 21, 22, 23]
    log.prune(UID, 0)
    assert [entry.stamp_ns for entry in lines_of(log, limit=9)] == [13, 23]
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # the disk refuses
        assert log.remove(UID) == 0
    assert log.remove(UID) == 2 * one
    assert size_of(log) == 0


def test_a_segment_that_is_removed_while_it_is_read_is_read_to_its_end(tmp_path):
    first = write(tmp_path, [line(1), line(2)], number=1)
    second = write(tmp_path, [line(3)], number=2)
    reading = JobLog(tmp_path).read(UID, Span())
    assert next(reading).stamp_ns == 1
    first.unlink()
    second.unlink()
    assert [entry.stamp_ns for entry in reading] == [2]


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_poll_at_the_end_of_a_long_log_reads_little_of_it(tmp_path, newest_first):
    """Seen by what the process has read: pages of the whole file would be resident otherwise."""
    path = write(tmp_path, [line(n, text="x" * 100) for n in range(100_000)])
    os.sync()
    span = Span(from_ns=99_990, newest_first=newest_first)
    touched = _pages_touched(lambda: list(JobLog(tmp_path).read(UID, span)))
    assert touched < path.stat().st_size // 4096 // 10


def _pages_touched(read):
    before = resource.getrusage(resource.RUSAGE_SELF)
    assert len(read()) == 10
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt


def test_attempts_may_lie_in_folders_of_their_own(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    for root, attempt, stamp in ((here, 1, 5), (there, 2, 9), (here, 3, 12)):
        folder = root / str(UID) / str(attempt) / "log"
        folder.mkdir(parents=True)
        (folder / segment_name(1)).write_bytes(encode(line(stamp)))
    log = JobLog(here, (there, tmp_path / "away"))
    assert [entry.stamp_ns for entry in log.read(UID, Span())] == [5, 9, 12]
    assert list(log.uids()) == [UID]
    log.remove(UID)
    assert list(log.read(UID, Span())) == []
