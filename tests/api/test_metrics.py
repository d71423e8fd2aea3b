"""The pages of metrics over HTTP: to whom, in which format, and that answers are counted."""

import asyncio
import gzip
import json
import socket
import threading

import httpx
import pytest
import uvicorn
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families

from api.browsers import make_server
from api.support import WAIT_S_MAX, client
from trainshed.api.api_names import APIS, find_api
from trainshed.api.call import Method
from trainshed.api.connections import Connections, limits_of
from trainshed.api.http_server import HttpServer, OtherApp
from trainshed.api.measured import count_refusal
from trainshed.api.metrics import MetricsPages, open_metrics_app
from trainshed.api.threads import THREADS, THREADS_MAX
from trainshed.config.settings import MetricsSettings
from trainshed.model.access import AccessRole
from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth import tokens
from trainshed.service.telemetry.families import FAMILIES
from trainshed.service.telemetry.job_families import JOB_FAMILIES
from trainshed.store.base import StoreFault

JOB = {"displayName": "census", "jobSpec": {"workerPoolSpecs": []}}
HOST = "127.0.0.1"
OF = "/v1/projects/demo/locations/us-central1/customJobs"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("metrics")
    application = make_server(folder, metrics=MetricsSettings(jobs=True))
    yield application
    application.stop()


@pytest.fixture(scope="module")
def edge(server):
    with client(server.http) as edge:
        yield edge


@pytest.fixture(scope="module")
def overseer(server):
    token = tokens.create(server.store, {"name": "prometheus", "role": "viewer", "project": "*"})
    return {"Authorization": f"Bearer {token.token}"}


def samples(page, parse=text_string_to_metric_families):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in parse(page)
        for sample in family.samples
    }


@pytest.mark.parametrize("path", ["/metrics", "/trainshed/v1/metrics"])
def test_both_addresses_have_the_page_in_the_format_that_is_accepted(edge, overseer, path):
    answer = edge.get(path, headers=overseer)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert samples(answer.text)["trainshed_store_up",] == 1
    accept = "application/openmetrics-text; version=1.0.0,text/plain;version=0.0.4;q=0.5"
    answer = edge.get(path, headers={**overseer, "Accept": accept})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert samples(answer.text, open_families)["trainshed_store_up",] == 1


def test_a_server_has_all_families_but_that_of_traces_which_are_off(
    server, edge, overseer, monkeypatch
):
    monkeypatch.setattr("trainshed.service.telemetry.server_page.FRESH_S", 0.0)
    server.controller.lease_once()
    page = edge.get("/metrics", headers=overseer).text
    names = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")}
    jobs = edge.get("/metrics/jobs", headers=overseer).text
    names |= {line.split()[2] for line in jobs.splitlines() if line.startswith("# TYPE")}
    declared = {family.sample_name for family in (*FAMILIES, *JOB_FAMILIES)}
    assert names == declared - {"trainshed_otel_dropped_total"}


