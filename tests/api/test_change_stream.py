"""The stream of changes: what a page shows is told when it changes, and only what it may see."""

import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import islice

import httpx
import pytest

from api.event_reader import read_events
from api.support import CALLERS, WAIT_S_MAX, application, build_native, client, native_routes
from databases import new_database
from store.builders import add, add_study, advance, go, new_trials, place
from trainshed.api.change_streams import OWNER_STREAMS_MAX, STREAMS_MAX
from trainshed.api.native.stream import stream_router
from trainshed.engines.supervise.record.segments import SegmentWriter
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.log_line import LOG_FOLDER
from trainshed.model.status import JobState
from trainshed.service.jobs.story import Stories
from trainshed.service.log.numbered import NumberedLogs
from trainshed.service.nodes.node_service import NodeService
from trainshed.storage.log_files import JobLog
from trainshed.store.base import StoreFault
from trainshed.store.opening import open_store

STREAM = "/trainshed/v1/stream"
DEMO = {"Authorization": "Bearer demo"}


@pytest.fixture
def store(tmp_path):
    opened = open_store(new_database(tmp_path))
    yield opened
    opened.close()


@contextmanager
def serving_changes(store, folder):
    counted = []
    native = build_native(
        store=store,
        stories=Stories(store),
        numbered_logs=NumberedLogs(store, JobLog(folder / "jobs")),
        nodes=NodeService(store=store),
        count_console_stream=counted.append,
    )
    with client(application([], native=native_routes(stream_router(native)))) as opened:
        opened.counted = counted
        yield opened


