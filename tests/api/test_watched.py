"""Each request is reported once when it is answered: to the log, and as spans."""

import json
import logging
import queue

import pytest
from fastapi import APIRouter

from api.support import WAIT_S_MAX, Seen, application, client, method, native_routes
from api.test_rest import RAW, native
from trainshed.api.api_names import APIS
from trainshed.api.request_records import is_sampled, log_request, make_spans, trace_requests
from trainshed.model.access import AccessRole
from trainshed.model.refusals import Code, Refusal
from trainshed.observability.logs import REQUESTS, JsonFormatter
from trainshed.observability.spans import REQUEST_TRACE, SpanKind

JOBS = "/v1/projects/{project}/jobs"
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Watch:
    """Remembers what was reported, which is after the client has its answer."""

    def __init__(self):
        self._reported = queue.SimpleQueue()
        self.audited = []

    def __call__(self, answered):
        self._reported.put(answered)

    def audit(self, **fields):
        self.audited.append((fields["method"], fields["status"]))

    def next(self, count=1):
        return [self._reported.get(timeout=WAIT_S_MAX) for _ in range(count)]


class Committing(Seen):
    """A handler that waits for a commit, as the store's writer notes it."""

    def __call__(self, call):
        REQUEST_TRACE.get().add_child("store.commit", 1, 2, {"db.system.name": "sqlite"})
        return super().__call__(call)


@pytest.fixture
def watch():
    return Watch()


@pytest.fixture
def edge(watch):
    methods = [
        method("GET", JOBS, Seen(), query=("pageToken",)),
        method("POST", JOBS, Committing(), role=AccessRole.SUBMITTER, body="*"),
        method("GET", f"{JOBS}/{{job}}", Seen(ZeroDivisionError("secret detail"))),
        method("POST", f"{JOBS}/{{job}}:cancel", Seen(Refusal(Code.NOT_FOUND, "no such job"))),
    ]
    served = application(methods, raw=RAW, native=native, watch=watch, audit=watch.audit)
    with client(served, token="demo") as edge:
        yield edge


def test_a_request_of_each_api_is_reported_with_its_route_and_not_its_path(edge, watch):
    edge.get("/v1/projects/demo/jobs?pageToken=secret")
    edge.get("/storage/v1/b/data/o/a%2Fsecret?alt=media")
    edge.get("/as/demo/storage/v1/b/data/o/secret")
    edge.get("/trainshed/v1/secret")
    edge.get("/healthz")
    edge.get("/nothing/secret")
    requests = watch.next(6)
    assert [(r.api, r.method, r.status) for r in requests] == [
        ("ml_v1", "GET /v1/projects/{project}/jobs", 200),
        ("storage_v1", "GET /storage/v1/b/{bucket}/o/{name:path}", 200),
        ("storage_v1", "GET /storage/v1/b/{bucket}/o/{name:path}", 401),
        ("native", "GET", 200),
        ("probe", "GET /healthz", 200),
        ("content", "GET", 404),
    ]
    assert "secret" not in str([r.method for r in requests])
    assert {r.api for r in requests} <= set(APIS)
    assert requests[0].project == "demo"


def test_a_refused_request_has_its_status_and_its_route(edge, watch):
    edge.post("/v1/projects/demo/jobs/j:cancel")
    edge.get("/v1/projects/other/jobs")
    assert [(r.status, r.method, r.job) for r in watch.next(2)] == [
        (404, "POST /v1/projects/{project}/jobs/{job}:cancel", "j"),
        (403, "GET /v1/projects/{project}/jobs", ""),
    ]


def test_a_request_of_the_native_api_names_its_project_and_job(watch):
    router = APIRouter()

    @router.get("/projects/{project}/jobs/{job}")
    def names(project, job):
        return {"project": project, "job": job}

    app = application([], native=native_routes(router), watch=watch)
    with client(app, token="demo") as edge:
        edge.get("/trainshed/v1/projects/demo/jobs/census")
    [answered] = watch.next()
    assert (answered.project, answered.job, answered.status) == ("demo", "census", 200)


