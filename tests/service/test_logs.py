"""One log of lines and events: in one order, whole, and nobody else's."""

import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databases import new_database
from service.log_reading import follow, read_page
from trainshed.engines.supervise.record.segments import SegmentWriter
from trainshed.model.job import JobSpec
from trainshed.model.log_line import LOG_FOLDER, LogLine, decode, encode, segment_name
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resources import JobDemand, Seat
from trainshed.model.roles import Dialect, Role
from trainshed.model.status import JobState
from trainshed.service.log import pages as log_pages
from trainshed.service.log.matching import make_matcher
from trainshed.service.log.pages import LogService
from trainshed.service.log.stream import READ_LENGTH_MAX
from trainshed.service.upkeep.housekeeping import Retention
from trainshed.storage import log_segments
from trainshed.storage.log_files import JobLog
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind, NewJob
from trainshed.store.records.steps import NewEvent, Step, StoredEvent
from trainshed.wire.logging_v2.entries import EntriesQuery
from wire.log_filters import render

DAY_S = 86_400.0


def moment(seconds):
    return datetime.fromtimestamp(seconds, UTC)


FILTER = 'resource.type="ml_job" AND resource.labels.job_id="{}"'


@pytest.fixture
def logs(store, tmp_path):
    return LogService(store, JobLog(tmp_path / "jobs"))


def add_job(store, project="p", kind=JobKind.ML_JOB, job_id="j_run"):
    spec = JobSpec(dialect=Dialect.ML_V1, job_id=job_id)
    new = NewJob(
        kind=kind,
        project=project,
        location="us-central1",
        job_id=job_id,
        spec=spec,
        expanded=spec,
        demand=JobDemand(region=None, groups=()),
        creator="tester",
    )
    return store.add_job(new)[0]


def sink_of(logs, record, attempt=1):
    folder = logs.job_log.root / str(record.uid) / str(attempt) / LOG_FOLDER
    folder.parent.mkdir(parents=True, exist_ok=True)
    return SegmentWriter(folder)


def say(sink, text, task="master-replica-0"):
    sink.line(task, text, severity="INFO", stream="stdout")


def move(store, uid, state, *events, **more):
    version = store.job_by_uid(uid).version
    step = Step(uid=uid, version=version, state=state, events=events, **more)
    assert list(store.apply([step])) == [True]


def run_to_running(store, uid):
    seats = (Seat(role=Role.PRIMARY, index=0, node="n"),)
    move(store, uid, JobState.PREPARING, seats=seats, owner="s")
    move(store, uid, JobState.RUNNING)


def ask(logs, job_id="j_run", project="p", **more):
    return read_page(logs, project, EntriesQuery(filter=FILTER.format(job_id), **more))


def messages_of(page):
    return [entry["jsonPayload"]["message"] for entry in page.entries]


def test_lines_and_events_are_merged_in_the_order_in_which_they_came(store, logs):
    record = add_job(store)
    sink = sink_of(logs, record)
    store.add_event(record.uid, NewEvent(kind="RUNNING", message="one"))
    say(sink, "two")
    sink.flush()
    store.add_event(record.uid, NewEvent(kind="FAILED", message="three"))
    page = ask(logs)
    assert messages_of(page)[-3:] == ["one", "two", "three"]
    assert [e["severity"] for e in page.entries[-3:]] == ["INFO", "INFO", "ERROR"]
    names = [e["resource"]["labels"]["task_name"] for e in page.entries[-3:]]
    assert names == ["service", "master-replica-0", "service"]
    assert page.next_page_token == ""
    assert page.document["entries"] == page.entries
    assert messages_of(ask(logs, descending=True)) == messages_of(page)[::-1]
    sink.close()


def test_a_vertex_job_is_asked_for_by_its_number(store, logs):
    record = add_job(store, kind=JobKind.CUSTOM_JOB, job_id="")
    store.add_event(record.uid, NewEvent(kind="RUNNING", message="here"))
    page = ask(logs, str(record.uid))
    assert messages_of(page)[-1] == "here"
    assert page.entries[-1]["resource"]["labels"]["job_id"] == str(record.uid)


@pytest.mark.parametrize("job_id", ["j_run", "nobody", "1", "007", "²"])
def test_other_projects_jobs_and_unknown_ones_have_no_entries(store, logs, job_id):
    record = add_job(store)
    vertex = add_job(store, kind=JobKind.CUSTOM_JOB, job_id="")
    sink = sink_of(logs, record)
    say(sink, "secret")
    sink.close()
    assert ask(logs, job_id, project="other").document == {}
    assert ask(logs, str(vertex.uid), project="other").document == {}


