"""HTTP over TLS: a connection counts from its first packet, and a renewed certificate is used."""

import http.client
import json
import socket
import ssl
from contextlib import ExitStack, closing

import pytest

from api.grpc_calls import grpc_client
from api.support import WAIT_S_MAX, Seen, application, method, serving, surroundings
from trainshed.api.connections import ConnectionLimits, Connections, Times, limits_of
from trainshed.client.faults import Unreachable
from trainshed.client.http import Server
from trainshed.service.auth.certificates import ServerTls

FEW = ConnectionLimits(connections=16, unauthenticated=8, per_address=4)
PATIENT = Times(head_s=WAIT_S_MAX)


@pytest.fixture
def tls(tmp_path):
    return ServerTls(tmp_path, [])


@pytest.fixture
def connect(tls):
    """Starts a server, gives a function that connects to its port."""
    with ExitStack() as stack:

        def starting(limits=None, times=PATIENT):
            rows = [method("GET", "/v1/projects/{project}/jobs", Seen())]
            connections = Connections(limits or limits_of(1024), times)
            running = serving(application(rows), connections=connections, tls=lambda: tls.context)
            port = stack.enter_context(running)

            def connecting():
                address = ("127.0.0.1", port)
                sock = socket.create_connection(address, timeout=WAIT_S_MAX)
                return stack.enter_context(sock)

            return connecting

        yield starting


def get(tls, connection, path="/healthz"):
    """The status and the body, and the number of the certificate that was shown."""
    trusting = ssl.create_default_context(cafile=str(tls.files.ca))
    with trusting.wrap_socket(connection, server_hostname="localhost") as secure:
        number = int(secure.getpeercert()["serialNumber"], 16)
        asking = http.client.HTTPConnection("localhost")
        asking.sock = secure
        asking.request("GET", path, headers={"Authorization": "Bearer demo"})
        with closing(asking.getresponse()) as answer:
            return answer.status, answer.read(), number


def test_calls_are_answered_over_tls(tls, connect):
    status, body, _ = get(tls, connect()(), "/v1/projects/demo/jobs")
    assert (status, json.loads(body)) == (200, {"ok": True})


def test_our_own_client_shows_no_token_to_a_server_of_another_authority(
    tls, connect, tmp_path_factory
):
    own = str(tls.files.bundle)
    another = str(ServerTls(tmp_path_factory.mktemp("another"), []).files.bundle)
    url = f"https://localhost:{connect()().getpeername()[1]}"
    path = "/v1/projects/demo/jobs"
    assert Server(url=url, token="demo", ca=own).call("GET", path) == {"ok": True}
    for ca in (another, None):
        with pytest.raises(Unreachable, match="is not trusted"):
            Server(url=url, token="demo", ca=ca).call("GET", path)


def test_a_certificate_that_lacks_the_name_called_says_which_names_it_has(
    tls, connect, monkeypatch
):
    own = str(tls.files.bundle)
    port = connect()().getpeername()[1]
    address = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [address])
    with pytest.raises(Unreachable) as error:
        Server(url=f"https://trainer.lan:{port}", token="demo", ca=own).call("GET", "/v1/x")
    assert "is trusted, but not for the name trainer.lan; it is for " in str(error.value)
    assert "localhost" in str(error.value)
    assert "add trainer.lan to allowed_hosts" in str(error.value)


def test_half_handshakes_make_room(tls, connect):
    connecting = connect(FEW)
    half = [connecting() for _ in range(10 * FEW.per_address)]
    assert get(tls, connecting())[:2] == (200, b"ok")
    for sock in half[: -FEW.per_address]:
        assert sock.recv(1) == b""


def test_a_handshake_has_its_time(connect):
    assert connect(times=Times(head_s=0.2))().recv(1) == b""


def test_who_speaks_plain_http_is_hung_up_on_and_nobody_else_minds(tls, connect, caplog):
    connecting = connect()
    plain = connecting()
    plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    while plain.recv(1 << 16):
        pass
    assert get(tls, connecting())[:2] == (200, b"ok")
    assert "the TLS handshake failed" in caplog.text


def test_a_renewed_certificate_is_shown_without_a_restart(tls, connect):
    connecting = connect()
    *_, before = get(tls, connecting())
    assert not tls.renew()
    assert get(tls, connecting())[2] == before
    tls.files.certificate.unlink()
    assert tls.renew()
    assert get(tls, connecting())[2] != before


def test_grpc_shows_it_too(tmp_path):
    with grpc_client([], surroundings([]), tmp_path) as edge:
        trusting = ssl.create_default_context(cafile=str(edge.tls.files.ca))

        def read_serial_number():
            address = ("127.0.0.1", edge.port)
            with (
                socket.create_connection(address, timeout=WAIT_S_MAX) as plain,
                trusting.wrap_socket(plain, server_hostname="localhost") as secure,
            ):
                return secure.getpeercert()["serialNumber"]

        before = read_serial_number()
        assert read_serial_number() == before
        edge.tls.files.certificate.unlink()
        edge.tls.renew()
        assert read_serial_number() != before
