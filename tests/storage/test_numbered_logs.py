"""Lines are found by number as a plain reader counts them, whatever the segments look like."""

import os
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.model.log_line import LOG_FOLDER, SERVICE_TASK, LogLine, encode, segment_name
from trainshed.storage import log_segments
from trainshed.storage.line_filters import LineFilter
from trainshed.storage.log_files import JobLog
from trainshed.storage.log_index import LineIndex
from trainshed.storage.log_segments import Span
from trainshed.storage.numbered_log import ALL_LINES, NumberedLog

UID = 7
SEVERITIES = ("DEFAULT", "INFO", "WARNING", "ERROR")
#: Bytes that no writer writes as a line.
NOISE = (
    b"",
    b"[",
    b"9",
    b"\0",
    b"\xfe" * 40,
    b"[1",
    b'[5, "a',
    b"{}",
    b", ",
    b"[" * 5000,
    b"[9],[9]",
)


def line(stamp_ns, task="a", text="x", severity="INFO"):
    return LogLine(stamp_ns=stamp_ns, task_name=task, text=text, severity=severity)


def write(root, attempt, number, data, uid=UID):
    folder = root / str(uid) / str(attempt) / LOG_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / segment_name(number)
    path.write_bytes(data)
    return path


def open_log(root, index=None, line_filter=ALL_LINES, attempt=None, also=()):
    log = NumberedLog(JobLog(root, also).segments(UID), index or LineIndex(), line_filter, attempt)
    assert log.count_lines(lambda: False)
    return log


def numbers(lines):
    return [one.number for one in lines]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """So that a log of a few lines has many pieces and marks."""
    monkeypatch.setattr(log_segments, "PIECE_BYTES", 128)


@st.composite
def logs(draw):
    """Segments of attempts: rows of (line or None if damaged, bytes), and a torn end of each."""
    stamp, attempts = 0, []
    for _ in range(draw(st.integers(0, 3))):
        segments = []
        for _ in range(draw(st.integers(1, 3))):
            rows = []
            for _ in range(draw(st.integers(0, 12))):
                stamp += draw(st.integers(1, 4))
                one = line(
                    stamp,
                    draw(st.sampled_from(["a", 'b"', "w-1"])),
                    draw(
                        st.sampled_from(
                            ["x", ' "a", ', "é\0\n", '[5, "a", "', "", "\udc80", "y" * 99]
                        )
                    ),
                    draw(st.sampled_from(SEVERITIES)),
                )
                is_damaged = draw(st.integers(0, 9)) == 0
                data = draw(st.sampled_from(NOISE)) + b"\n" if is_damaged else encode(one)
                rows.append((None if is_damaged else one, data))
            if not any(one for one, _ in rows):
                rows = []  # a file without a whole line is no segment
            segments.append((rows, draw(st.sampled_from([b"", b"[", b'[99, "a", "INFO"']))))
        attempts.append(segments)
    return attempts


def lay(root, attempts):
    """Write the segments; return (number, attempt, line or None) of every line."""
    all_rows = []
    for attempt, segments in enumerate(attempts, start=1):
        for number, (rows, torn) in enumerate(segments, start=1):
            write(root, attempt, number, b"".join(data for _, data in rows) + torn)
            all_rows += [(attempt, one) for one, _ in rows]
    return [(number, attempt, one) for number, (attempt, one) in enumerate(all_rows, start=1)]


@given(logs(), st.data())
@settings(max_examples=80, deadline=None)
def test_lines_by_number_stamp_and_share_agree_with_a_plain_reader(
    tmp_path_factory, attempts, data
):
    root = tmp_path_factory.mktemp("jobs")
    rows = lay(root, attempts)
    plain = list(JobLog(root).read(UID, Span()))
    assert plain == [one for _, _, one in rows if one]
    task = data.draw(st.sampled_from([None, "a", 'b"', "w-1", "missing"]))
    severity = data.draw(st.sampled_from(SEVERITIES))
    attempt = data.draw(st.sampled_from([None, 1, 2, 9]))
    line_filter = LineFilter(task, severity)
    chosen = [
        (number, one)
        for number, of_attempt, one in rows
        if attempt in (None, of_attempt)
        and (line_filter.takes(one.task_name, one.severity) if one else line_filter.takes_all)
    ]
    log = open_log(root, line_filter=line_filter, attempt=attempt)
    assert (log.line_count, log.total) == (len(rows), len(chosen))
    position = data.draw(st.integers(0, len(chosen) + 2))
    read = list(log.read(position))
    assert numbers(read) == [number for number, _ in chosen[position:]]
    for got, (_, expected) in zip(read, chosen[position:], strict=True):
        assert got.line == expected or (expected is None and got.line.task_name == SERVICE_TASK)
    number = data.draw(st.integers(1, len(rows) + 2))
    assert log.position_of(number) == sum(n < number for n, _ in chosen)
    stamp = data.draw(st.integers(0, 200))
    behind = log.position_at(stamp)
    assert all(one is None or one.stamp_ns < stamp for _, one in chosen[:behind])
    assert all(one is None or one.stamp_ns >= stamp for _, one in chosen[behind:])
    assert [tuple(a) for a in log.attempts if a.lines] == [
        (attempt, of_it[0], len(of_it))
        for attempt in dict.fromkeys(a for _, a, _ in rows)
        if (of_it := [n for n, a, _ in rows if a == attempt])
    ]
    pieces = list(log.pieces(number)) if attempt is None else []
    if pieces:
        assert pieces[0].first <= number
        shares = [piece.share for piece in pieces]
        assert sorted(shares) == shares
        assert 0 < shares[-1] <= 1
        text = b"".join(piece.data for piece in pieces).splitlines(keepends=True)
        assert len(text) == len(rows) - pieces[0].first + 1