def test_two_projects_may_have_a_job_of_one_name(store, logs):
    for project in ("p", "q"):
        record = add_job(store, project)
        store.add_event(record.uid, NewEvent(kind="RUNNING", message=f"of {project}"))
    for project in ("p", "q"):
        assert messages_of(ask(logs, project=project))[-1] == f"of {project}"


def test_a_task_is_asked_for_alone(store, logs):
    record = add_job(store)
    sink = sink_of(logs, record)
    for task in ("master-replica-0", "worker-replica-0"):
        say(sink, task, task)
    sink.note("installing")
    sink.close()
    story = [event.message for event in store.events(record.uid)]
    for task, expected in (
        ("worker-replica-0", ["worker-replica-0"]),
        ("service", [*story, "installing"]),
        ("nobody", []),
    ):
        filter_text = render("j_run", task_name=task)
        assert messages_of(read_page(logs, "p", EntriesQuery(filter=filter_text))) == expected


class DockerVariables:
    """A store that knows one job's story."""

    def __init__(self, record, events):
        self._record = record
        self._events = events

    def job(self, project, kind, job_id):
        record = self._record
        key = (record.job.project, record.kind, record.job.job_id)
        return record if (project, kind, job_id) == key else None

    def job_by_uid(self, _uid):
        return self._record

    def events(self, _uid, *, after=0, limit=1000):
        return [event for event in self._events if event.seq > after][: min(limit, 2)]


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    store = open_store(new_database(tmp_path_factory.mktemp("store")))
    record = add_job(store)
    store.close()
    return record


STAMPS = st.lists(st.integers(1, 40), max_size=20, unique=True).map(sorted)


@given(STAMPS, STAMPS, st.data())
@settings(max_examples=60)
def test_pages_of_any_sizes_give_the_same_entries_in_strict_order(
    tmp_path_factory, record, line_stamps, event_stamps, data
):
    root = tmp_path_factory.mktemp("jobs")
    folder = root / str(record.uid) / "1" / LOG_FOLDER
    folder.mkdir(parents=True)
    lines = [LogLine(stamp_ns=s, task_name="a", text=f"line {s}") for s in line_stamps]
    (folder / segment_name(1)).write_bytes(b"".join(map(encode, lines)))
    events = [
        StoredEvent(
            seq=n,
            uid=record.uid,
            attempt=1,
            stamp_ns=s,
            kind="RUNNING",
            message=f"event {s}",
            data={},
        )
        for n, s in enumerate(event_stamps, 1)
    ]
    logs = LogService(DockerVariables(record, events), JobLog(root))
    first = data.draw(st.none() | st.integers(0, 41))
    before = data.draw(st.none() | st.integers(0, 41))
    descending = data.draw(st.booleans())
    filter_text = render("j_run", from_ns=first, before_ns=before)
    query = EntriesQuery(filter=filter_text, descending=descending, page_size=1000)
    whole = read_page(logs, "p", query).entries
    assert sorted(said_of(whole)) == sorted(
        label
        for stamps, name in ((line_stamps, "line"), (event_stamps, "event"))
        for s in stamps
        for label in [f"{name} {s}"]
        if (first is None or s >= first) and (before is None or s < before)
    )
    keys = [(entry["timestamp"], entry["insertId"]) for entry in whole]
    assert keys == sorted(set(keys), reverse=descending)

    paged, token = [], ""
    while True:
        size = data.draw(st.integers(1, 7))
        page = read_page(logs, "p", replace(query, page_size=size, page_token=token))
        assert len(page.entries) <= size
        paged += page.entries
        if not (token := page.next_page_token):
            break
    assert paged == whole

    if whole and not descending:  # as gcloud goes on: inclusive, or behind an insertId
        cut = data.draw(st.integers(0, len(whole) - 1))
        stamp = int(whole[cut]["insertId"].split("-")[0])
        after_id = whole[cut]["insertId"]
        rest = render("j_run", from_ns=stamp, after_id=after_id, before_ns=before)
        assert read_page(logs, "p", replace(query, filter=rest)).entries == whole[cut + 1 :]


def said_of(entries):
    return [entry["jsonPayload"]["message"] for entry in entries]


def test_a_page_of_very_long_lines_ends_early(store, logs, monkeypatch):
    monkeypatch.setattr(log_pages, "TEXT_LENGTH_MAX", 250)
    record = add_job(store)
    sink = sink_of(logs, record)
    for n in range(5):
        say(sink, str(n) * 100)
    say(sink, "9" * 1000)
    sink.close()
    filter_text = render("j_run", task_name="master-replica-0")
    query, sizes = EntriesQuery(filter=filter_text, page_size=1000), []
    while True:
        page = read_page(logs, "p", query)
        sizes.append(len(page.entries))
        if not page.next_page_token:
            break
        query = replace(query, page_token=page.next_page_token)
    assert sizes == [2, 2, 1, 1]


