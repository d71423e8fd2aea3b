"""A search finds what a plain scan of the log finds, says how far it is, and ends with the call."""

import asyncio
import gzip
import itertools
import json
import re
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.log_edge import line, log_edge
from store.builders import add_study, advance, trial, trial_job
from trainshed.api import log_stream
from trainshed.model.log_line import encode
from trainshed.service.log import text_search
from trainshed.service.log.matching import make_matcher, texts_of, utf16_columns
from trainshed.storage import log_segments
from trainshed.store.records.studies import NewTrial
from trainshed.wire.logging_v2 import regular_expressions

TEXTS = (
    "loss = nan",
    "Loss = NaN",
    'say "n"',
    "back\\slash \\n",
    "tab\tand\x1b[31mred\x1b[0m",
    "é Größe",
    "\0 zero",
    "\udc80 lone",
    "emoji 😀 nan 😀",
    "",
    "\r 5 %\r 6 %",
    "two\nlines nan",
    "INFO w-0 stdout",
    "x" * 300,
)


@pytest.fixture(scope="module")
def edge(tmp_path_factory):
    with log_edge(tmp_path_factory.mktemp("edge")) as edge:
        yield edge


def search(edge, job, q, **query):
    answer = edge.get(f"{job}/logs:search", q=q, **query)
    assert answer.status_code == 200, answer.text
    *steps, end = [json.loads(text) for text in answer.text.split("\n")[:-1]]
    assert end["done"] is True
    shares = [step["searched"] for step in steps if "searched" in step]
    assert shares == sorted(shares)
    hits = [step for step in steps if "n" in step]
    assert end["hits"] == len(hits)
    return hits, end


def found_by_scan(lines, q, *, ignores_case):
    flags = re.ASCII | (re.IGNORECASE if ignores_case else 0)
    pattern = re.compile(re.escape(q), flags)
    return {
        number: [match.span() for match in pattern.finditer(one.text)][:100]
        for number, one in enumerate(lines, start=1)
        if pattern.search(one.text)
    }


