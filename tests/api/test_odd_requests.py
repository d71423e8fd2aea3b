"""Requests that two readers could take for different ones are refused, at every route."""

import json
import socket

import pytest
from starlette.responses import PlainTextResponse

from api.support import Seen, application, method, serving
from trainshed.api.call import RawMethod
from trainshed.model.access import AccessRole

JOBS = "/v1/projects/{project}/jobs"
HANDLE = Seen()


async def storage(request, caller):
    del request
    return PlainTextResponse(caller.name)


async def native(scope, receive, send):
    await PlainTextResponse(scope["state"]["caller"].name)(scope, receive, send)


@pytest.fixture(scope="module")
def port():
    rows = [method("GET", JOBS, HANDLE, role=AccessRole.VIEWER)]
    raw = [RawMethod(verb="GET", path="/storage/v1/b", handle=storage)]
    app = application(rows, raw=raw, native=native)
    with serving(app) as port:
        yield port


def status_and_message(port, target, *headers, verb="GET"):
    """What is answered; the message of a refusal, else the text."""
    lines = [f"{verb} {target} HTTP/1.1", *headers, "Connection: close", "", ""]
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall("\r\n".join(lines).encode())
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    text = body.decode()
    is_refusal = text.startswith('{"error"')
    return int(head.split()[1]), json.loads(text)["error"]["message"] if is_refusal else text


HOST, TOKEN = "Host: 127.0.0.1", "Authorization: Bearer demo"
PATHS = ["/v1/projects/demo/jobs", "/storage/v1/b", "/trainshed/v1/nodes"]


@pytest.mark.parametrize("path", PATHS)
def test_one_of_each_is_answered(port, path):
    assert status_and_message(port, path, HOST, TOKEN)[0] == 200


@pytest.mark.parametrize("path", [*PATHS, "/as/demo/storage/v1/b"])
@pytest.mark.parametrize("other", [HOST, "host: evil.example"])
def test_two_hosts_are_refused(port, path, other):
    code, message = status_and_message(port, path, HOST, other, TOKEN)
    assert (code, message) == (400, "the header host is given twice; send it once")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("other", [TOKEN, "authorization: Bearer admin", "Authorization:"])
def test_two_authorizations_are_refused(port, path, other):
    HANDLE.calls.clear()
    code, message = status_and_message(port, path, HOST, TOKEN, other)
    assert (code, message) == (400, "the header authorization is given twice; send it once")
    assert HANDLE.calls == []


def test_two_hosts_get_no_token(port):
    code, message = status_and_message(port, "/token", HOST, HOST, verb="POST")
    assert (code, "given twice" in message) == (400, True)


@pytest.mark.parametrize(
    ("verb", "target"),
    [
        ("GET", "http://127.0.0.1/v1/projects/demo/jobs"),
        ("GET", "http://evil.example/healthz"),
        ("GET", "https://evil.example"),
        ("CONNECT", "evil.example:443"),
    ],
)
def test_a_target_that_names_a_host_is_refused(port, verb, target):
    code, message = status_and_message(port, target, HOST, TOKEN, verb=verb)
    assert code == 400
    assert "target must be a path" in message


def test_what_is_no_http_is_told_in_the_form_of_all_refusals(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        head, _, body = connection.recv(1 << 16).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"]["status"] == "INVALID_ARGUMENT"
