"""Checks the trace of a job of three attempts against its events and its goodput."""

from collections import Counter
from datetime import datetime

import pytest

from collector import attributes_of
from e2e import fleet
from e2e.support import native, wait_until


def check_trace(server, collector, name):
    uid = native(server, name)["uid"]
    wait_until(lambda: "job" in {span.name for span in collector.job_spans(uid).values()})
    spans = list(collector.job_spans(uid).values())
    counts = Counter(span.name for span in spans)
    stamps = list(stamps_of(server, name))
    kinds = Counter(kind for kind, _ in stamps)
    assert counts["job.attempt"] == counts["job.preparing"] == kinds["PREPARING"] == 3
    assert counts["job.queued"] == kinds["RESTARTING"] + 1 == 3
    assert counts["job.running"] == kinds["RUNNING"] == 3
    assert counts["job"] == 1
    assert len({span.trace_id for span in spans}) == 1
    goodput = native(server, name, "/goodput")
    ends_s = [attempt["ended"] for attempt in goodput["attempts"]]
    times = {stamp for _, stamp in stamps} | {round(end_s * 1e9) for end_s in ends_s}
    edges = {edge for s in spans for edge in (s.start_time_unix_nano, s.end_time_unix_nano)}
    in_replicas = {s.end_time_unix_nano for s in spans if s.name == "replica"}
    assert edges <= times | in_replicas
    attempts = sorted(s.end_time_unix_nano / 1e9 for s in spans if s.name == "job.attempt")
    assert attempts == pytest.approx(ends_s, abs=1e-6)
    ids = {span.span_id for span in spans}
    assert {span.parent_span_id for span in spans} - {b""} <= ids, "no span is without its parent"
    (root,) = (span for span in spans if span.name == "job")
    assert attributes_of(root)["trainshed.job.restarts"] == 2
    assert attributes_of(root)["trainshed.job.goodput"] == pytest.approx(goodput["goodput"])


def stamps_of(server, name):
    """The kinds of a job's events with their times in ns."""
    for event in fleet.story(server, name):
        whole, _, fraction = event["time"].rstrip("Z").partition(".")
        seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
        yield event["kind"], seconds * 10**9 + int(fraction.ljust(9, "0")[:9])
