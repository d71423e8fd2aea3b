"""The events that wait for one reader: bounded, whatever the reader does."""

import asyncio
import json
from unittest.mock import MagicMock

from trainshed.api import change_streams
from trainshed.api.change_streams import (
    PENDING_BYTES_MAX,
    PENDING_MAX,
    ChangeStream,
    make_frame,
    send_within,
)
from trainshed.api.connections import CONNECTION
from trainshed.service.changes.topics import TopicKind, TopicScope

TOPICS = {
    "queue:demo": TopicScope(TopicKind.QUEUE, "demo"),
    "nodes": TopicScope(TopicKind.NODES, "demo"),
}


def next_piece(stream):
    return asyncio.run(anext(stream.frames()))


def test_an_event_has_its_topic_beside_the_fields_of_its_document():
    assert make_frame("ready") == b"event: ready\ndata: {}\n\n"
    assert make_frame("job", "job:a/b") == b'event: job\ndata: {"topic":"job:a/b"}\n\n'
    frame = make_frame("log", 'log:a/"b"', b'{"total":7}')
    data = frame.split(b"data: ")[1]
    assert json.loads(data) == {"topic": 'log:a/"b"', "total": 7}


def test_events_wait_in_order_and_are_taken_once():
    stream = ChangeStream(TOPICS)
    for number in range(3):
        stream.push(b"%d;" % number)
    assert next_piece(stream) == b"0;1;2;"
    assert next_piece(stream) == b""


def test_a_reader_that_is_too_slow_reads_its_topics_again():
    for frames in ([b"x"] * (PENDING_MAX + 1), [b"x" * (PENDING_BYTES_MAX + 1)]):
        stream = ChangeStream(TOPICS)
        for frame in frames:
            stream.push(frame)
        stream.push(b"later;")
        resyncs = b"".join(make_frame("resync", text) for text in TOPICS)
        assert next_piece(stream) == resyncs + b"later;"


def test_a_reader_that_reads_nothing_is_disconnected(monkeypatch):
    monkeypatch.setattr(change_streams, "SEND_S_MAX", 0.01)
    connection = MagicMock()
    is_full = asyncio.Event()

    async def send(message):
        if message["body"]:
            await is_full.wait()

    bounded_send = send_within({"state": {CONNECTION: connection}}, send)
    asyncio.run(bounded_send({"body": b""}))
    assert not connection.cut.called
    asyncio.run(bounded_send({"body": b"x"}))
    assert connection.cut.called