def test_a_page_is_compressed_for_clients_that_accept_it(edge, overseer):
    headers = {**overseer, "Accept-Encoding": "gzip"}
    with edge.stream("GET", "/metrics", headers=headers) as answer:
        packed = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert b"trainshed_store_up 1.0\n" in gzip.decompress(packed)
    plain = edge.get("/metrics", headers={**overseer, "Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers


def test_answers_and_refused_jobs_are_counted(edge, overseer, monkeypatch):
    monkeypatch.setattr("trainshed.service.telemetry.server_page.FRESH_S", 0.0)
    before = samples(edge.get("/metrics", headers=overseer).text)
    assert edge.post(OF, json=JOB, headers=overseer).status_code == 403
    assert edge.get(OF, headers=overseer).status_code == 200
    after = samples(edge.get("/metrics", headers=overseer).text)

    def more(*key):
        return after.get(key, 0) - before.get(key, 0)

    assert more("trainshed_http_requests_total", "aiplatform_v1", "4xx") == 1
    assert more("trainshed_http_requests_total", "aiplatform_v1", "2xx") == 1
    assert more("trainshed_http_request_duration_seconds_count", "aiplatform_v1") == 2
    assert more("trainshed_auth_refusals_total", "role") == 1


@pytest.mark.parametrize("path", ["/metrics", "/trainshed/v1/metrics"])
def test_prometheus_alone_gets_0_before_the_first_value_of_a_series(
    edge, overseer, monkeypatch, path
):
    monkeypatch.setattr("trainshed.service.telemetry.server_page.FRESH_S", 0.0)
    monkeypatch.setattr("trainshed.service.telemetry.first_values.ZERO_S", 60.0)
    key = "trainshed_http_requests_total", "aiplatform_v1", "4xx"
    assert edge.post(OF, json=JOB, headers=overseer).status_code == 403
    prometheus = {**overseer, "X-Prometheus-Scrape-Timeout-Seconds": "10"}
    assert samples(edge.get(path, headers=prometheus).text)[key] == 0
    assert samples(edge.get(path, headers=overseer).text)[key] >= 1


def test_a_refused_job_is_counted_by_its_first_rule(server, edge, overseer, monkeypatch):
    monkeypatch.setattr("trainshed.service.telemetry.server_page.FRESH_S", 0.0)
    token = tokens.create(server.store, {"name": "ada", "role": "submitter", "project": "demo"})
    ada = {"Authorization": f"Bearer {token.token}"}
    assert edge.post(OF, json={"displayName": 7}, headers=ada).status_code == 400
    after = samples(edge.get("/metrics", headers=overseer).text)
    assert [key[1] for key in after if key[0] == "trainshed_jobs_refused_total"] == [
        "aiplatform_v1"
    ]


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/v1/projects/p/jobs/j", "ml_v1"),
        ("/v1/projects/p/locations/l/customJobs", "aiplatform_v1"),
        ("/v1beta1/projects/p/locations/l/customJobs", "aiplatform_v1"),
        ("/ui/projects/p/locations/l/operations/1", "aiplatform_v1"),
        ("/v2/entries:list", "logging_v2"),
        ("/as/TOKEN/storage/v1/b", "storage_v1"),
        ("/upload/storage/v1/b/x/o", "storage_v1"),
        ("/console/static/x.js", "console"),
        ("/trainshed/v1/nodes", "native"),
        ("/trainshed/v1/metrics/jobs", "probe"),
        ("/healthz", "probe"),
        ("/v1/projects/p/locations", "ml_v1"),
        (
            "/v1/projects/{project}/locations/{location}/customJobs/{job}/operations",
            "aiplatform_v1",
        ),
        ("/", "content"),
        ("", "content"),
        ("/no/such/" + "x" * 999, "content"),
    ],
)
def test_the_api_of_a_path_is_one_of_a_closed_set(path, api):
    assert find_api(path) == api
    assert api in APIS


@pytest.mark.parametrize(
    ("verb", "path", "refusal", "counted"),
    [
        ("POST", OF, Refusal(Code.INVALID_ARGUMENT, "x"), [("aiplatform_v1", "invalid_argument")]),
        (
            "POST", "/v1/projects/{project}/jobs",
            Refusal(Code.INVALID_ARGUMENT, "x", [Violation("f", "job-id", "m")]),
            [("ml_v1", "job-id")],
        ),
        ("POST", OF, Refusal(Code.PERMISSION_DENIED, "x"), []),
        ("POST", f"{OF}/{{job}}:cancel", Refusal(Code.INVALID_ARGUMENT, "x"), []),
        ("GET", OF, Refusal(Code.INVALID_ARGUMENT, "x"), []),
    ],
)  # fmt: skip
def test_only_creates_that_are_refused_for_their_document_are_counted(verb, path, refusal, counted):
    method = Method(verb=verb, path=path, role=AccessRole.SUBMITTER, handle=lambda _: {})
    calls = []
    count_refusal(lambda *call: calls.append(call), method, refusal)
    assert calls == counted
    count_refusal(lambda *call: calls.append(call), None, refusal)
    assert calls == counted


