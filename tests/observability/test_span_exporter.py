"""Spans go to the collector in batches; what cannot be sent is counted, or waits in the store."""

import re
import threading
import time
from pathlib import Path

import pytest

import trainshed
from trainshed.observability.span_exporter import BATCH_MAX, Sent, SpanExporter
from trainshed.observability.spans import TraceSpan

WAIT_S_MAX = 60


def spans(count, first=1):
    return [
        TraceSpan(name="s", trace_id=1, span_id=number, start_ns=1, end_ns=2)
        for number in range(first, first + count)
    ]


class Desk:
    """A collector that answers as a test says."""

    name = "http://collector"

    def __init__(self, answer=Sent.DONE):
        self.answer = answer
        self.batches = []
        self.is_open = threading.Event()
        self.is_open.set()
        self.is_closed = threading.Event()

    def send(self, batch):
        self.is_open.wait(WAIT_S_MAX)
        self.batches.append(list(batch))
        return self.answer

    def close(self):
        self.is_open.set()
        self.is_closed.set()


class SlowDesk(Desk):
    """Answers each request after a while."""

    def send(self, batch):
        time.sleep(0.3)
        return super().send(batch)


class Stored:
    """Spans in a store, in parts; ``note_sent`` moves the mark."""

    def __init__(self, *parts):
        self.parts = parts
        self.mark = 0

    def next_spans(self):
        return self.parts[self.mark] if self.mark < len(self.parts) else ()

    def note_sent(self):
        self.mark += 1


def wait_until(is_so):
    deadline = time.monotonic() + WAIT_S_MAX
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def make():
    exporters = []

    def start(desk, source=None, **options):
        exporter = SpanExporter(lambda: desk, every_s=0.01, share=1.0, **options)
        exporter.start(source)
        exporters.append(exporter)
        return exporter

    yield start
    for exporter in exporters:
        exporter.stop()


def test_spans_arrive_in_order_and_in_batches(make):
    desk = Desk()
    exporter = make(desk)
    exporter.add(spans(BATCH_MAX + 5))
    wait_until(lambda: sum(map(len, desk.batches)) == BATCH_MAX + 5)
    assert max(map(len, desk.batches)) <= BATCH_MAX
    assert [span for batch in desk.batches for span in batch] == spans(BATCH_MAX + 5)
    assert exporter.dropped == 0


def test_a_collector_that_hangs_costs_only_spans(make):
    desk = Desk()
    desk.is_open.clear()
    exporter = make(desk, queue_max=BATCH_MAX)
    for _ in range(20):
        exporter.add(spans(100))
    assert exporter.is_crowded
    assert exporter.dropped >= 2000 - 2 * BATCH_MAX
    exporter.stop()
    assert desk.is_closed.wait(WAIT_S_MAX)


def test_a_collector_that_answers_slowly_gets_what_the_queue_holds(make):
    desk = SlowDesk()
    exporter = make(desk, queue_max=BATCH_MAX)
    for _ in range(20):
        exporter.add(spans(100))
    wait_until(lambda: sum(map(len, desk.batches)) + exporter.dropped == 2000)
    assert exporter.dropped >= 2000 - 2 * BATCH_MAX
    assert desk.batches


@pytest.mark.parametrize("answer", [Sent.AWAY, Sent.REFUSED])
def test_a_batch_that_cannot_be_sent_is_counted_and_logged_once(make, answer, caplog):
    exporter = make(Desk(answer))
    for number in range(3):
        exporter.add(spans(5))
        wait_until(lambda number=number: exporter.dropped == 5 * (number + 1))
    assert len([r for r in caplog.records if "http://collector" in r.getMessage()]) == 1


def test_stored_spans_wait_for_a_collector_that_is_away(make):
    desk, source = Desk(Sent.AWAY), Stored(spans(3), spans(BATCH_MAX + 1, 10))
    exporter = make(desk, source)
    wait_until(lambda: len(desk.batches) > 3)
    assert source.mark == 0
    desk.batches.clear()
    desk.answer = Sent.DONE
    wait_until(lambda: source.mark == 2)
    numbers = [span.span_id for batch in desk.batches for span in batch]
    assert numbers[-BATCH_MAX - 1 :] == [span.span_id for span in spans(BATCH_MAX + 1, 10)]
    assert exporter.dropped == 0


def test_stored_spans_that_no_collector_accepts_do_not_hold_up_others(make):
    source = Stored(spans(3), spans(2, 10))
    make(Desk(Sent.REFUSED), source)
    wait_until(lambda: source.mark == 2)


def test_the_end_sends_what_waits():
    desk = Desk()
    exporter = SpanExporter(lambda: desk, every_s=WAIT_S_MAX)
    exporter.start()
    exporter.add(spans(3))
    exporter.stop()
    assert sum(map(len, desk.batches)) == 3
    assert desk.is_closed.is_set()
    SpanExporter(lambda: desk).stop()  # it was never started


def test_a_collector_that_cannot_be_made_leaves_the_server_alone(caplog):
    def broken():
        raise ImportError("no module")

    exporter = SpanExporter(broken)
    exporter.start()
    exporter.stop()
    assert "cannot start sending traces: no module" in caplog.text


def test_only_the_thread_that_sends_loads_opentelemetry():
    """One module imports it, and that module is imported inside a function."""
    source = Path(trainshed.__file__).parent
    module = re.compile(r"(?m)^(?:from|import) (?:opentelemetry|trainshed\.observability\.otlp)\b")
    importers = [path for path in source.rglob("*.py") if module.search(path.read_text())]
    assert importers == [source / "observability/otlp.py"]