def test_a_page_token_is_good_for_its_own_question_only(store, logs):
    record = add_job(store)
    for n in range(3):
        store.add_event(record.uid, NewEvent(kind="RUNNING", message=str(n)))
    token = ask(logs, page_size=1).next_page_token
    assert len(ask(logs, page_token=token).entries) >= 2
    add_job(store, "q")
    for more in (
        {"job_id": "another"},
        {"project": "q"},
        {"descending": True},
    ):
        with pytest.raises(Refusal, match="pageToken: it belongs to another") as error:
            ask(logs, **more, page_token=token)
        assert error.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "token", ["x", "é", "AAAA", "WzFd", "WyJhIiwgMSwgImIiXQ", "WyJhIiwgLTEsICJiIl0=", "W1tbW1tb"]
)
def test_a_malformed_page_token_is_refused(store, logs, token):
    add_job(store)
    with pytest.raises(Refusal, match="pageToken: it is malformed"):
        ask(logs, page_token=token)


def test_following_ends_when_the_job_has_ended_and_all_was_read(store, logs):
    record = add_job(store)
    run_to_running(store, record.uid)
    sink, count = sink_of(logs, record), 3000

    def work():
        for n in range(count):
            say(sink, str(n))
        sink.close()
        move(store, record.uid, JobState.SUCCEEDED, NewEvent(kind="SUCCEEDED", message="done"))

    worker = threading.Thread(target=work)
    worker.start()
    lines = list(follow(logs, record))
    worker.join()
    mine = [line.text for line in lines if line.task_name == "master-replica-0"]
    assert mine == [str(n) for n in range(count)]
    story = [event.message for event in store.events(record.uid)]
    assert [line.text for line in lines if line.task_name == "service"] == story
    assert lines[-1].text == "done"
    again = follow(logs, record, after_ns=lines[-2].stamp_ns)
    assert [line.text for line in again] == ["done"]


def test_a_job_that_was_deleted_is_followed_to_its_end(store, logs):
    record = add_job(store)
    move(store, record.uid, JobState.CANCELLED)
    store.delete_job(record.uid)
    assert ask(logs).document == {}
    assert len(list(follow(logs, record))) == len(store.events(record.uid))


def test_logs_are_kept_by_size_while_a_job_runs_and_by_age_after_its_end(store, logs):
    running, over = add_job(store), add_job(store, job_id="j_over")
    for record in (running, over):
        run_to_running(store, record.uid)
        for attempt in (1, 2):
            sink = sink_of(logs, record, attempt)
            say(sink, f"attempt {attempt}")
            sink.close()
    move(store, over.uid, JobState.SUCCEEDED)
    now = datetime.now(UTC).timestamp()
    job_log, pruned = logs.job_log, []

    def tidy(days, bytes_max=10**6):
        Retention(
            store=store,
            job_log=job_log,
            bytes_max=bytes_max,
            days_max=30.0,
            moment_before=lambda span: moment(now + days * DAY_S) - span,
            count_pruned=pruned.append,
        ).tidy()
        return [len(job_log.tail(record.uid, 9)) for record in (running, over)]

    assert tidy(days=29) == [2, 2]
    assert tidy(days=0, bytes_max=0) == [2, 2]  # each is the newest of its attempt
    assert sum(pruned) == 0
    size = job_log.size_bytes(over.uid)
    assert tidy(days=31) == [2, 0]
    assert sum(pruned) == size > 0


def test_the_last_lines_are_found_without_reading_all_and_the_rest_follows_once(
    store, logs, monkeypatch
):
    record = add_job(store)
    run_to_running(store, record.uid)
    sink = sink_of(logs, record)
    for n in range(5000):
        say(sink, str(n), "worker-replica-0" if n % 2 else "master-replica-0")
    sink.flush()
    store.add_event(record.uid, NewEvent(kind="NOTE", message="news"))
    decoded = []
    with monkeypatch.context() as counted:
        counted.setattr(log_segments, "decode", lambda data: decoded.append(1) or decode(data))
        everybody, master = logs.cursor(record), logs.cursor(record, task="master-replica-0")
        list(everybody.skip_in_turns(3))
        assert texts_of(everybody.read()) == ["4998", "4999", "news"]
        list(master.skip_in_turns(2))
        assert texts_of(master.read()) == ["4996", "4998"]
    assert len(decoded) < 20
    say(sink, "not the master's", "worker-replica-0")
    say(sink, "later", "master-replica-0")
    sink.close()
    assert texts_of(everybody.read()) == ["not the master's", "later"]
    assert texts_of(master.read()) == ["later"]
    store.add_event(record.uid, NewEvent(kind="NOTE", message="more news"))
    assert texts_of(everybody.read()) == ["more news"]
    assert master.read() == []


