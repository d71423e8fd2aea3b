"""A head without an end costs the server nothing, and an ordinary one is not in its way."""

import json
import socket

import pytest

from api.support import Seen, application, method, serving
from trainshed.api import bounded_heads
from trainshed.api.bounded_heads import HEAD_BYTES_MAX
from trainshed.model.access import AccessRole

JOBS = "/v1/projects/{project}/jobs"
#: More than any socket holds by itself, so that a server which goes on reading is found out.
ENDLESS = 64 << 20
BEGIN = b"POST /v1/projects/demo/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer demo\r\n"
CHUNKED = BEGIN + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"


@pytest.fixture(scope="module")
def port():
    rows = [method("POST", JOBS, Seen(), role=AccessRole.SUBMITTER, body="*")]
    app = application(rows, body_bytes_max=1 << 20)
    with serving(app) as port:
        yield port


def answer_of(connection):
    answer = b""
    while piece := connection.recv(1 << 16):
        answer += piece
    return answer


def exchange(port, *pieces):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for piece in pieces:
            connection.sendall(piece)
        return answer_of(connection)


@pytest.mark.parametrize(
    "begin",
    [b"GET /", BEGIN + b"X-Long: ", BEGIN, CHUNKED + b"X-Trailer: "],
    ids=["a path", "a header", "many headers", "a trailer"],
)
def test_an_endless_head_is_cut_off_long_before_its_end(port, begin):
    sent, piece = 0, b"X-A: a\r\n" * 2048 if begin == BEGIN else b"a" * (1 << 14)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(begin)
        try:
            while sent < ENDLESS:
                connection.sendall(piece)
                sent += len(piece)
        except (ConnectionResetError, BrokenPipeError):
            pass
    assert sent < ENDLESS


def test_it_is_told_why_in_the_form_of_all_refusals(port, monkeypatch):
    monkeypatch.setattr(bounded_heads, "LINGER_SECONDS", 60)  # this sender may be slow
    answer = exchange(port, BEGIN, b"X-Long: ", *[b"a" * (HEAD_BYTES_MAX // 4)] * 12)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    error = json.loads(body)["error"]
    assert (error["code"], error["status"]) == (431, "INVALID_ARGUMENT")
    assert str(HEAD_BYTES_MAX) in error["message"]


def test_what_clients_send_is_taken_also_many_times_on_one_connection(port):
    body = json.dumps({"a": "b" * 9000}).encode()
    head = BEGIN + b"X-Token: " + b"a" * 18_000 + b"\r\nContent-Length: %d\r\n" % len(body)
    one, last = head + b"\r\n" + body, head + b"Connection: close\r\n\r\n" + body
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        answers = connection.makefile("rb")
        for request in (one, one, one, one, last):
            connection.sendall(request)
            assert answers.readline().startswith(b"HTTP/1.1 200 ")
            while answers.readline().strip():
                pass
            assert json.loads(answers.read(len(b'{"ok":true}'))) == {"ok": True}


def test_the_rest_of_a_long_body_is_no_head(port):
    pieces = [b"%x\r\n%s\r\n" % (8192, b" " * 8192)] * 40
    begin = BEGIN + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert exchange(port, begin, *pieces, b"0\r\n\r\n").startswith(b"HTTP/1.1 200 ")
