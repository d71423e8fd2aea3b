"""A trainer joins the trace of its job, and the log of the server is JSON without a secret."""

import json

import pytest

from collector import Collector, skip_without_opentelemetry
from e2e.support import PROJECT, custom_job, log_lines, native, serving, submit, wait_until

skip_without_opentelemetry()

JOBS_TELL_BY_FILES = True

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def collector():
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory, collector):
    config = f'[otel]\nendpoint = "{collector.url}"\n'
    folder = tmp_path_factory.mktemp("traces") / "data"
    with serving(folder, "--log-format", "json", config=config) as server:
        yield server


#: What a trainer with OpenTelemetry does.
JOINING = """
import os
from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
carrier = {"traceparent": os.environ["TRACEPARENT"]}
parent = get_current_span(TraceContextTextMapPropagator().extract(carrier)).get_span_context()
print("joined", f"{parent.trace_id:032x}-{parent.span_id:016x}")
"""


def test_a_trainer_with_opentelemetry_continues_the_span_of_its_attempt(server, collector):
    name = submit(server, custom_job("child", JOINING))
    server.wait_for(f"/v1/{name}", {"JOB_STATE_SUCCEEDED"})
    uid = native(server, name)["uid"]
    wait_until(lambda: any(s.name == "job" for s in collector.job_spans(uid).values()))
    attempts = [s for s in collector.job_spans(uid).values() if s.name == "job.attempt"]
    root = next(s for s in collector.job_spans(uid).values() if s.name == "job")
    creation = next(s for s in collector.spans if s.span_id == root.links[0].span_id)
    assert creation.name == "POST /v1/projects/{project}/locations/{location}/customJobs"
    lines = [line["message"] for line in log_lines(server, name) if "joined" in line["message"]]
    names = json.loads((server.data_dir / "jobs" / uid / "1" / "job.json").read_text())
    assert (names["project"], names["job"]) == (PROJECT, name.rpartition("/")[2])
    assert lines == [f"joined {attempts[0].trace_id.hex()}-{attempts[0].span_id.hex()}"]


def test_the_log_is_json_and_has_no_secret(server):
    """The lines of the start are for people; each later line is a record."""
    output = server.output()
    records = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    methods = {record.get("method") for record in records}
    assert "POST /v1/projects/{project}/locations/{location}/customJobs" in methods
    assert all(record["ts"] and record["logger"].startswith("trainshed") for record in records)
    assert server.token not in output
    assert "Bearer" not in output