def test_the_page_of_jobs_names_its_families_and_is_off_by_default(edge, overseer):
    text = edge.get("/metrics/jobs?family=trainshed_job_info", headers=overseer).text
    assert "# TYPE trainshed_job_info gauge" in text
    assert "trainshed_job_gpus" not in text
    answer = edge.get("/metrics/jobs?family=nope", headers=overseer)
    assert answer.status_code == 400
    assert "family must be one of trainshed_job_info" in answer.json()["error"]["message"]
    with client(open_metrics_app(MetricsPages(lambda *_: ""), "127.0.0.1")) as edge_without:
        message = edge_without.get("/metrics/jobs", headers={"Host": "127.0.0.1"}).json()
    assert "set jobs = true below [metrics]" in json.dumps(message)


def test_without_a_token_no_web_page_can_read_the_pages():
    app = open_metrics_app(MetricsPages(lambda *_: "x 1\n"), "prometheus.internal")
    with client(app) as edge:
        for host, status in (
            ("127.0.0.1:9464", 200), ("localhost:9464", 200), ("prometheus.internal:9464", 200),
            ("rebound.example", 403), ("", 403),
        ):  # fmt: skip
            assert edge.get("/metrics", headers={"Host": host}).status_code == status
        assert edge.post("/metrics", headers={"Host": "localhost"}).status_code == 405
        assert edge.get("/v1/projects", headers={"Host": "localhost"}).status_code == 404


def test_metrics_are_answered_while_all_other_calls_wait_for_a_database_that_hangs():
    answers = threading.Event()
    pages = MetricsPages(lambda *_: "trainshed_store_up 0.0\n")

    async def scrape():
        calls = [asyncio.ensure_future(THREADS.run(answers.wait)) for _ in range(THREADS_MAX)]
        app = open_metrics_app(pages, HOST)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as prometheus:
            page = await asyncio.wait_for(prometheus.get("/metrics"), WAIT_S_MAX)
        answers.set()
        await asyncio.gather(*calls)
        return page.text

    try:
        assert asyncio.run(scrape()) == "trainshed_store_up 0.0\n"
    finally:
        answers.set()


def test_while_the_database_is_away_the_page_needs_the_address_without_a_token(
    server, overseer, monkeypatch
):
    """A token cannot be checked then."""

    def fail(*_, **__):
        raise StoreFault("the database is away")

    monkeypatch.setattr("trainshed.service.telemetry.server_page.FRESH_S", 0.0)
    monkeypatch.setattr("trainshed.store.database.Database.read", fail)
    monkeypatch.setattr("trainshed.service.auth.access.REMEMBERED_S", -1.0)
    with client(server.http) as edge, client(open_metrics_app(server.metrics, HOST)) as open_edge:
        assert edge.get("/metrics", headers=overseer).status_code == 503
        page = open_edge.get("/metrics", headers={"Host": HOST})
    assert samples(page.text)["trainshed_store_up",] == 0


def test_a_name_that_is_no_text_does_not_end_the_page():
    pages = MetricsPages(lambda *_: 'x{node="a\udc80"} 1\n')
    with client(open_metrics_app(pages, HOST)) as edge:
        assert edge.get("/metrics", headers={"Host": HOST}).text == 'x{node="a?"} 1\n'


def test_another_socket_serves_its_own_application_alone():
    def listener():
        return socket.create_server(("127.0.0.1", 0))

    def config(text):
        app = open_metrics_app(MetricsPages(lambda *_: text), "127.0.0.1")
        return uvicorn.Config(app, lifespan="off", log_config=None, ws="none")

    sockets = [listener(), listener()]
    others = [OtherApp(sockets[1], config("other 1\n"))]
    server = HttpServer(config("main 1\n"), Connections(limits_of(1024)), None, others)
    thread = threading.Thread(target=server.run, args=([sockets[0]],), daemon=True)
    thread.start()
    try:
        ports = [opened.getsockname()[1] for opened in sockets]
        texts = [
            httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=WAIT_S_MAX, trust_env=False).text
            for port in ports
        ]
    finally:
        server.should_exit = True
        thread.join(WAIT_S_MAX)
        for opened in sockets:
            opened.close()
    assert texts == ["main 1\n", "other 1\n"]
    assert not thread.is_alive()
