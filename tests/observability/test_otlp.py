"""Spans reach a collector by OTLP, and its answers are understood."""

import resource

import pytest

from collector import Collector, attributes_of, skip_without_opentelemetry
from trainshed.observability.span_exporter import Sent
from trainshed.observability.spans import SpanEvent, SpanKind, SpanLink, TraceSpan

skip_without_opentelemetry()

SPAN = TraceSpan(
    name="job.running",
    trace_id=(1 << 127) + 5,
    span_id=(1 << 63) + 6,
    parent_id=7,
    start_ns=1_795_219_200_000_000_000,
    end_ns=1_795_219_201_000_000_001,
    attributes={"text": "a", "number": 3, "flag": True, "nodes": ("n1", "n2")},
    events=(SpanEvent("hung", 1_795_219_200_500_000_000, {"task": "a"}),),
    links=(SpanLink(8, 9),),
    error="it failed",
)


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture
def make(collector, monkeypatch):
    from trainshed.observability.otlp import OtlpCollector  # noqa: PLC0415 - after the skip

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
    made = []

    def make(url=f"{collector.url}/v1/traces"):
        made.append(OtlpCollector(url, version="1", attributes={"service.instance.id": "n-1"}))
        return made[-1]

    yield make
    for sender in made:
        sender.close()


def test_a_span_arrives_whole(make, collector, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=abc")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=lab")
    assert make().send([SPAN]) is Sent.DONE
    [span] = collector.spans
    assert (span.name, span.kind) == ("job.running", 1)
    ids = (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
    assert ids == (f"{SPAN.trace_id:032x}", f"{SPAN.span_id:016x}", f"{7:016x}")
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (SPAN.start_ns, SPAN.end_ns)
    assert attributes_of(span) == {**SPAN.attributes, "nodes": ["n1", "n2"]}
    assert [(event.name, event.time_unix_nano) for event in span.events] == [
        ("hung", SPAN.events[0].at_ns)
    ]
    assert int.from_bytes(span.links[0].trace_id, "big") == 8
    assert (span.status.code, span.status.message) == (2, "it failed")
    assert collector.resources[0]["service.name"] == "trainshed"
    assert collector.resources[0]["deployment.environment"] == "lab"
    assert collector.headers[0]["x-key"] == "abc"


def test_each_kind_of_span_has_its_kind_of_opentelemetry(make, collector):
    make().send(
        [
            TraceSpan(name=kind.name, trace_id=1, span_id=2, kind=kind, start_ns=1, end_ns=2)
            for kind in SpanKind
        ]
    )
    assert {span.name: span.kind for span in collector.spans} == {
        "INTERNAL": 1,
        "SERVER": 2,
        "CLIENT": 3,
    }


@pytest.mark.parametrize(
    ("status", "result"),
    [
        *((status, Sent.REFUSED) for status in (400, 413, 422)),
        *((status, Sent.AWAY) for status in (401, 404, 429, 500, 503)),
    ],
)
def test_what_a_collector_answers_decides_whether_spans_may_be_sent_again(
    make, collector, status, result
):
    collector.status = status
    assert make().send([SPAN]) is result


def test_a_collector_that_hangs_or_is_away_ends_in_time(make, collector):
    collector.is_open.clear()
    assert make().send([SPAN]) is Sent.AWAY
    collector.close()
    assert make().send([SPAN]) is Sent.AWAY


@pytest.mark.parametrize(("status", "result"), [(200, Sent.DONE), (400, Sent.REFUSED)])
def test_a_long_answer_is_not_read(make, collector, status, result):
    collector.status, collector.answer_bytes = status, 1 << 30
    peak_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert make().send([SPAN]) is result
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_before < 100_000, "KiB"


def test_a_name_has_no_password(make):
    assert make("http://user:secret@127.0.0.1:9/v1/traces").name == "http://127.0.0.1:9/v1/traces"
