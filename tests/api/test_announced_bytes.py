"""A file that shrinks while it is served ends its connection, with one line in the log."""

import http.client
import logging

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from api.support import serving
from trainshed.api.announced_bytes import AnnouncedBytes


def answer_with(pieces, length, fault=None):
    async def stream():
        for piece in pieces:
            yield piece
        if fault:
            raise fault

    async def endpoint(_request):
        return AnnouncedBytes(stream(), 200, {"Content-Length": str(length)}, "gs://mine/x")

    return Starlette(routes=[Route("/", endpoint)])


def read(port, verb="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(verb, "/")
    answer = connection.getresponse()
    try:
        return answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (None, "only 3 of 10 announced bytes could be read"),
        (OSError(5, "I/O error"), "I/O error"),
    ],
)
def test_a_stream_that_ends_early_cuts_its_connection_with_one_line(caplog, fault, words):
    cut = pytest.raises((http.client.IncompleteRead, ConnectionError))
    with serving(answer_with([b"abc"], 10, fault)) as port, caplog.at_level(logging.INFO), cut:
        read(port)
    lines = [record for record in caplog.records if record.levelno > logging.INFO]
    assert [record.getMessage() for record in lines] == [
        f"cannot serve all of gs://mine/x: {'[Errno 5] ' * bool(fault)}{words}"
    ]
    assert lines[0].exc_info is None


def test_what_is_all_there_is_served(caplog):
    with serving(answer_with([b"abc", b"def"], 6)) as port:
        assert read(port) == b"abcdef"
        assert read(port, "HEAD") == b""
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
