"""The trace of a job is whole and agrees with its events, whenever the server is killed.

A job of three attempts, whose supervisors are killed; the server is killed in each phase.  Another
job shows that a program gets the span of its attempt.
"""

import json
import os
import signal
from collections import Counter
from datetime import datetime

import pytest

from collector import Collector, attributes_of, skip_without_opentelemetry
from e2e.remains import Remains
from e2e.support import custom_job, log_lines, native, serving, submit, wait_until
from e2e.test_killed_supervisors import attempt, supervisor_of
from e2e.trainers import program

skip_without_opentelemetry()

JOBS_TELL_BY_FILES = True

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(900)]

#: It ends when its folder has the file ``end``.
WAITING = """
import os, pathlib, time
print("parent", os.environ["TRACEPARENT"], flush=True)
while not pathlib.Path({file!r}).exists():
    time.sleep(0.05)
"""


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


def kill_server(server):
    server.kill()
    server.start()


def spans_of(collector, uid):
    """The spans of a job; each span has one content, also if it was sent twice."""
    spans = {}
    for span in list(collector.spans):
        if attributes_of(span).get("trainshed.job.uid") == uid:
            assert spans.setdefault(span.span_id, span) == span
    return spans


def stamps_of(server, name):
    """The kinds of a job's events with their times in ns, to the microsecond."""
    for event in native(server, name, "/events")["events"]:
        time_text = event["time"].rstrip("Z")
        whole, _, fraction = time_text.partition(".")
        seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
        yield event["kind"], event["attempt"], seconds * 10**9 + int(fraction.ljust(9, "0")[:9])


def test_a_job_of_three_attempts_has_a_whole_trace_although_the_server_is_killed_in_each_phase(
    server, collector, tmp_path
):
    end = tmp_path / "end"
    tmp_path.chmod(0o755)
    word = "word-of-traces"
    name = submit(server, custom_job("traced", program(WAITING.format(file=str(end)), word)))
    remains = Remains(server, name, word)
    for number in (1, 2):
        kill_server(server)  # while it waits or prepares
        server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
        wait_until(lambda number=number: native(server, name)["attempt"] == number)
        pid = supervisor_of(attempt(remains, number))
        server.kill()
        os.kill(pid, signal.SIGKILL)
        server.start()
        attempt(remains, number + 1)
    server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    kill_server(server)
    end.touch()
    server.wait_for(f"/v1/{name}", {"JOB_STATE_SUCCEEDED"})
    kill_server(server)
    uid = native(server, name)["uid"]
    wait_until(lambda: "job" in {span.name for span in spans_of(collector, uid).values()})
    spans = list(spans_of(collector, uid).values())
    counts = Counter(span.name for span in spans)
    kinds = Counter(kind for kind, _, _ in stamps_of(server, name))
    assert counts["job.attempt"] == kinds["PREPARING"] == 3
    assert counts["job.queued"] == kinds["RESTARTING"] + 1 == 3
    assert counts["job.preparing"] == 3
    assert counts["job.running"] == kinds["RUNNING"]
    assert counts["job"] == 1
    assert len({span.trace_id for span in spans}) == 1
    times = {stamp for _, _, stamp in stamps_of(server, name)}
    assert {edge for s in spans for edge in (s.start_time_unix_nano, s.end_time_unix_nano)} <= times
    ids = {span.span_id for span in spans}
    assert {span.parent_span_id for span in spans} - {b""} <= ids, "no span is without its parent"


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
    wait_until(lambda: any(s.name == "job" for s in spans_of(collector, uid).values()))
    attempts = [s for s in spans_of(collector, uid).values() if s.name == "job.attempt"]
    root = next(s for s in spans_of(collector, uid).values() if s.name == "job")
    creation = next(s for s in collector.spans if s.span_id == root.links[0].span_id)
    assert creation.name == "POST /v1/projects/{project}/locations/{location}/customJobs"
    lines = [line["message"] for line in log_lines(server, name) if "joined" in line["message"]]
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
