"""A window shows any part of a log by number, by stamp, by share or the end; each line once."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.log_edge import line, log_edge
from store.builders import add_study, advance, go, trial, trial_job
from trainshed.model.status import JobState
from trainshed.service.jobs.story import Stories
from trainshed.service.log import log_rows, numbered, stream, windows
from trainshed.storage import log_segments
from trainshed.store.base import StoreFault
from trainshed.store.records.studies import NewTrial


@pytest.fixture(scope="module")
def edge(tmp_path_factory):
    with log_edge(tmp_path_factory.mktemp("edge")) as edge:
        yield edge


@pytest.fixture(scope="module")
def job(edge):
    return write_job(edge)


def write_job(edge, job_id="j"):
    """A job with ten lines in two attempts and three segments; every third is of ``w-1``."""
    record = edge.add_job(job_id)
    lines = [line(10 * n, f"text {n}", f"w-{int(n % 3 == 0)}") for n in range(1, 11)]
    lines[6] = line(70, "broken", "w-0", "ERROR")
    edge.write(record.uid, lines[:4])
    edge.write(record.uid, lines[4:6], segment=2)
    edge.write(record.uid, lines[6:], attempt=2, torn=b'[999, "w-0"')
    return record


def numbers(window):
    return [row[0] for row in window["lines"] if row[0]]


def lines_of(window):
    return [row for row in window["lines"] if row[0]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"line": 3, "count": 2}, [3, 4]),
        ({"line": 10, "count": 2}, [10]),
        ({"line": 11}, []),
        ({"line": 5_000_000_000}, []),
        ({"row": 2, "count": 3}, [2, 3, 4]),
        ({"stamp": 41, "count": 2}, [5, 6]),
        ({"stamp": 0, "count": 1}, [1]),
        ({"stamp": 10**18}, []),
        ({"share": 0.5, "count": 2}, [6, 7]),
        ({"share": 1}, []),
        ({"share": 1, "before": 2}, [9, 10]),
        ({"end": True, "count": 3}, [8, 9, 10]),
        ({"count": 3}, [8, 9, 10]),
        ({"line": 5, "before": 2, "count": 4}, [3, 4, 5, 6]),
        ({"line": 5, "before": 9, "count": 20}, list(range(1, 11))),
        ({"task": "w-1", "count": 2}, [6, 9]),
        ({"task": "w-1", "line": 4}, [6, 9]),
        ({"task": "w-1", "row": 2}, [6, 9]),
        ({"task": "w-1", "line": 6, "before": 1, "count": 2}, [3, 6]),
        ({"severity": "WARNING"}, [7]),
        ({"severity": "ERROR", "task": "w-1"}, []),
        ({"attempt": 2, "count": 2, "line": 1}, [7, 8]),
        ({"attempt": 1, "count": 2}, [5, 6]),
        ({"attempt": 9}, []),
        ({"task": "service"}, []),
    ],
)
def test_a_window_has_the_lines_of_its_place(edge, job, query, expected):
    window = edge.window(job.job.job_id, **query)
    assert numbers(window) == expected
    assert window["exact"] is True
    assert window["attempts"] == [
        {"attempt": 1, "first": 1, "lines": 6},
        {"attempt": 2, "first": 7, "lines": 4},
    ]
    assert "prunedBefore" not in window


def test_a_window_says_how_many_lines_match_and_which_is_its_first(edge, job):
    window = edge.window(job.job.job_id, line=4, task="w-0", count=2)
    assert (window["total"], window["first"]) == (7, 3)
    assert window["lines"] == [
        [4, "40", "w-0", "INFO", "text 4", 0],
        [5, "50", "w-0", "INFO", "text 5", 0],
    ]
    assert window["tasks"] == ["w-0"]
    assert edge.window(job.job.job_id, line=99)["first"] == 11


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ({"line": 0}, "line"),
        ({"line": -1}, "line"),
        ({"line": 1 << 64}, "line"),
        ({"row": 0}, "row"),
        ({"share": 1.01}, "share"),
        ({"share": "nan"}, "share"),
        ({"stamp": -1}, "stamp"),
        ({"stamp": "yesterday"}, "stamp"),
        ({"count": 0}, "count"),
        ({"count": 2001}, "count"),
        ({"line": 1, "share": 0.5}, "one position"),
        ({"line": 1, "end": True}, "end=true"),
        ({"severity": "LOUD"}, "DEFAULT, DEBUG, INFO"),
        ({"attempt": 0}, "attempt"),
        ({"task": "t" * 300}, "task"),
    ],
)
def test_a_place_that_cannot_be_is_refused_by_its_name(edge, job, query, word):
    assert word in edge.refusal(f"{job.job.job_id}/logs:window", **query)


def test_a_job_that_is_not_there_and_a_foreign_one_have_no_window(edge, job):
    assert "no job other" in edge.refusal("other/logs:window", 404)
    path = f"{job.job.job_id}/logs:window"
    assert edge.get(path, caller="other").status_code == 403
    assert "no trials" in edge.refusal(path, 404, trial="1")


@pytest.mark.parametrize("verb", ["window", "search", "download"])
def test_without_the_database_a_call_says_so(edge, job, monkeypatch, verb):
    def away(*_):
        raise StoreFault("the database does not answer")

    monkeypatch.setattr(Stories, "find", away)
    answer = edge.get(f"{job.job.job_id}/logs:{verb}", q="x")
    assert answer.status_code == 503
    assert "Traceback" not in answer.text


def test_the_log_of_a_job_that_was_forgotten_meanwhile_is_missing(edge):
    record = edge.add_job()
    go(edge.store, record.uid, JobState.CANCELLED)
    edge.store.delete_job(record.uid)
    for verb in ("window", "search", "download"):
        path = f"{record.job.job_id}/logs:{verb}"
        assert f"no job {record.job.job_id}" in edge.refusal(path, 404, q="x")


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_sentences_of_the_service_stand_once_between_lines_of_windows(edge, count):
    record = edge.add_job()
    edge.say(record.uid, "placed", "started", "ended")
    created, first, second, third = [e.stamp_ns for e in edge.store.events(record.uid)]
    stamps = [created - 5, created + 1, second - 1, second, third + 2, third + 3]
    edge.write(record.uid, [line(stamp, "line") for stamp in stamps])
    rows = []
    for start in range(1, 7, count):
        rows += edge.window(record.job.job_id, line=start, count=count)["lines"]
    sentences = [(created, None), (first, None), (second, None), (third, None)]
    expected = [*sentences, *((stamp, n) for n, stamp in enumerate(stamps, start=1))]
    expected.sort(key=lambda row: (row[0], row[1] is not None))
    assert [(int(row[1]), row[0]) for row in rows] == expected
    assert {row[2] for row in rows if row[0] is None} == {"service"}


def test_sentences_are_a_task_of_their_own(edge):
    record = edge.add_job()
    edge.write(record.uid, [line(1)])
    edge.say(record.uid, "placed", "started")
    of_service = edge.window(record.job.job_id, task="service")
    assert [row[4] for row in of_service["lines"]][-2:] == ["placed", "started"]
    assert (of_service["total"], of_service["tasks"]) == (0, [])
    of_replica = edge.window(record.job.job_id, task="w-0")["lines"]
    assert [row[2] for row in of_replica] == ["w-0"]


def test_a_job_without_lines_shows_its_sentences(edge):
    record = edge.add_job()
    edge.say(record.uid, "waits")
    window = edge.window(record.job.job_id)
    assert (window["total"], window["first"], window["exact"]) == (0, 1, True)
    assert [row[4] for row in window["lines"]][-1] == "waits"


def test_pruned_lines_are_said_and_a_stamp_still_leads_to_its_line(edge):
    record = write_job(edge, "pruned")
    edge.job_log.prune(record.uid, 0)
    window = edge.window("pruned", stamp=60, count=1)
    assert (window["prunedBefore"], window["total"]) == ("50", 6)
    assert lines_of(window)[0][:2] == [2, "60"]


def test_a_damaged_line_is_a_row_with_its_number(edge):
    record = edge.add_job()
    path = edge.write(record.uid, [line(1), line(2), line(3)])
    whole = path.read_bytes().splitlines(keepends=True)
    whole[1] = b"\0\0\xff\n"
    path.write_bytes(b"".join(whole))
    rows = lines_of(edge.window(record.job.job_id))
    assert [row[:3] for row in rows] == [[1, "1", "w-0"], [2, "1", "service"], [3, "3", "w-0"]]
    assert "damaged: 3 bytes" in rows[1][4]


def test_a_log_that_grows_announces_its_new_lines_by_number(edge):
    record = edge.add_job()
    lines = [line(n, str(n)) for n in range(1, 30)]
    for end in range(1, 30):
        edge.write(record.uid, lines[:end], torn=b'[7, "w-0", "IN')
        window = edge.window(record.job.job_id, line=end)
        assert (window["total"], numbers(window)) == (end, [end])
        assert edge.native.numbered_logs.count_lines(record.uid, lambda: False) == end


def test_long_texts_are_cut_and_say_how_much(edge, monkeypatch):
    record = edge.add_job()
    texts = ["é" * 10_000_000, "\0\x1b[3", "\udc80", "\u202ecod.exe", "\r 5 %\r 6 %"]
    edge.write(record.uid, [line(n, text) for n, text in enumerate(texts, start=1)])
    rows = lines_of(edge.window(record.job.job_id))
    assert rows[0][4:] == ["é" * 8192, 2 * (10_000_000 - 8192)]
    assert [row[4] for row in rows[1:]] == texts[1:]
    monkeypatch.setattr(log_rows, "TEXTS_MAX", 10)
    many = edge.add_job("many")
    edge.write(many.uid, [line(n, "t" * 1000) for n in range(1, 5)])
    assert [row[5] for row in lines_of(edge.window("many"))] == [0, 744, 744, 744]


def test_a_window_of_very_long_lines_has_fewer_and_still_shows_the_last(edge, monkeypatch):
    monkeypatch.setattr(windows, "BYTES_MAX", 3000)
    record = edge.add_job()
    edge.write(record.uid, [line(n, "t" * 1000) for n in range(1, 50)])
    assert numbers(edge.window(record.job.job_id, line=1)) == [1, 2, 3]
    assert numbers(edge.window(record.job.job_id, line=30, before=20))[-1] >= 30
    assert numbers(edge.window(record.job.job_id))[-1] == 49


def test_the_trials_of_a_study_have_numbers_and_the_study_has_none(edge):
    study = add_study(edge.store, project="demo")
    jobs = tuple(NewTrial(trial=trial(n), job=trial_job(n, project="demo")) for n in (1, 2))
    for trial_row in advance(edge.store, study.uid, new_trials=jobs):
        lines = [
            line(10 * n + trial_row.trial.number, f"{trial_row.trial.number}:{n}")
            for n in range(1, 6)
        ]
        edge.write(trial_row.job_uid, lines)
    window = edge.window("tune", trial="2", line=2, count=1)
    assert window["lines"] == [[2, "22", "w-0", "INFO", "2:2", 0, "2"]]
    merged = edge.window("tune", task="w-0", count=3)
    assert "total" not in merged
    assert [(row[0], row[4]) for row in merged["lines"]] == [
        (None, "2:4"),
        (None, "1:5"),
        (None, "2:5"),
    ]
    some = edge.window("tune", task="w-0", stamp=31, before=1, count=3)["lines"]
    assert [row[4] for row in some] == ["2:2", "1:3", "2:3"]
    assert [row[4] for row in edge.window("tune", task="w-0", stamp=41, count=1)["lines"]] == [
        "1:4"
    ]
    for query in ({"line": 1}, {"share": 0.5}, {"row": 1}, {"attempt": 1}):
        assert "trial=N" in edge.refusal("tune/logs:window", **query)
    assert "no trial 9" in edge.refusal("tune/logs:window", 404, trial="9")


def test_of_many_sentences_a_window_has_those_around_it(edge, monkeypatch):
    monkeypatch.setattr(numbered, "SENTENCES_MAX", 4)
    monkeypatch.setattr(stream, "READ_MAX", 3)
    record = edge.add_job()
    stamps = edge.say(record.uid, *(f"{n}" for n in range(20)))
    edge.write(record.uid, [line(stamps[n], f"after {n}") for n in (9, 12, 19)])

    def texts(**query):
        return [row[4] for row in edge.window(record.job.job_id, **query)["lines"]]

    assert texts(line=1, count=1) == ["6", "7", "8", "9", "after 9"]
    assert texts(line=2, count=1) == ["10", "11", "12", "after 12"]
    assert texts(end=True, count=1) == ["16", "17", "18", "19", "after 19"]
    monkeypatch.setattr(windows, "SENTENCES_MAX", 2)
    assert texts(line=1, count=1) == ["8", "9", "after 9"]
    lines = edge.get(f"{record.job.job_id}/logs:search", q="1", limit=100).text.splitlines()
    sentences = [hit["text"] for hit in map(json.loads, lines) if hit.get("task") == "service"]
    assert sentences == ["1", *(str(n) for n in range(10, 20))], "a search looks at all of them"


def test_a_task_without_lines_is_counted_in_several_calls(edge, monkeypatch):
    monkeypatch.setattr(windows, "COUNT_S_MAX", -1)
    monkeypatch.setattr(windows, "STUDY_S_MAX", -1)
    record = edge.add_job()
    for segment in range(1, 5):
        edge.write(record.uid, [line(10 * segment + n) for n in range(9)], segment=segment)
    first, *others = [edge.window(record.job.job_id, task="w-9") for _ in range(4)]
    assert (first["exact"], numbers(first)) == (False, [])
    assert [window["exact"] for window in others][-1], "each call counts on"
    assert others[-1]["total"] == 0


def test_a_task_without_lines_in_a_study_is_looked_for_in_several_calls(edge, monkeypatch):
    monkeypatch.setattr(windows, "STUDY_S_MAX", -1)
    monkeypatch.setattr(log_segments, "PIECE_BYTES", 200)
    monkeypatch.setattr(stream, "READ_MAX", 3)
    study = add_study(edge.store, project="demo", job_id="wide")
    jobs = tuple(
        NewTrial(trial=trial(n), job=trial_job(n, study_id="wide", project="demo")) for n in (1, 2)
    )
    for row in advance(edge.store, study.uid, new_trials=jobs):
        lines = [line(10 * n + row.trial.number) for n in range(1, 50)]
        edge.write(row.job_uid, [line(row.trial.number, "first", "w-9"), *lines])
    window, calls = edge.window("wide", task="w-9"), 1
    stamps = {row[1] for row in window["lines"]}
    while stamp := window.get("unreadBefore"):
        window, calls = edge.window("wide", task="w-9", stamp=stamp, before=200), calls + 1
        stamps |= {row[1] for row in window["lines"]}
    assert stamps == {"1", "2"}
    assert calls > 3
    window, calls = edge.window("wide", task="w-8", stamp=0), 1
    while stamp := window.get("unreadFrom"):
        window, calls = edge.window("wide", task="w-8", stamp=stamp), calls + 1
        assert window["lines"] == []
    assert calls > 3


@given(st.data())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_windows_one_behind_another_are_the_whole_log(edge, monkeypatch, data):
    monkeypatch.setattr(log_segments, "PIECE_BYTES", 200)
    record = edge.add_job()
    count = data.draw(st.integers(0, 40))
    lines = [
        line(10 * n, f"t{n}", f"w-{n % 3}", ("INFO", "ERROR")[n % 7 == 0])
        for n in range(1, count + 1)
    ]
    cut = data.draw(st.integers(0, count))
    edge.write(record.uid, lines[:cut])
    edge.write(record.uid, lines[cut:], attempt=data.draw(st.integers(1, 2)), segment=2)
    query = {"task": "w-1"} if data.draw(st.booleans()) else {}
    query |= {"severity": "ERROR"} if data.draw(st.booleans()) else {}
    expected = [
        n
        for n in range(1, count + 1)
        if ("task" not in query or n % 3 == 1) and ("severity" not in query or n % 7 == 0)
    ]
    size = data.draw(st.integers(1, 15))
    forward = []
    while True:
        window = edge.window(record.job.job_id, row=len(forward) + 1, count=size, **query)
        got = numbers(window)
        assert window["first"] == len(forward) + 1
        assert window["total"] == len(expected)
        if not got:
            break
        forward += got
    assert forward == expected
    backward = numbers(edge.window(record.job.job_id, count=size, **query))
    while backward and len(backward) < len(expected):
        earlier = edge.window(record.job.job_id, line=backward[0], before=size, count=size, **query)
        backward = [n for n in numbers(earlier) if n < backward[0]] + backward
    assert backward == expected
