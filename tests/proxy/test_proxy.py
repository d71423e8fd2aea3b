"""The proxy of ``trainshed run``: which names it answers for, and which clients it answers."""

import base64
import http.client
import socket
import ssl
import threading
from urllib.parse import urlsplit

import pytest

from trainshed.api.google_names import is_served_google_name
from trainshed.proxy.authority import Authority
from trainshed.proxy.serving import Proxy, Upstream


class Echo:
    """A server that answers each connection with a word and what it was sent first."""

    def __init__(self, word):
        self._word = word
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                client.sendall(self._word + client.recv(1024))

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def rest():
    echo = Echo(b"rest ")
    yield echo
    echo.close()


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def proxy_of(authority, rest):
    opened = []

    def opening(**more):
        upstream = Upstream(url=f"http://127.0.0.1:{rest.port}", grpc=None, ca=None)
        proxy = Proxy(authority, upstream, proxies={}, **more)
        proxy.start()
        opened.append(proxy)
        return proxy

    yield opening
    for proxy in opened:
        proxy.stop()


def connect(proxy, host, port=443, secret=None):
    """The status of a CONNECT, its body if it is refused, and the socket."""
    parts = urlsplit(proxy.url)
    client = socket.create_connection((parts.hostname, parts.port), timeout=60)
    credentials = base64.b64encode(f"run:{secret or parts.password}".encode()).decode()
    basic = f"Proxy-Authorization: Basic {credentials}"
    head = f"CONNECT {host}:{port} HTTP/1.1\r\nHost: x\r\n{basic}\r\n\r\n"
    client.sendall(head.encode())
    answer = http.client.HTTPResponse(client, method="CONNECT")
    answer.begin()
    body = b"" if answer.status == 200 else answer.fp.read()
    return answer.status, body.decode(), client


def secured(client, authority, host, protocols=("http/1.1",)):
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    context.set_alpn_protocols(list(protocols))
    return context.wrap_socket(client, server_hostname=host)


@pytest.mark.parametrize(
    "host",
    ["us-central1-aiplatform.googleapis.com", "bkt.storage.googleapis.com",
     "aiplatform.europe-west4.rep.googleapis.com"],
)  # fmt: skip
def test_tls_of_a_served_name_ends_here_and_its_bytes_reach_the_server(proxy_of, authority, host):
    status, _, client = connect(proxy_of(), host)
    assert status == 200
    with secured(client, authority, host) as spoken:
        spoken.sendall(b"hello")
        assert spoken.recv(1024) == b"rest hello"
        assert spoken.recv(1024) == b""


@pytest.mark.parametrize(
    ("offered", "spoken"), [(["h2"], "h2"), (["h2", "http/1.1"], "http/1.1"), (["x"], None)]
)
def test_a_client_speaks_http_2_only_where_it_takes_nothing_else(
    proxy_of, authority, offered, spoken
):
    _, _, client = connect(proxy_of(), "storage.googleapis.com")
    with secured(client, authority, "storage.googleapis.com", offered) as tls:
        assert tls.selected_alpn_protocol() == spoken


@pytest.mark.parametrize("secret", ["wrong", "", "\u00e9"])
def test_a_client_without_the_secret_is_refused(proxy_of, secret):
    status, body, client = connect(proxy_of(), "storage.googleapis.com", secret=secret or "-")
    client.close()
    assert (status, "HTTPS_PROXY" in body) == (407, True)


def test_other_names_pass_through_untouched(proxy_of):
    other = Echo(b"other ")
    status, _, client = connect(proxy_of(), "127.0.0.1", other.port)
    with client:
        client.sendall(b"\x16not read here")
        assert (status, client.recv(1024)) == (200, b"other \x16not read here")
    other.close()


def test_other_names_are_refused_offline_but_for_the_server_itself(proxy_of, rest):
    proxy = proxy_of(offline=True)
    status, body, client = connect(proxy, "bigquery.googleapis.com")
    client.close()
    assert (status, "--offline" in body) == (403, True)
    status, _, client = connect(proxy, "127.0.0.1", rest.port)
    client.close()
    assert status == 200


def test_a_host_that_cannot_be_reached_is_named(proxy_of):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    status, body, client = connect(proxy_of(), "127.0.0.1", port)
    client.close()
    assert (status, "127.0.0.1 cannot be reached" in body) == (502, True)


@pytest.mark.parametrize(
    "name",
    ["aiplatform.googleapis.com", "us-central1-ml.googleapis.com", "oauth2.googleapis.com",
     "www.googleapis.com", "my.bucket.storage.googleapis.com", "logging.googleapis.com"],
)  # fmt: skip
def test_names_that_are_served(name):
    assert is_served_google_name(name)


@pytest.mark.parametrize(
    "name",
    ["googleapis.com", "bigquery.googleapis.com", "storage.googleapis.com.evil.example",
     "evilstorage.googleapis.com", "aiplatform.googleapis.com\n", "storage.googleapis.co"],
)  # fmt: skip
def test_names_that_are_not_served(name):
    assert not is_served_google_name(name)