def test_the_last_lines_are_those_of_the_time_at_which_they_were_counted(store, logs):
    """The goodput of a job is told some seconds after its end: ``--tail 1`` printed two lines."""
    record = add_job(store)
    run_to_running(store, record.uid)
    sink = sink_of(logs, record)
    say(sink, "first")
    say(sink, "last")
    sink.flush()
    now, follows = (logs.cursor(record, task="master-replica-0") for _ in range(2))
    none = logs.cursor(record, task="worker-replica-0")
    for cursor, reads_new in ((now, False), (follows, True), (none, False)):
        list(cursor.skip_in_turns(1, reads_new=reads_new))
    say(sink, "news")
    say(sink, "news", "worker-replica-0")
    sink.close()
    assert texts_of(now.read()) == ["last"]
    assert texts_of(follows.read()) == ["last", "news"]
    assert none.read() == []


def test_a_search_for_the_last_lines_of_a_long_log_pauses_on_the_way(store, logs):
    """It reads the log backward: a rare text kept one of the two threads for logs busy."""
    record = add_job(store)
    run_to_running(store, record.uid)
    sink = sink_of(logs, record)
    for n in range(500):
        say(sink, str(n))
    sink.flush()
    matcher = make_matcher("^(9|8)$", is_expression=True, ignores_case=False)
    cursor = logs.cursor(record, matcher=matcher)
    assert sum(1 for _ in cursor.skip_in_turns(3)) >= 500
    assert texts_of(cursor.read()) == ["8", "9"]
    sink.close()


def test_a_reading_of_long_lines_ends_early_and_none_is_left_out(store, logs):
    """Eight readers of one line of 50 MB took a gigabyte."""
    record = add_job(store)
    run_to_running(store, record.uid)
    sink = sink_of(logs, record)
    texts = [f"{n} {'x' * 30_000}" for n in range(100)]
    for text in texts:
        say(sink, text)
    sink.close()
    cursor, read_texts = logs.cursor(record, task="master-replica-0"), []
    while not cursor.has_all:
        lines = cursor.read()
        assert sum(len(line.text) for line in lines) < 2 * READ_LENGTH_MAX
        read_texts += texts_of(lines)
    assert read_texts == texts


def texts_of(lines):
    return [line.text for line in lines]


def test_what_cannot_change_any_more_is_not_looked_at_every_time(store, logs):
    """A server that has run for months has the folders of many jobs that are over."""
    over = [add_job(store, job_id=f"j_{n}") for n in range(3)]
    for record in over:
        run_to_running(store, record.uid)
        sink = sink_of(logs, record)
        say(sink, "line")
        sink.close()
        move(store, record.uid, JobState.SUCCEEDED)
    looks = []

    class Watched(JobLog):
        def prune(self, uid, bytes_max):
            looks.append(uid)
            return super().prune(uid, bytes_max)

    now = [datetime.now(UTC).timestamp()]
    retention = Retention(
        store=store,
        job_log=Watched(logs.job_log.root),
        bytes_max=10**6,
        days_max=30.0,
        moment_before=lambda span: moment(now[0]) - span,
    )
    retention.tidy()
    assert set(looks) == {record.uid for record in over}
    looks.clear()
    retention.tidy()
    assert looks == []
    now[0] += 31 * DAY_S
    retention.tidy()
    assert [len(logs.job_log.tail(record.uid, 9)) for record in over] == [0, 0, 0]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_followed_log_ends_with_the_event_that_its_end_adds(store, logs, is_new):
    """A reader does not wait for accounting, which may add the event at the same moment."""
    record = add_job(store)
    settled = []

    def settle(uid):
        settled.append(uid)
        store.add_event(uid, NewEvent(kind="GOODPUT", message="Goodput 93.3 %."))
        return is_new

    settling = replace(logs, settle=settle)
    run_to_running(store, record.uid)
    settling.cursor(record, follows=True).read()
    assert not settled, "it runs"
    move(store, record.uid, JobState.SUCCEEDED, NewEvent(kind="SUCCEEDED", message="Done."))
    lines = list(follow(settling, record))
    assert [line.text for line in lines][-2:] == ["Done.", "Goodput 93.3 %."]
    assert settled == [record.uid]
    for cursor in (
        settling.cursor(record, task="master-replica-0", follows=True),  # has no events
        settling.cursor(record),  # ends with what there is
    ):
        cursor.read()
        assert cursor.is_over
    assert settled == [record.uid]
