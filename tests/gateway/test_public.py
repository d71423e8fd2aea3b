"""What anybody may read at Google a job reads too, in buckets that its project does not have."""

import http.client
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gateway.replica import WAIT_S_MAX, World
from trainshed.api.gateway.public import STORAGE_HOST, Public, by_proxies
from trainshed.launch.gateway_env import BUCKET_LOCATION
from trainshed.service.auth.signed_addresses import SIGNATURE

OBJECT = "/storage/v1/b/data-of-all/o/a%2Fb.txt?alt=media"
BYTES = b"of everybody"


class Google(BaseHTTPRequestHandler):
    """Google's storage, as an anonymous caller sees it."""

    def do_GET(self):
        self.server.requests.append(
            (self.path, {name.lower(): text for name, text in self.headers.items()})
        )
        status, body = self.server.answers.get(self.path, (404, b'{"error": "not yours"}'))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Goog-Hash", "crc32c=AAAAAA==")
        self.send_header("Set-Cookie", "a=b")
        self.end_headers()
        self.wfile.write(body if self.command == "GET" else b"")

    do_HEAD = do_GET  # noqa: N815 - as its base calls it

    def log_message(self, *_):
        """Nobody reads it."""


class Reader(World):
    """A gateway behind which there is a Google, or none."""

    def __init__(self, data_dir):
        self.google = ThreadingHTTPServer(("127.0.0.1", 0), Google)
        self.google.requests, self.google.answers = [], {}
        threading.Thread(target=self.google.serve_forever, daemon=True).start()
        self.port = self.google.server_address[1]
        self.connect = self._connect
        super().__init__(data_dir, Public(lambda: self.connect()))  # noqa: PLW0108 - a test has another

    def _connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S_MAX)

    def close(self):
        super().close()
        self.google.shutdown()
        self.google.server_close()


@pytest.fixture
def _world(tmp_path):
    reader = Reader(tmp_path / "data")
    yield reader
    reader.close()


@pytest.fixture
def google(world):
    return world.google


def test_an_object_is_read_without_a_token_of_the_job(world, google, replica):
    google.answers[OBJECT] = google.answers["/data-of-all/a%2Fb.txt"] = 200, BYTES
    asks = [
        (replica.tls(), OBJECT),
        (replica.plain(), OBJECT),  # STORAGE_EMULATOR_HOST
        (replica.tls("www.googleapis.com"), OBJECT),
        (replica.tls(), "/data-of-all/a%2Fb.txt"),
        (replica.tls("data-of-all.storage.googleapis.com"), "/a%2Fb.txt"),
    ]
    for wire, target in asks:
        answer = wire.ask("GET", target, Range="bytes=0-", Cookie="c=d")
        assert (answer.status, answer.body) == (200, BYTES)
        assert answer.header("X-Goog-Hash")
        assert not answer.header("Set-Cookie")
    assert len(google.requests) == len(asks)
    for _, headers in google.requests:
        assert headers["range"] == "bytes=0-"
        assert not {"authorization", "cookie"} & set(headers)
    assert replica.tls().ask("HEAD", "/data-of-all/a%2Fb.txt").status == 200
    assert not world.denied


def test_a_bucket_that_can_be_listed_is_there(google, replica):
    google.answers["/storage/v1/b/data-of-all/o?maxResults=1&fields=kind"] = 200, b"{}"
    bucket = json.loads(replica.tls().ask("GET", "/storage/v1/b/data-of-all?fields=location").body)
    assert bucket["location"].lower() == BUCKET_LOCATION  # as TensorFlow is told to want it
    layout = replica.tls().ask("GET", "/storage/v1/b/data-of-all/storageLayout")
    assert json.loads(layout.body)["bucket"] == "data-of-all"
    assert replica.tls().ask("GET", "/storage/v1/b/another").status == 404


def test_what_is_here_is_never_asked_for_there(world, google, replica):
    world.put("x", b"ours")
    assert replica.tls().ask("GET", "/mine/x").body == b"ours"
    assert replica.tls().ask("GET", "/mine/missing").status == 404
    assert not google.requests


def test_only_reading_goes_there(google, replica):
    for verb, target in [
        ("PUT", "/data-of-all/x"),
        ("DELETE", "/data-of-all/x"),
        ("POST", "/upload/storage/v1/b/data-of-all/o?name=x&uploadType=media"),
        ("GET", f"/data-of-all/x?{SIGNATURE}=00"),
    ]:
        assert replica.tls().ask(verb, target, body=b"x" if verb[0] == "P" else b"").status >= 400
    assert not google.requests


def test_what_nobody_may_read_there_is_not_there_whether_another_project_has_it(google, replica):
    """Both answers are the same, and both were asked for."""
    answers = {}
    for bucket in ("theirs", "nobody"):
        answer = replica.tls().ask("GET", f"/{bucket}/x")
        answers[bucket] = answer.status, answer.body.replace(bucket.encode(), b"")
    assert answers["theirs"] == answers["nobody"]
    assert answers["nobody"][0] == 404
    assert len(google.requests) == 2


def test_what_may_be_tried_again_is_said_so(google, replica):
    google.answers["/data-of-all/x"] = 503, b"later"
    assert replica.tls().ask("GET", "/data-of-all/x").status == 503


def test_a_machine_without_a_way_to_google_asks_once_in_a_while(world, replica):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        world.port = sock.getsockname()[1]
    attempts = []
    connect = world.connect
    world.connect = lambda: attempts.append(1) or connect()
    for _ in range(3):
        answer = replica.tls().ask("GET", "/data-of-all/x")
        assert (answer.status, b"does not exist" in answer.body) == (404, True)
    assert len(attempts) == 1


def test_an_address_that_is_none_in_http_keeps_nobody_from_asking(google, replica):
    google.answers["/data-of-all/x"] = 200, BYTES
    assert replica.tls().ask("GET", b"/data-of-all/\xff".decode("latin-1")).status in {400, 404}
    assert replica.tls().ask("GET", "/data-of-all/x").body == BYTES


def test_the_machine_s_proxy_is_asked_for_google():
    by_proxy = by_proxies({"https_proxy": "http://u:p@proxy:3128"})()
    assert (by_proxy.host, by_proxy.port) == ("proxy", 3128)
    directly = by_proxies({"https_proxy": "http://proxy:3128", "no_proxy": "googleapis.com"})()
    assert (directly.host, directly.port) == (STORAGE_HOST, 443)
