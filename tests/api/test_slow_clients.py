"""Half requests, slow bodies and idle connections, on a real server whose clock a test moves."""

import json
import socket
import time
from contextlib import ExitStack

import pytest

from api.support import WAIT_S_MAX, Seen, application, method, serving
from trainshed.api.connections import (
    ConnectionLimits,
    Connections,
    ConnectionWait,
    Times,
    limits_of,
)
from trainshed.model.access import AccessRole

JOBS = "/v1/projects/{project}/jobs"
LINE = b"POST /v1/projects/demo/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n"
TOKEN = b"Authorization: Bearer demo\r\n"
SOME_BYTES = b" " * 9999
TIMES = Times()


class Server:
    """A server whose clock stands still until a test moves it."""

    def __init__(self, stack):
        self._stack = stack
        self.now = 0.0

    def start(self, limits=None, times=TIMES):
        rows = [method("POST", JOBS, Seen(), role=AccessRole.SUBMITTER, body="*")]
        app = application(rows, body_bytes_max=1 << 20)
        limits = limits or limits_of(1024)
        self.connections = Connections(limits, times, clock=lambda: self.now)
        self._port = self._stack.enter_context(serving(app, connections=self.connections))
        return self

    def connect(self):
        address = ("127.0.0.1", self._port)
        return self._stack.enter_context(socket.create_connection(address, timeout=WAIT_S_MAX))

    def wait_until(self, is_so):
        """What was sent arrives when it likes."""
        until = time.monotonic() + WAIT_S_MAX
        while not any(is_so(connection) for connection in list(self.connections)):
            assert time.monotonic() < until
            time.sleep(0.005)


@pytest.fixture
def server():
    with ExitStack() as stack:
        yield Server(stack)


def rest_of(connection):
    """What the server sends until it closes; the test times out if it never does."""
    content = b""
    while piece := connection.recv(1 << 16):
        content += piece
    return content


def ask(connection, *head, body=b"{}"):
    connection.sendall(LINE + b"".join(head) + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    answer = connection.makefile("rb")
    status = int(answer.readline().split()[1])
    size = 0
    while line := answer.readline().strip():
        name, _, value = line.partition(b":")
        size = int(value) if name.lower() == b"content-length" else size
    answer.read(size)
    return status


@pytest.mark.parametrize(
    ("begin", "waits", "seconds", "what"),
    [
        (b"", ConnectionWait.HEAD, TIMES.head_s, "head"),
        (LINE, ConnectionWait.HEAD, TIMES.head_s, "head"),
        (LINE + TOKEN + b"Content-Length: 9\r\n\r\n{", ConnectionWait.BODY, TIMES.body_s, "body"),
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_half_a_request_is_ended_with_the_reason(server, begin, waits, seconds, what):
    connection = server.start().connect()
    connection.sendall(begin)
    server.wait_until(lambda peer: peer.waits is waits)
    server.now += seconds + 1
    head, _, body = rest_of(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert json.loads(body)["error"]["message"] == f"the request's {what} arrived too slowly"


def test_the_rest_of_a_refused_body_has_its_time_too(server):
    connection = server.start().connect()
    connection.sendall(LINE + b"Content-Length: 99999\r\n\r\n" + SOME_BYTES)
    assert connection.recv(12) == b"HTTP/1.1 403"
    server.now += TIMES.body_s + 1
    assert b"no credentials" in rest_of(connection)


def test_a_body_that_comes_slowly_but_comes_is_taken(server):
    connection = server.start().connect()
    connection.sendall(LINE + TOKEN + b"Content-Length: 40000\r\nConnection: close\r\n\r\n")
    server.wait_until(lambda peer: peer.waits is ConnectionWait.BODY)
    bought, due = 1000 / TIMES.body_bytes_per_s, TIMES.body_s
    for piece in (b"{" + b" " * 999, *[b" " * 1000] * 38):
        server.now += 2.5  # a minute and a half in all
        due = min(due + bought, server.now + TIMES.body_s)
        connection.sendall(piece)
        server.wait_until(lambda peer, due=due: peer.due == pytest.approx(due))
    connection.sendall(b" " * 999 + b"}")
    assert rest_of(connection).startswith(b"HTTP/1.1 200 ")


def test_only_who_has_shown_a_token_is_kept_for_its_next_call(server):
    server.start(times=Times(head_s=0.2, keep_alive_s=WAIT_S_MAX))
    authenticated, stranger = server.connect(), server.connect()
    assert ask(stranger, b"Authorization: Bearer nobody\r\n") == 401
    assert ask(authenticated, TOKEN) == 200
    assert rest_of(stranger) == b""
    assert ask(authenticated, TOKEN) == 200


def test_new_callers_get_their_turn_among_half_heads(server):
    connect = server.start(
        ConnectionLimits(connections=16, unauthenticated=8, per_address=4)
    ).connect
    authenticated = connect()
    assert ask(authenticated, TOKEN) == 200
    half = [connect() for _ in range(40)]
    for stranger in half[:20]:
        stranger.sendall(LINE)
    assert [ask(connect(), TOKEN) for _ in range(5)] == [200] * 5
    assert ask(authenticated, TOKEN) == 200


def test_what_is_no_http_is_refused_and_a_flood_of_it_is_few_lines(server, caplog):
    connect = server.start().connect
    for _ in range(20):
        connection = connect()
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert rest_of(connection).startswith(b"HTTP/1.1 400 ")
    assert [line for line in caplog.messages if "HTTP" in line] == [
        (
            "closed 1 connection(s), the last from 127.0.0.1: "
            "the client did not send an HTTP/1.1 request"
        )
    ]