@pytest.fixture
def edge(store, tmp_path):
    with serving_changes(store, tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def quiet_edge(tmp_path_factory):
    """A server without jobs, for calls that are refused."""
    folder = tmp_path_factory.mktemp("quiet")
    store = open_store(new_database(folder))
    with serving_changes(store, folder) as opened:
        yield opened
    store.close()


@contextmanager
def streaming(edge, *topics, caller="demo"):
    """An open stream that is ready, as an iterator of its events."""
    headers = {"Authorization": f"Bearer {caller}"}
    with edge.stream("GET", STREAM, params={"topic": topics}, headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        events = read_events(response)
        assert next(events) == ("ready", {})
        yield events


def refusal(edge, *topics, caller="demo"):
    headers = {"Authorization": f"Bearer {caller}"}
    answer = edge.get(STREAM, params={"topic": topics}, headers=headers)
    return answer.status_code, answer.json()["error"]["message"]


def test_a_queue_is_told_of_new_changed_explained_and_ended_jobs(edge, store):
    with streaming(edge, "queue:demo") as events:
        assert edge.counted == [1]
        job = add(store, project="demo", display_name="mine")
        name, change = next(events)
        assert (name, change["topic"]) == ("queue", "queue:demo")
        assert [row["displayName"] for row in change["jobs"]] == ["mine"]
        assert change["counts"] == {"QUEUED": 1}
        store.explain({job.uid: Explanation(reason=Reason.CAPACITY, message="full")})
        assert next(events)[1]["jobs"][0]["reason"] == "CAPACITY"
        place(store, job.uid)
        row = next(events)[1]["jobs"][0]
        assert (row["state"], row["node"]) == ("PREPARING", "n1")
        go(store, job.uid, JobState.FAILED)
        change = next(events)[1]
        assert "endTime" in change["jobs"][0]
        assert change["counts"] == {}
        assert change["gone"] == []
    late_s = time.monotonic() + WAIT_S_MAX
    while edge.counted != [1, -1] and time.monotonic() < late_s:
        time.sleep(0.01)
    assert edge.counted == [1, -1]


def test_a_stream_has_jobs_of_the_callers_projects_only(edge, store):
    with (
        streaming(edge, "queue:-") as mine,
        streaming(edge, "queue:-", caller="other") as theirs,
        streaming(edge, "queue:-", caller="admin") as every,
    ):
        add(store, project="other", display_name="theirs")
        add(store, project="demo", display_name="mine")
        assert [row["displayName"] for row in next(mine)[1]["jobs"]] == ["mine"]
        assert [row["displayName"] for row in next(theirs)[1]["jobs"]] == ["theirs"]
        names = set()
        while names != {"mine", "theirs"}:
            _, change = next(every)
            assert change["topic"] == "queue:-"
            names |= {row["displayName"] for row in change["jobs"]}


@pytest.mark.parametrize(
    ("topic", "status", "words"),
    [
        ("queue:other", 403, "Permission denied on project other"),
        ("job:other/1", 403, "Permission denied on project other"),
        ("job:demo/none", 404, "has no job none"),
        ("queue", 400, "topic must be one of queue:PROJECT, job:PROJECT/JOB"),
        ("nodes:demo", 400, "topic must be one of"),
        ("everything", 400, "got 'everything'"),
        ("job:demo", 400, "topic must be one of"),
        ("", 400, "topic must be one of"),
    ],
)
def test_a_topic_that_cannot_be_sent_is_refused(quiet_edge, topic, status, words):
    answered, message = refusal(quiet_edge, topic)
    assert answered == status
    assert words in message


def test_a_stream_needs_a_topic_and_has_at_most_sixteen(quiet_edge):
    assert refusal(quiet_edge)[0] == 400
    assert refusal(quiet_edge, *["queue:demo"] * 17)[0] == 400


def test_a_job_is_told_until_it_is_deleted(edge, store):
    job = add(store, project="demo")
    topic = f"job:demo/{job.uid}"
    with streaming(edge, topic, "queue:demo") as events:
        place(store, job.uid)
        changes = dict(islice(events, 2))
        assert changes["job"]["topic"] == topic
        assert changes["job"]["summary"]["state"] == "PREPARING"
        assert changes["queue"]["jobs"][0]["state"] == "PREPARING"
        go(store, job.uid, JobState.SUCCEEDED)
        assert set(dict(islice(events, 2))) == {"job", "queue"}
        store.delete_job(job.uid)
        assert next(events) == ("job", {"topic": topic})


def test_a_log_is_told_when_it_grows(edge, store, tmp_path):
    job = add(store, project="demo")
    place(store, job.uid)
    folder = tmp_path / "jobs" / str(job.uid) / "1" / LOG_FOLDER
    folder.mkdir(parents=True)
    writer = SegmentWriter(folder)
    with streaming(edge, f"log:demo/{job.uid}") as events:
        writer.line("workerpool0-0", "step 1", severity="INFO", stream="stdout")
        writer.flush()
        name, change = next(events)
        assert (name, change["topic"]) == ("log", f"log:demo/{job.uid}")
        assert change["total"] == 1
    writer.close()


def test_a_study_is_told_of_its_trials(edge, store):
    study = add_study(store, project="demo")
    with streaming(edge, "study:demo/tune") as events:
        advance(store, study.uid, new_trials=new_trials(1, 2))
        name, change = next(events)
        assert (name, change["trials"], change["total"]) == ("study", [1, 2], 2)
        assert change["states"] == {"ACTIVE": 2}


@contextmanager
def streams_of(edge, callers):
    """An open stream of each caller, and the HTTP client that holds them."""
    many = httpx.Limits(max_connections=300)
    options = {"limits": many, "timeout": WAIT_S_MAX, "trust_env": False}
    with httpx.Client(base_url=edge.base_url, **options) as http, ExitStack() as streams:
        for caller in callers:
            streams.enter_context(streaming(http, "queue:demo", caller=caller))
        yield http


def test_the_201st_stream_is_refused_with_a_time_to_try_again(quiet_edge, monkeypatch):
    for number in range(STREAMS_MAX):
        name = f"page-{number % 10}"
        monkeypatch.setitem(CALLERS, name, replace(CALLERS["demo"], name=name))
    with streams_of(quiet_edge, [f"page-{number % 10}" for number in range(STREAMS_MAX)]) as http:
        answer = http.get(STREAM, params={"topic": "queue:demo"}, headers=DEMO)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "5"
        assert "200 pages already" in answer.json()["error"]["message"]
        assert "every 5 s" in answer.json()["error"]["message"]
    wait_until(lambda: http_status(quiet_edge) == 200)


def test_the_21st_stream_of_a_token_is_refused_and_others_are_not(quiet_edge):
    with streams_of(quiet_edge, ["demo"] * OWNER_STREAMS_MAX) as http:
        answer = http.get(STREAM, params={"topic": "queue:demo"}, headers=DEMO)
        assert answer.status_code == 503
        assert "has 20 streams of changes already" in answer.json()["error"]["message"]
        with streaming(http, "queue:demo", caller="admin"):
            pass
    wait_until(lambda: http_status(quiet_edge) == 200)


def http_status(edge):
    """The status of a new stream, which is closed at once."""
    with edge.stream("GET", STREAM, params={"topic": "queue:demo"}, headers=DEMO) as response:
        return response.status_code


def wait_until(holds):
    deadline = time.monotonic() + WAIT_S_MAX
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_token_that_ends_closes_its_streams(edge, monkeypatch):
    with streaming(edge, "queue:demo") as events:
        monkeypatch.delitem(CALLERS, "demo")
        began = time.monotonic()
        assert list(events) == []
        assert time.monotonic() - began < WAIT_S_MAX


def test_a_database_that_is_away_is_told_and_the_page_reads_again_afterwards(
    edge, store, monkeypatch
):
    with streaming(edge, "queue:demo") as events:
        with monkeypatch.context() as away:
            away.setattr(type(store), "open_marks", fail)
            name, document = next(events)
            assert name == "away"
            assert "database" in document["message"]
        assert next(events) == ("ready", {})
        add(store, project="demo")
        assert next(events)[0] == "queue"


def fail(*_):
    raise StoreFault("the database is away")