@given(logs())
@settings(max_examples=20, deadline=None)
def test_an_index_that_is_continued_equals_a_new_one(tmp_path_factory, attempts):
    root, index = tmp_path_factory.mktemp("jobs"), LineIndex()
    line_filter = LineFilter("a")
    for attempt, segments in enumerate(attempts, start=1):
        for number, (rows, torn) in enumerate(segments, start=1):
            for end in range(len(rows) + 1):
                last = torn if end == len(rows) else b""
                write(root, attempt, number, b"".join(data for _, data in rows[:end]) + last)
                grown = open_log(root, index, line_filter)
                fresh = open_log(root, None, line_filter)
                assert (grown.line_count, grown.total) == (fresh.line_count, fresh.total)
                assert list(grown.read(0)) == list(fresh.read(0))


def test_marks_of_a_log_that_grows_by_single_lines_stay_few(tmp_path):
    index, data = LineIndex(), b""
    for stamp in range(1, 200):
        data += encode(line(stamp))
        write(tmp_path, 1, 1, data)
        log = open_log(tmp_path, index)
    [segment] = JobLog(tmp_path).segments(UID)
    marks = index.get(segment, ALL_LINES, len(data))
    assert log.total == marks.count == 199
    assert len(marks.starts) <= len(data) // 128 + 1


def test_the_index_forgets_what_was_used_least_lately(tmp_path):
    for number in range(1, 6):
        write(tmp_path, 1, number, encode(line(number)))
    index = LineIndex(segments_max=2)
    log = open_log(tmp_path, index)
    assert numbers(log.read(0)) == [1, 2, 3, 4, 5]
    assert len(index._marks) == 2


def test_numbers_shift_when_old_segments_are_removed_and_stamps_stay(tmp_path):
    for number in range(1, 4):
        write(tmp_path, 1, number, encode(line(10 * number)) + encode(line(10 * number + 1)))
    index = LineIndex()
    before = open_log(tmp_path, index)
    assert before.pruned_before_ns is None
    assert before.position_at(30) == 4
    JobLog(tmp_path).prune(UID, 0)
    after = open_log(tmp_path, index)
    assert (after.total, after.position_at(30), after.pruned_before_ns) == (2, 0, 30)
    assert [one.number for one in before.read(0)] == [5, 6]  # opened before the removal


def test_a_segment_that_is_removed_cut_or_replaced_meanwhile_is_no_error(tmp_path):
    one, two = (
        write(tmp_path, 1, n, b"".join(encode(line(100 * n + i)) for i in range(50)))
        for n in (1, 2)
    )
    log = open_log(tmp_path)
    os.truncate(one, 40)
    assert len(list(log.read(0))) <= 100
    one.unlink()
    one.symlink_to("/etc/passwd")
    two.unlink()
    two.mkdir()
    assert list(log.read(0)) == []
    assert log.position_of(60) == 50
    assert log.position_at(150) in (0, 50)
    assert list(log.pieces()) == []
    assert open_log(tmp_path).total == 0


def test_a_job_without_a_log_has_no_lines(tmp_path):
    log = open_log(tmp_path)
    assert (log.total, log.position_of(1), log.position_at(5), log.attempts) == (0, 0, 0, [])
    assert list(log.read(0)) == list(log.pieces()) == []


def test_while_not_all_is_counted_numbers_are_estimates_and_the_next_call_goes_on(tmp_path):
    for number in range(1, 9):
        data = b"".join(encode(line(1000 * number + i)) for i in range(100))
        write(tmp_path, 1, number, data)
    index, log = LineIndex(), None
    for _ in range(8):
        log = NumberedLog(JobLog(tmp_path).segments(UID), index)
        late = iter([False, True])
        is_exact = log.count_lines(lambda: next(late))  # noqa: B023 - called at once
        assert abs(log.total - 800) <= 8
        assert [one.line.stamp_ns for one in islice(log.read(log.total - 3), 3)][-1] == 8099
        if is_exact:
            break
    assert log.is_exact
    assert log.total == 800


def test_long_lines_zero_bytes_and_lone_surrogates_are_lines_like_others(tmp_path):
    texts = [
        "a" * 10_000_000,
        "\0\0",
        "\udc80\ud800",
        "\x1b[31mred",
        "\r 50 %\r 60 %",
        "\u202egnp.exe",
    ]
    write(tmp_path, 1, 1, b"".join(encode(line(n, text=t)) for n, t in enumerate(texts, start=1)))
    log = open_log(tmp_path)
    assert [one.line.text for one in log.read(0)] == texts
    assert [one.number for one in log.read(3)] == [4, 5, 6]


def test_attempts_in_folders_of_their_own_are_numbered_by_their_stamps(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    for root, attempt, stamp in ((here, 1, 5), (there, 2, 9), (here, 3, 12)):
        write(root, attempt, 1, encode(line(stamp)) + encode(line(stamp + 1)))
    log = open_log(here, also=(there,))
    assert [(one.number, one.line.stamp_ns) for one in log.read(0)] == [
        (1, 5),
        (2, 6),
        (3, 9),
        (4, 10),
        (5, 12),
        (6, 13),
    ]
    assert [tuple(one) for one in log.attempts] == [(1, 1, 2), (2, 3, 2), (3, 5, 2)]
    segments = JobLog(here, (there,)).segments(UID)
    there.rename(tmp_path / "gone")
    assert NumberedLog(segments, LineIndex()).count_lines(lambda: False)
    assert open_log(here, also=(there,)).total == 4