@given(st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_search_equals_a_plain_scan(edge, monkeypatch, data):
    monkeypatch.setattr(
        log_segments, "PIECE_BYTES", data.draw(st.sampled_from([100, 1000, 1 << 18]))
    )
    texts = data.draw(st.lists(st.sampled_from(TEXTS) | st.text(max_size=20), max_size=25))
    lines = [line(n, text, f"w-{n % 2}") for n, text in enumerate(texts, start=1)]
    record = edge.add_job()
    cut = data.draw(st.integers(0, len(lines)))
    edge.write(record.uid, lines[:cut])
    edge.write(record.uid, lines[cut:], attempt=2, torn=b'[99, "w-0", "INFO", "stdout", "nan')
    whole = data.draw(st.sampled_from(texts or ["nan"]))
    begin = data.draw(st.integers(0, max(0, len(whole) - 1)))
    q = whole[begin : begin + data.draw(st.integers(1, 8))] or "n"
    if not q.isprintable() and any("\ud800" <= c <= "\udfff" for c in q):
        q = "lone"
    ignores_case = data.draw(st.booleans())
    first = data.draw(st.integers(1, len(lines) + 2))
    query = (
        {"case": not ignores_case, "from": first, "task": "w-1"}
        if data.draw(st.booleans())
        else {"case": not ignores_case}
    )
    expected = {
        number: columns
        for number, columns in found_by_scan(lines, q, ignores_case=ignores_case).items()
        if number >= query.get("from", 1) and ("task" not in query or number % 2)
    }
    hits, end = search(edge, record.job.job_id, q, **query)
    by_number = {hit["n"]: hit for hit in hits if hit["n"]}
    assert list(by_number) == list(expected)
    assert end["complete"] is True
    for number, columns in expected.items():
        text = lines[number - 1].text
        assert by_number[number]["text"] == text
        assert by_number[number]["columns"] == [list(c) for c in utf16_columns(text, columns)]
        one = by_number[number]["columns"][0]
        utf16 = text.encode("utf-16-le", "surrogatepass")[2 * one[0] : 2 * one[1]]
        assert utf16.decode("utf-16-le", "surrogatepass").lower() == q.lower() or not q.isascii()


@pytest.mark.parametrize(
    "pattern",
    [
        "nan", "^loss", r"nan$", r"\Aloss", r"nan\z", r"(?-m)^lines", "x*", "[^a]", r"\s", "n.n",
        "(?i)NAN", "(?s)o.l", "a|e", r"\bnan\b", "^$", "😀", r"[é-ü]", "(x+x+)+y", "x{300}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("case", [True, False])
def test_an_expression_finds_the_lines_that_match_it_alone(edge, pattern, case):
    record = edge.add_job()
    lines = [line(n, text) for n, text in enumerate([*TEXTS, *TEXTS], start=1)]
    edge.write(record.uid, lines)
    alone = regular_expressions.compile_re2(pattern, ignores_case=not case)
    encoded = [one.text.encode("utf-8", "replace") for one in lines]
    expected = [n for n, text in enumerate(encoded, start=1) if alone.search(text)]
    hits, end = search(edge, record.job.job_id, pattern, regex=True, case=case, limit=10_000)
    assert [hit["n"] for hit in hits if hit["n"]] == expected
    assert end["complete"]


def test_expressions_work_over_pieces_with_damaged_lines(edge):
    record = edge.add_job()
    data = [
        encode(line(1, "nan 1")),
        b'[2, "w-0"\n',
        b'"b"]\n',
        b"\xff\r\0\n",
        encode(line(5, "nan 5")),
    ]
    path = edge.write(record.uid, [])
    path.write_bytes(b"".join(data))
    hits, _ = search(edge, record.job.job_id, "n.n", regex=True)
    assert [hit["n"] for hit in hits] == [1, 5]
    assert texts_of(b"[1, 2]\n[3]\n") == ["", ""]


@pytest.mark.parametrize("q", ["(", "a{2000}", r"(a)\1", "(?=x)", "[z-a]", "*"])
def test_what_is_no_expression_of_re2_is_refused_with_its_reason(edge, q):
    edge.add_job(f"bad{abs(hash(q))}")
    message = edge.refusal(f"bad{abs(hash(q))}/logs:search", q=q, regex=True)
    assert message.startswith("q must be a regular expression of RE2, got")


def test_without_re2_literals_work_and_the_refusal_says_what_to_install(edge, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(regular_expressions, "import_module", missing)
    record = edge.add_job()
    edge.write(record.uid, [line(1, "nan")])
    assert search(edge, record.job.job_id, "nan")[0][0]["n"] == 1
    message = edge.refusal(f"{record.job.job_id}/logs:search", q="n", regex=True)
    assert "trainshed[re2]" in message
    assert "literal" in message


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ({}, "q"),
        ({"q": ""}, "q"),
        ({"q": "x" * 1001}, "q"),
        ({"q": "x", "from": 0}, "from"),
        ({"q": "x", "limit": 0}, "limit"),
        ({"q": "x", "limit": 10_001}, "limit"),
        ({"q": "x", "severity": "LOUD"}, "severity"),
    ],
)
def test_a_search_that_cannot_be_is_refused_by_its_field(edge, query, word):
    assert word in edge.refusal("any/logs:search", **query)


def test_a_limit_ends_a_search_that_goes_on_behind_it(edge):
    record = edge.add_job()
    edge.write(record.uid, [line(n, f"nan {n}") for n in range(1, 31)])
    first, end = search(edge, record.job.job_id, "nan", limit=12)
    assert (end["complete"], end["next"], len(first)) == (False, 13, 12)
    second, end = search(edge, record.job.job_id, "nan", limit=100, **{"from": end["next"]})
    assert [hit["n"] for hit in first + second] == list(range(1, 31))
    assert end["complete"]
    assert "next" not in end


def test_a_search_that_takes_too_long_ends_and_says_where_to_go_on(edge, monkeypatch):
    monkeypatch.setattr(log_segments, "PIECE_BYTES", 100)
    monkeypatch.setattr(text_search, "SEARCH_S_MAX", -1.0)
    record = edge.add_job()
    edge.write(record.uid, [line(n, f"nan {n}") for n in range(1, 31)])
    numbers, start = [], 1
    for _ in range(40):
        hits, end = search(edge, record.job.job_id, "nan 2", **{"from": start})
        numbers += [hit["n"] for hit in hits]
        if end["complete"]:
            break
        assert end["next"] > start
        start = end["next"]
    assert numbers == [2, *range(20, 30)]


def test_sentences_of_the_service_are_searched_too_and_stand_between(edge):
    record = edge.add_job()
    stamps = edge.say(record.uid, "node n1 is lost", "restarted on n2")
    edge.write(
        record.uid,
        [line(stamps[0] - 1, "on n1"), line(stamps[0] + 1, "off"), line(stamps[1] + 1, "on n2")],
    )
    hits, _ = search(edge, record.job.job_id, "n")
    texts = [(hit["n"], hit["text"]) for hit in hits]
    expected = [(1, "on n1"), (None, "node n1 is lost"), (None, "restarted on n2"), (3, "on n2")]
    assert [row for row in texts if row in expected] == expected
    later, _ = search(edge, record.job.job_id, "n", **{"from": 2})
    assert [hit["text"] for hit in later] == [text for _, text in expected[1:]]
    assert [hit["n"] for hit in search(edge, record.job.job_id, "n", task="w-0")[0]] == [1, 3]


def test_each_trial_of_a_study_is_searched_with_its_own_numbers(edge):
    study = add_study(edge.store, project="demo")
    jobs = tuple(NewTrial(trial=trial(n), job=trial_job(n, project="demo")) for n in (1, 2))
    for row in advance(edge.store, study.uid, new_trials=jobs):
        edge.write(row.job_uid, [line(n, f"nan {row.trial.number}:{n}") for n in (1, 2)])
    hits, end = search(edge, "tune", "nan")
    assert [(hit["trial"], hit["n"]) for hit in hits] == [("1", 1), ("1", 2), ("2", 1), ("2", 2)]
    assert end == {"done": True, "hits": 4, "complete": True}
    one, _ = search(edge, "tune", "nan", trial="2", **{"from": 2})
    assert [hit["text"] for hit in one] == ["nan 2:2"]
    assert "trial=N" in edge.refusal("tune/logs:search", q="x", **{"from": 2})


def test_long_lines_are_found_and_cut(edge):
    record = edge.add_job()
    edge.write(record.uid, [line(1, "a" * 10_000_000 + "needle"), line(2, "needle")])
    hits, _ = search(edge, record.job.job_id, "needle")
    assert [(hit["n"], hit["columns"], len(hit["text"])) for hit in hits] == [
        (1, [], 8192),
        (2, [[0, 6]], 6),
    ]
    assert hits[0]["cutBytes"] == 10_000_006 - 8192
    only_second, _ = search(edge, record.job.job_id, "needle", regex=True)
    assert [hit["n"] for hit in only_second] == [2]


def test_slow_expressions_are_searched_in_small_batches():
    matcher = make_matcher("[^y]{900}y", is_expression=True, ignores_case=False)
    piece = b"".join(encode(line(n, "x" * 80)) for n in range(1, 2000))
    pauses = list(itertools.islice(matcher.candidates(piece), 10))
    assert pauses == [None] * 10
    assert matcher._batch_bytes <= 1 << 14


def test_a_reader_that_leaves_ends_the_search():
    """The turns of a search are taken only while its lines are read."""
    taken = []

    def pieces():
        for number in itertools.count():
            taken.append(number)
            yield b"x" * (log_stream.TURN_BYTES + 1)

    async def read_two():
        stream = log_stream.stream_pieces(pieces(), admit=None)
        await anext(stream)
        await anext(stream)
        await stream.aclose()

    asyncio.run(read_two())
    assert taken == [0, 1]


@pytest.mark.parametrize(("calls", "rests"), [(0, 0), (3, 4)])
def test_a_search_rests_between_its_turns_while_other_calls_run(monkeypatch, calls, rests):
    rested_s = []

    async def rest(seconds):
        rested_s.append(seconds)

    async def read():
        pieces = (b"x" * (log_stream.TURN_BYTES + 1) for _ in range(4))
        return [data async for data in log_stream.stream_pieces(pieces, admit=None)]

    monkeypatch.setattr(log_stream, "THREADS", SimpleNamespace(calls=calls))
    monkeypatch.setattr(log_stream.anyio, "sleep", rest)
    assert len(asyncio.run(read())) == 4
    assert len(rested_s) == rests
    longest_s = 2 * log_stream.TURN_S * log_stream.REST_TURNS
    assert all(0 < seconds <= longest_s for seconds in rested_s)


def test_a_search_counts_as_a_stream_of_its_caller(tmp_path):
    with log_edge(tmp_path, streams_max=0) as edge:
        edge.add_job("j")
        assert "streams" in edge.refusal("j/logs:search", 429, q="x")
        assert "streams" in edge.refusal("j/logs:download", 429)


def stream(edge, job, **query):
    answer = edge.get(f"{job}/logs", task="w-0", **query)
    assert answer.status_code == 200, answer.text
    return [json.loads(text)["message"] for text in answer.text.split("\n")[:-1]]


def test_a_stream_begins_with_a_line_and_has_the_searched_lines(edge):
    record = edge.add_job()
    edge.write(record.uid, [line(n, f"Nan {n}") for n in range(1, 2100)])
    job = record.job.job_id
    assert stream(edge, job, fromLine=2098) == ["Nan 2098", "Nan 2099"]
    assert stream(edge, job, fromLine=2100) == stream(edge, job, fromLine=10**9) == []
    assert stream(edge, job, fromLine=1)[:1] == ["Nan 1"]
    assert stream(edge, job, q="nan 209") == ["Nan 209", *(f"Nan {n}" for n in range(2090, 2100))]
    assert stream(edge, job, q="nan 209", case=True) == []
    assert stream(edge, job, q="n 2[01].7$", regex=True, tail=2) == ["Nan 2087", "Nan 2097"]
    assert stream(edge, job, q="99", tail=1, fromLine=5) == ["Nan 2099"]
    for query, word in (({"fromLine": 0}, "fromLine"), ({"q": "(", "regex": True}, "RE2")):
        assert word in edge.refusal(f"{job}/logs", **query)


def test_the_lines_of_a_study_have_no_numbers_to_begin_with(edge):
    add_study(edge.store, project="demo", job_id="tune3")
    assert "trial=N" in edge.refusal("tune3/logs", fromLine=1)


def test_a_download_is_the_whole_log_in_either_format(edge):
    record = edge.add_job("saved")
    [stamp] = edge.say(record.uid, "started")
    lines = [line(1, "\0a\x1b[1m"), line(2, "\udc80", "w-1", "ERROR"), line(stamp + 1, "end")]
    edge.write(record.uid, lines)
    plain = edge.get("saved/logs:download", headers={"accept-encoding": "identity"})
    assert plain.headers["content-disposition"] == 'attachment; filename="saved.log"'
    assert plain.headers["content-type"] == "text/plain; charset=utf-8"
    text = plain.content.decode().split("\n")
    assert (text[0], text[1], text[-3:]) == ("\0a\x1b[1m", "\\udc80", ["started", "end", ""])
    timed = edge.get("saved/logs:download", times=True, task="w-0").content.decode()
    assert timed.startswith("1970-01-01T00:00:00.000000001Z w-0 INFO \0a")
    rows = edge.get("saved/logs:download", format="jsonl", severity="ERROR")
    assert [json.loads(one)["message"] for one in rows.text.split("\n")[:-1]] == ["\udc80"]
    assert rows.headers["content-type"] == "application/x-ndjson"
    assert "format" in edge.refusal("saved/logs:download", format="pdf")


def test_a_download_has_short_logs_that_no_call_has_counted(edge):
    record = edge.add_job("short")
    edge.write(record.uid, [line(1, "a")])
    edge.write(record.uid, [line(2, "b")], attempt=2)
    assert edge.get("short/logs:download", task="w-0").text == "a\nb\n"
    record = edge.add_job("shorter")
    edge.write(record.uid, [line(1, "only")])
    assert edge.get("shorter/logs:download").text.startswith("only\n")


def test_a_download_is_compressed_for_callers_that_accept_it(edge):
    record = edge.add_job()
    edge.write(record.uid, [line(n, f"step {n} " + "x" * 100) for n in range(1, 5000)])
    path = f"{record.job.job_id}/logs:download"
    for accepted in ("gzip", "br, gzip;q=0.5"):
        with edge.http.stream(
            "GET",
            f"/trainshed/v1/projects/demo/jobs/{path}?task=w-0",
            headers={"Authorization": "Bearer demo", "Accept-Encoding": accepted},
        ) as answer:
            assert answer.headers["content-encoding"] == "gzip"
            raw = b"".join(answer.iter_raw())
        text = gzip.decompress(raw).decode()
        assert text.count("\n") == 4999
        assert len(raw) < len(text) / 5
    refused = edge.get(path, headers={"accept-encoding": "gzip;q=0, identity"})
    assert "content-encoding" not in refused.headers


def test_a_study_is_downloaded_as_one_log_of_its_trials(edge):
    study = add_study(edge.store, project="demo", job_id="tune2")
    jobs = (NewTrial(trial=trial(1), job=trial_job(1, "tune2", project="demo")),)
    [row] = advance(edge.store, study.uid, new_trials=jobs)
    edge.write(row.job_uid, [line(1, "one"), line(2, "two")])
    text = edge.get("tune2/logs:download", task="w-0", times=True).text
    assert text.endswith("Z 1/w-0 INFO one\n1970-01-01T00:00:00.000000002Z 1/w-0 INFO two\n")
