"""Searches of a whole project's logs: each entry once, in order, whatever is skipped."""

import json
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databases import new_database
from service.log_reading import read_page
from service.test_logs import add_job, move, run_to_running
from trainshed.model.log_line import LOG_FOLDER, LogLine, encode, segment_name
from trainshed.model.status import JobState
from trainshed.service.log import pages
from trainshed.service.log.pages import LogService
from trainshed.storage import log_segments
from trainshed.storage.log_files import JobLog
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind
from trainshed.store.records.steps import NewEvent
from trainshed.wire.logging_v2.entries import EntriesQuery
from trainshed.wire.logging_v2.log_entry import LogEntry
from trainshed.wire.logging_v2.log_filter import read_log_filter
from trainshed.wire.times import timestamp

TEXTS = ["loss 0.1", "Loss 0.2", json.dumps({"message": "caf\u00e9", "severity": "ERROR"}), "quiet"]
FILTERS = [
    "",
    "LOSS",
    "café",
    "severity>=ERROR OR 0.1",
    "NOT quiet",
    "resource.labels.job_id=j_1",
    "resource.labels.job_id=(j_0 OR j_2) loss",
    'log_id("service")',
    "resource.labels.task_name=worker-replica-0",
    'textPayload=~"^[Ll]oss"',
    "nothing of this",
]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Three jobs that ran at once, one of another project, and the entries of the three."""
    root = tmp_path_factory.mktemp("logs")
    store = open_store(new_database(root))
    records = [add_job(store, job_id=f"j_{n}") for n in range(2)]
    records.append(add_job(store, kind=JobKind.CUSTOM_JOB, job_id=""))
    foreign = add_job(store, "q", job_id="j_0")
    for record in (*records, foreign):
        store.add_event(record.uid, NewEvent(kind="RUNNING", message="now it runs"))
    start_ns = store.events(foreign.uid)[-1].stamp_ns
    stamps = (start_ns + 1000 * n for n in count(1))
    entries = []
    for record in (*records, foreign):
        entries += write_lines(root / "jobs", record, [next(stamps) for _ in range(40)])
    job_log = JobLog(root / "jobs")
    for record in records:
        for event in store.events(record.uid):
            line = LogLine(event.stamp_ns, "service", event.message)
            entries.append(LogEntry(line, record.uid, 0, project="p", job_id=record.job.job_id))
    mine = [entry for entry in entries if entry.uid != foreign.uid]
    yield LogService(store, job_log), sorted(mine, key=lambda e: (e.line.stamp_ns, e.uid, e.source))
    store.close()


def write_lines(root, record, stamps):
    """Some lines in two segments of a job."""
    folder = root / str(record.uid) / "1" / LOG_FOLDER
    folder.mkdir(parents=True)
    tasks = ("master-replica-0", "worker-replica-0")
    lines = []
    for n, stamp_ns in enumerate(stamps):
        text = TEXTS[n % len(TEXTS)]
        severity = "ERROR" if text.startswith("{") else "INFO"
        lines.append(LogLine(stamp_ns, tasks[n % 2], text, severity))
    for number, part in ((1, lines[:25]), (2, lines[25:])):
        (folder / segment_name(number)).write_bytes(b"".join(map(encode, part)))
    job_id = record.job.job_id
    return [LogEntry(line, record.uid, 1, project="p", job_id=job_id) for line in lines]


@settings(max_examples=200)
@given(
    text=st.sampled_from(FILTERS),
    bounds=st.none() | st.tuples(st.integers(-3, 130), st.integers(-3, 130)),
    descending=st.booleans(),
    data=st.data(),
)
def test_pages_of_a_search_give_what_the_filter_lets_through(
    project, text, bounds, descending, data
):
    logs, entries = project
    if bounds is not None:
        first, before = (entries[0].line.stamp_ns + 1000 * n for n in bounds)
        times = f'timestamp>="{timestamp(first)}" timestamp<"{timestamp(before)}"'
        text = f"({text}) AND {times}" if text else times
    matches = read_log_filter(text).matches
    expected = [entry.insert_id for entry in entries if matches(entry)]
    insert_ids, token = [], ""
    while True:
        size = data.draw(st.integers(1, 60))
        query = EntriesQuery(filter=text, descending=descending, page_size=size, page_token=token)
        page = read_page(logs, "p", query)
        assert len(page.entries) <= size
        insert_ids += [entry["insertId"] for entry in page.entries]
        if not (token := page.next_page_token):
            break
    assert insert_ids == (expected[::-1] if descending else expected)


def test_a_long_search_gives_a_page_without_entries_and_goes_on(project, monkeypatch):
    """Google does so too; its clients ask for the next page."""
    logs, _ = project
    monkeypatch.setattr(log_segments, "PIECE_BYTES", 200)
    monkeypatch.setattr("trainshed.service.log.searching._OTHERS_BETWEEN", 1)
    times = count(step=pages.SEARCH_S_MAX)
    slow = LogService(logs.store, logs.job_log, clock=lambda: next(times))
    query = EntriesQuery(filter="resource.labels.job_id=j_1 absent", page_size=10)
    sizes = []
    while True:
        page = read_page(slow, "p", query)
        sizes.append(len(page.entries))
        if not page.next_page_token:
            break
        query = EntriesQuery(filter=query.filter, page_size=10, page_token=page.next_page_token)
    assert set(sizes) == {0}
    assert len(sizes) > 3


@pytest.mark.parametrize("descending", [False, True])
def test_a_page_comes_in_time_while_many_jobs_that_ran_at_once_are_opened(tmp_path, descending):
    """All of them are opened before the first entry is known; a page does not wait for that."""
    store = open_store(new_database(tmp_path))
    for n in range(30):
        record = add_job(store, job_id=f"j_{n}")
        store.add_event(record.uid, NewEvent(kind="RUNNING", message=f"job {n} runs"))
    ticks = count(step=pages.OPENING_S_MAX / 8)
    logs = LogService(store, JobLog(tmp_path / "jobs"), clock=lambda: next(ticks))
    seconds, messages, token = [], [], ""
    while True:
        before_s = next(ticks)
        query = EntriesQuery(filter="runs", descending=descending, page_token=token)
        page = logs.entries("p", query)
        seconds.append(next(ticks) - before_s)
        messages += [entry.line.text for entry in page.entries]
        if not (token := page.next_page_token):
            break
    expected = [f"job {n} runs" for n in range(30)]
    assert messages == (expected[::-1] if descending else expected)
    assert max(seconds) <= pages.SEARCH_S_MAX + 1
    store.close()


def test_a_word_is_searched_without_decoding_the_lines_that_lack_it(project, monkeypatch):
    logs, _ = project
    decoded = []
    decode = log_segments.decode
    monkeypatch.setattr(log_segments, "decode", lambda data: decoded.append(data) or decode(data))
    page = read_page(logs, "p", EntriesQuery(filter="resource.labels.job_id=j_1 0.2", page_size=50))
    assert len(page.entries) == 10
    unmatched = [data for data in decoded if b"0.2" not in data and b"\\u" not in data]
    assert len(unmatched) <= 4, "the ends of two segments, and nothing else that has no escapes"


def test_a_job_that_ended_before_the_time_in_the_filter_is_not_opened(tmp_path):
    store = open_store(new_database(tmp_path))
    old, running = add_job(store, job_id="old"), add_job(store, job_id="running")
    for record in (old, running):
        run_to_running(store, record.uid)
    move(store, old.uid, JobState.SUCCEEDED)
    opened = []

    class Watched(JobLog):
        def read(self, uid, span):
            opened.append(uid)
            return super().read(uid, span)

    logs = LogService(store, Watched(tmp_path / "jobs"))
    later = timestamp(store.events(old.uid)[-1].stamp_ns + 2 * 3600 * 10**9)
    read_page(logs, "p", EntriesQuery(filter=f'timestamp>"{later}"'))
    assert set(opened) == {running.uid}
    store.close()