def test_the_record_of_a_request_has_no_secret(edge, watch):
    edge.get("/v1/projects/demo/jobs?pageToken=secret", headers={"traceparent": PARENT})
    [answered] = watch.next()
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logger = logging.getLogger(REQUESTS)
    logger.addHandler(handler)
    logger.disabled = False
    level, logger.level = logger.level, logging.INFO
    try:
        log_request(answered)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    text = JsonFormatter().format(records[0])
    record = json.loads(text)
    assert (record["caller"], record["project"], record["status"]) == ("dora", "demo", 200)
    assert record["method"] == "GET /v1/projects/{project}/jobs"
    assert record["trace_id"] == PARENT.split("-")[1]
    assert record["duration_s"] >= 0
    assert "secret" not in text
    assert "Bearer" not in text


def test_an_incident_has_its_number_in_the_logs_and_the_trace(edge, watch, caplog):
    with caplog.at_level(logging.ERROR, "trainshed"):
        answer = edge.get("/v1/projects/demo/jobs/j").json()
    [answered] = watch.next()
    number = answered.trace.incident
    assert number in answer["error"]["message"]
    records = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    assert [record["incident"] for record in records if "error" in record] == [number]
    assert watch.audited == [("GET /v1/projects/{project}/jobs/{job}", f"INTERNAL {number}")]
    span = make_spans(answered)[0]
    assert span.attributes["trainshed.incident"] == number
    assert span.error == "500"
    assert "secret detail" not in str(span)


def test_a_step_that_waits_has_a_span(edge, watch, monkeypatch):
    monkeypatch.setattr("trainshed.api.chain.PART_NS_MIN", 0)
    edge.get("/v1/projects/demo/jobs")
    [answered] = watch.next()
    request, *parts = make_spans(answered)
    assert [part.name for part in parts] == ["recognise", "handle"]
    assert all(request.start_ns <= part.start_ns <= part.end_ns for part in parts)


def test_the_spans_of_a_create_continue_the_callers_trace(edge, watch):
    edge.post("/v1/projects/demo/jobs", json={}, headers={"traceparent": PARENT})
    [answered] = watch.next()
    request, *parts = make_spans(answered)
    [commit] = (part for part in parts if part.name == "store.commit")
    assert f"{request.trace_id:032x}-{request.parent_id:016x}" in PARENT
    assert (request.name, request.kind) == ("POST /v1/projects/{project}/jobs", SpanKind.SERVER)
    assert request.attributes["http.response.status_code"] == 200
    assert (commit.name, commit.parent_id) == ("store.commit", request.span_id)
    assert commit.span_id != request.span_id
    assert make_spans(answered, with_parts=False) == (request,)


class Exporter:
    """What ``trace_requests`` needs of an exporter."""

    is_crowded = False

    def __init__(self):
        self.spans = []

    def add(self, spans):
        self.spans += spans


def test_changes_and_failures_are_traced_and_reads_sometimes(edge, watch):
    for _ in range(120):
        edge.get("/v1/projects/demo/jobs")
    assert 0 < sum(map(is_sampled, watch.next(120))) < 60
    edge.post("/v1/projects/demo/jobs", json={})
    edge.get("/v1/projects/demo/jobs/j")
    edge.get("/v1/projects/demo/jobs", headers={"traceparent": PARENT})
    edge.get("/v1/projects/demo/jobs", headers={"traceparent": PARENT[:-1] + "0"})
    edge.get("/healthz", headers={"traceparent": PARENT})
    requests = watch.next(5)
    assert list(map(is_sampled, requests)) == [True, True, True, False, False]
    exporter = Exporter()
    for answered in requests:
        trace_requests(exporter)(answered)
    assert len(exporter.spans) == 4, "three requests, and the commit of one"


def test_without_a_watch_a_request_has_no_trace():
    traces = []

    def handle(_):
        traces.append(REQUEST_TRACE.get())
        return {}

    with client(application([method("GET", JOBS, handle)]), token="demo") as edge:
        edge.get("/v1/projects/demo/jobs")
    assert traces == [None]
