"""The events that wait for one reader: bounded, whatever the reader does."""

import asyncio
import json
from unittest.mock import MagicMock

from trainshed.api import change_streams
from trainshed.api.change_streams import (
    PENDING_BYTES_MAX,
    PENDING_MAX,
    ChangeStream,
    StreamOwner,
    make_frame,
    send_within,
)
from trainshed.api.connections import CONNECTION
from trainshed.model.refusals import Code, Refusal
from trainshed.service.changes.topics import TopicKind, TopicScope

TOPICS = {
    "queue:demo": TopicScope(TopicKind.QUEUE, "demo"),
    "nodes": TopicScope(TopicKind.NODES, "demo"),
}


async def admit():
    return MagicMock()


def next_piece(stream):
    return asyncio.run(anext(stream.frames(admit)))


def test_an_event_has_its_topic_beside_the_fields_of_its_document():
    assert make_frame("ready") == b"event: ready\ndata: {}\n\n"
    assert make_frame("job", "job:a/b") == b'event: job\ndata: {"topic":"job:a/b"}\n\n'
    frame = make_frame("log", 'log:a/"b"', b'{"total":7}')
    data = frame.split(b"data: ")[1]
    assert json.loads(data) == {"topic": 'log:a/"b"', "total": 7}


def test_events_wait_in_order_and_are_taken_once():
    stream = ChangeStream(TOPICS, StreamOwner())
    for number in range(3):
        stream.push(b"%d;" % number)
    assert next_piece(stream) == b"0;1;2;"
    stream.push(b"3;")
    assert next_piece(stream) == b"3;"


def test_a_silent_stream_has_comments(monkeypatch):
    monkeypatch.setattr(change_streams, "COMMENT_S", 0.0)
    assert next_piece(ChangeStream(TOPICS, StreamOwner())) == b":\n\n"


def test_streams_of_a_token_share_its_checks(monkeypatch):
    monkeypatch.setattr(change_streams, "CHECK_S", 0.01)
    owner, checks, is_valid = StreamOwner(), [], [True, True, False]

    async def check():
        checks.append(len(checks))
        if not is_valid[min(len(checks), 3) - 1]:
            raise Refusal(Code.UNAUTHENTICATED, "the token has ended")

    async def read_all(stream):
        return [piece async for piece in stream.frames(check)]

    async def read_five():
        return await asyncio.gather(*(read_all(ChangeStream(TOPICS, owner)) for _ in range(5)))

    assert asyncio.run(read_five()) == [[]] * 5
    assert len(checks) <= 3 + 4, "after a refusal each of the others checks once"


def test_a_database_that_is_away_ends_no_stream(monkeypatch):
    monkeypatch.setattr(change_streams, "CHECK_S", 0.0)

    async def check():
        raise Refusal(Code.UNAVAILABLE, "the database does not answer")

    assert asyncio.run(StreamOwner().is_admitted(check))


def test_a_reader_that_is_too_slow_reads_its_topics_again():
    for frames in ([b"x"] * (PENDING_MAX + 1), [b"x" * (PENDING_BYTES_MAX + 1)]):
        stream = ChangeStream(TOPICS, StreamOwner())
        for frame in frames:
            stream.push(frame)
        stream.push(b"later;")
        resyncs = b"".join(make_frame("resync", text) for text in TOPICS)
        assert next_piece(stream) == resyncs + b"later;"


def test_a_reader_that_reads_nothing_is_disconnected(monkeypatch):
    monkeypatch.setattr(change_streams, "SEND_S_MAX", 0.01)
    connection = MagicMock()
    is_full = asyncio.Event()

    connection.cut.side_effect = is_full.set

    async def send(message):
        if message["body"]:
            await is_full.wait()

    async def send_both():
        bounded_send = send_within({"state": {CONNECTION: connection}}, send)
        await bounded_send({"body": b""})
        assert not connection.cut.called
        await bounded_send({"body": b"x"})

    asyncio.run(send_both())
    assert connection.cut.called
