"""Requests to the API server, against a small one with faults on order."""

import datetime as dt
import ipaddress
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from engines.fake_kubernetes_api import PODS, FakeApi, error, pod, status
from engines.kubernetes_clients import LIMITS, client_to, client_with, session_to
from engines.support import DEADLINE_S, wait_until
from trainshed.engines.kubernetes import api as api_package
from trainshed.engines.kubernetes.api.client import JSON_PATCH, MERGE_PATCH, connect
from trainshed.engines.kubernetes.api.errors import ApiAway, ApiRefused, read_error
from trainshed.engines.kubernetes.api.requests import ApiRequest
from trainshed.engines.kubernetes.api.retries import (
    PAUSE_S_MAX,
    RETRIES_MAX,
    parse_retry_after,
    plan_retry,
)
from trainshed.engines.kubernetes.api.stream import WatchStream
from trainshed.model.faults import UsageFault

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ml/jobsets"
#: Answers of a real API server (Kubernetes 1.36): path, code, body, reason.
ANSWERS = [
    json.loads(line)
    for line in (Path(__file__).parent / "kubernetes_errors.jsonl").read_text().splitlines()
]


@pytest.fixture
def api():
    with FakeApi() as api:
        yield api


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def client(api, pauses):
    client = client_to(api.url, pauses=pauses)
    yield client
    client.close()


def test_each_method_sends_its_query_body_and_type(api, client):
    value = {"metadata": {"name": "a"}}
    assert client.post(JOBSETS, value, {"fieldValidation": "Strict"}) == value
    assert client.patch(f"{JOBSETS}/a", {"spec": {}}) == {"spec": {}}
    client.patch(f"{JOBSETS}/a", {"x": 1}, content_type=JSON_PATCH)
    client.delete(f"{JOBSETS}/a", {"propagationPolicy": "Foreground"})
    client.delete(f"{JOBSETS}/a")
    client.get(PODS, {"labelSelector": "a in (b,c),d!=e&f"})
    post, merge, patch, delete, bare, get = api.requests
    assert [request.method for request in api.requests] == [
        *("POST", "PATCH", "PATCH", "DELETE", "DELETE", "GET")
    ]
    assert post.path == JOBSETS
    assert post.query == {"fieldValidation": "Strict"}
    assert json.loads(post.body) == value
    assert post.headers["Content-Type"] == "application/json"
    assert merge.headers["Content-Type"] == MERGE_PATCH
    assert patch.headers["Content-Type"] == JSON_PATCH
    assert json.loads(delete.body) == {"propagationPolicy": "Foreground"}
    assert bare.body == b""
    assert get.query == {"labelSelector": "a in (b,c),d!=e&f"}


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer["note"])
def test_the_errors_of_a_real_api_server_are_read(api, client, answer):
    body = answer["text"] if "text" in answer else json.dumps(answer["body"])
    api.faults.append(error(answer["status"], body.encode()))
    with pytest.raises(ApiRefused) as caught:
        client.get(PODS)
    refusal = caught.value
    assert refusal.status == answer["status"]
    assert refusal.reason == answer["reason"]
    assert refusal.message.strip() in body.replace('\\"', '"')
    assert str(refusal) == refusal.message
    assert dict(refusal.details) == answer.get("body", {}).get("details", {}) or "text" in answer


def test_an_error_says_whether_repeating_may_help():
    for code, reason, is_transient in [
        (400, "BadRequest", False),
        (401, "Unauthorized", True),
        (403, "Forbidden", False),
        (409, "AlreadyExists", False),
        (410, "Expired", False),
        (422, "Invalid", False),
        (500, "InternalError", True),
        (504, "Timeout", True),
    ]:
        refusal = read_error(code, status(code, reason))
        assert isinstance(refusal, ApiRefused)
        assert refusal.is_transient == is_transient, reason
        assert refusal.is_expired == (code == 410)
        assert refusal.is_denied == (reason == "Forbidden")
    assert isinstance(read_error(502, b"<html>bad gateway"), ApiAway)
    assert "bad gateway" in str(read_error(502, b"<html>bad gateway"))
    assert isinstance(read_error(500, b'{"kind":"Status"}'), ApiAway)


@pytest.mark.parametrize(
    "answer",
    [
        (429, {}, [0.5, 1.0, 2.0, 4.0]),
        (429, {"Retry_After": "3"}, [3.0] * 4),
        (429, {"Retry_After": "9999"}, [PAUSE_S_MAX] * 4),
        (503, {"Retry_After": "1"}, [1.0] * 4),
        (503, {}, []),
        (500, {"Retry_After": "1"}, []),
    ],
)
def test_a_busy_api_server_is_asked_again_some_times(api, client, pauses, answer):
    code, headers, expected = answer
    api.faults.extend([error(code, b"busy", **headers)] * 20)
    with pytest.raises(ApiAway, match=str(code)):
        client.post(JOBSETS, {})
    assert pauses == expected
    assert len(api.requests) == len(expected) + 1


def test_a_busy_api_server_that_recovers_answers(api, client, pauses):
    api.faults.extend([error(429, b"", Retry_After="1"), error(503, b"", Retry_After="2")])
    assert client.post(JOBSETS, {"a": 1}) == {"a": 1}
    assert pauses == [1.0, 2.0]


def test_retries_and_their_pauses_are_bounded():
    assert parse_retry_after("7") == 7.0
    assert parse_retry_after(" 7 ") == 7.0
    for text in (None, "", "-1", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"):
        assert parse_retry_after(text) is None
    assert plan_retry(429, None, RETRIES_MAX) is None
    assert plan_retry(200, 1.0, 0) is None
    assert plan_retry(429, 0.0, 0) > 0.0


def test_a_get_whose_connection_broke_is_sent_once_more_and_a_post_is_not(api, client):
    def drop(handler):
        handler.drop()

    api.faults.append(drop)
    assert client.get(PODS)["items"] == []
    api.faults.append(drop)
    with pytest.raises(ApiAway, match="ended"):
        client.post(JOBSETS, {})
    api.faults.extend([drop, drop])
    with pytest.raises(ApiAway, match=r"the connection to 127.0.0.1:\d+ ended"):
        client.get(PODS)
    assert [request.method for request in api.requests] == ["GET", "GET", "POST", "GET", "GET"]


@pytest.mark.parametrize("body", [b"", b"text", b"[]", b"1"])
def test_an_answer_that_is_no_object_is_no_answer(api, client, body):
    api.faults.append(error(200, body))
    with pytest.raises(ApiAway, match="must be a JSON object"):
        client.post(JOBSETS, {})


def test_an_answer_has_a_limit_of_bytes(api):
    client = client_to(api.url, bytes_max=100_000)
    api.faults.append(error(200, b" " * 99_000 + b"{}"))
    assert client.get(PODS) == {}
    api.faults.append(error(200, b" " * 200_000 + b"{}"))
    with pytest.raises(ApiAway, match="at most 100000 bytes"):
        client.get(PODS)
    client.close()


def test_a_silent_api_server_and_a_slow_one_have_a_time_limit(api):
    client = client_to(api.url, limits=LIMITS._replace(read_s=0.2, whole_s=0.5))
    api.faults.append(lambda handler: handler.hold())
    with pytest.raises(ApiAway, match=r"no answer from 127.0.0.1:\d+ within 0.2 s"):
        client.get(PODS)

    def trickle(handler):
        handler.begin_chunks()
        while not api.ends.wait(0.02):
            handler.write_chunk(b" ")

    api.faults.append(trickle)
    with pytest.raises(ApiAway, match=r"did not end within 0.5 s"):
        client.get(PODS)
    client.close()


def test_an_api_server_that_is_not_there_is_named():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    client = client_to(f"http://127.0.0.1:{port}")
    with pytest.raises(
        ApiAway, match=rf"^cannot connect to 127\.0\.0\.1:{port}: Connection refused$"
    ):
        client.get(PODS)
    with pytest.raises(ApiAway, match=r"cannot resolve the host name of no-such\.invalid:6443"):
        client_to("https://no-such.invalid:6443").get(PODS)


def make_certificate(name, issuer=None, *, is_ca=False):
    """A key and its certificate, as PEM texts and as objects."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    issuer_key, issuer_name = (key, subject) if issuer is None else (issuer[0], issuer[1].subject)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(issuer_key, hashes.SHA256())
    )
    return key, certificate


def write_certificate(folder, name, pair):
    key, certificate = pair
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(text)
    return paths


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A CA with the certificate of a server: the folder of their files."""
    folder = tmp_path_factory.mktemp("tls")
    ca = make_certificate("cluster CA", is_ca=True)
    write_certificate(folder, "ca", ca)
    write_certificate(folder, "server", make_certificate("kube-apiserver", ca))
    write_certificate(folder, "other", make_certificate("other CA", is_ca=True))
    return folder


@pytest.fixture
def secure_api(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.crt", authority / "server.key")
    with FakeApi(context) as api:
        yield api


def test_the_api_servers_certificate_is_checked_against_the_clusters_ca(secure_api, authority):
    def load(ca):
        return lambda: session_to(secure_api.url, ca_certs=str(authority / f"{ca}.crt"))

    secure_api.put(pod("p"))
    client = client_with(load("ca"))
    assert len(client.get(PODS)["items"]) == 1
    with client.stream(PODS, {"resourceVersion": "100"}, 10.0) as stream:
        assert next(stream)["type"] == "ADDED"
    client.close()
    with pytest.raises(ApiAway, match=r"TLS with .* failed: .*certificate verify failed"):
        client_with(load("other")).get(PODS)


def test_a_silent_watch_over_tls_ends_when_it_is_closed(secure_api, authority):
    secure_api.ends_watches = False
    client = client_with(lambda: session_to(secure_api.url, ca_certs=str(authority / "ca.crt")))
    assert_close_ends_a_silent_stream(client, secure_api)


def test_a_configuration_is_loaded_again_when_a_certificate_is_refused(secure_api, authority):
    names = iter(["other", "ca"])
    client = client_with(
        lambda: session_to(secure_api.url, ca_certs=str(authority / f"{next(names)}.crt")),
        now_s=iter(range(0, 1000, 100)).__next__,
    )
    assert client.get(PODS)["items"] == []
    client.close()


def assert_close_ends_a_silent_stream(client, api):
    stream = client.stream(PODS, {"resourceVersion": "100"}, DEADLINE_S)
    events = []
    reader = threading.Thread(target=lambda: events.extend(stream), daemon=True)
    reader.start()
    api.put(pod("p"))
    wait_until(lambda: events, "an event")
    stream.close()
    reader.join(DEADLINE_S / 4)  # a silent read would last longer
    assert not reader.is_alive()
    assert [event["type"] for event in events] == ["ADDED"]
    with pytest.raises(StopIteration):
        next(stream)
    client.close()


def test_a_silent_watch_ends_when_it_is_closed(api):
    api.ends_watches = False
    assert_close_ends_a_silent_stream(client_to(api.url), api)


def test_a_closed_client_ends_its_streams_and_refuses_requests(api):
    api.ends_watches = False
    client = client_to(api.url)
    stream = client.stream(PODS, {"resourceVersion": "100"}, DEADLINE_S)
    reader = threading.Thread(target=lambda: list(stream), daemon=True)
    reader.start()
    client.close()
    reader.join(DEADLINE_S / 4)
    assert not reader.is_alive()
    for call in (lambda: client.get(PODS), lambda: client.stream(PODS, {}, 1.0)):
        with pytest.raises(ApiAway, match="closed"):
            call()


def test_a_closed_client_waits_for_no_pause(api):
    client = client_to(api.url)
    api.faults.extend([error(429, b"", Retry_After="10")] * 10)
    outcomes = []

    def send():
        with pytest.raises(ApiAway) as caught:
            client.get(PODS)
        outcomes.append(str(caught.value))

    thread = threading.Thread(target=send)
    thread.start()
    wait_until(lambda: api.requests, "a request")
    client.close()
    thread.join(DEADLINE_S)
    assert outcomes == ["the client of the cluster is closed"]
    assert len(api.requests) == 1


def test_a_stream_ends_at_its_time_limit_whatever_the_api_server_sends(api):
    client = client_to(api.url)
    source = client._carrier.open(_request_of_watch(), 0.2)
    api.ends_watches = False
    started_s = time.monotonic()
    stream = WatchStream(source, 0.2, lambda _: None)
    assert list(stream) == []
    assert time.monotonic() - started_s < DEADLINE_S
    client.close()


def _request_of_watch():
    return ApiRequest("GET", PODS, {"watch": "1", "resourceVersion": "100"})


def test_a_watch_may_be_silent_for_longer_than_a_request_and_its_beginning_may_not(api):
    api.ends_watches = False
    client = client_to(api.url, limits=LIMITS._replace(read_s=0.2))
    with client.stream(PODS, {"resourceVersion": "100"}, DEADLINE_S) as stream:
        timer = threading.Timer(0.6, lambda: api.put(pod("late")))
        timer.start()
        assert next(stream)["object"]["metadata"]["name"] == "late"
        timer.join()
    api.faults.append(lambda handler: handler.hold())
    with pytest.raises(ApiAway, match=r"within 0\.2 s"):
        client.stream(PODS, {"resourceVersion": "100"}, DEADLINE_S)
    client.close()


class Chunks:
    """The body of an answer that arrives in these pieces."""

    def __init__(self, *chunks):
        self.chunks = list(chunks)

    def read(self):
        return self.chunks.pop(0)

    def interrupt(self):
        self.chunks.clear()

    close = interrupt


def test_a_line_of_a_watch_has_a_limit_and_may_come_in_pieces():
    event = b'{"type":"ADDED","object":{"metadata":{"uid":"u"}}}\n'
    pieces = [event[:10], event[10:] + b"\n" + event[:5], event[5:] + event, event[:-1], b""]
    stream = WatchStream(Chunks(*pieces), DEADLINE_S, lambda _: None, line_bytes_max=60)
    assert [value["type"] for value in stream] == ["ADDED"] * 3, "a line without an end is no event"
    source = Chunks(*[b"x" * 50] * 100)
    stream = WatchStream(source, DEADLINE_S, lambda _: None, line_bytes_max=60)
    with pytest.raises(ApiAway, match="at most 60 bytes"):
        next(stream)
    assert not source.chunks, "the connection is closed"


def test_a_watch_that_is_refused_raises_the_apis_error(api, client):
    api.faults.append(error(403, status(403, "Forbidden", "no watch")))
    with pytest.raises(ApiRefused, match="no watch"):
        client.stream(PODS, {"resourceVersion": "1"}, 10.0)
    api.faults.append(error(429, b"", Retry_After="1"))
    with pytest.raises(ApiAway, match="429"):
        client.stream(PODS, {"resourceVersion": "1"}, 10.0)
    api.oldest = 50
    with pytest.raises(ApiRefused) as caught:
        list(client.stream(PODS, {"resourceVersion": "1"}, 10.0))
    assert caught.value.is_expired


def test_the_namespace_is_that_of_the_configuration(api):
    session = session_to(api.url)
    assert client_with(lambda: session).namespace == "default"
    assert client_with(lambda: session._replace(namespace="ml")).namespace == "ml"


def test_without_the_package_the_command_that_installs_it_is_named(monkeypatch, tmp_path):
    for name in [name for name in sys.modules if name.partition(".")[0] == "kubernetes"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "trainshed.engines.kubernetes.api.library", raising=False)
    monkeypatch.delattr(api_package, "library", raising=False)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(UsageFault, match=r"package kubernetes.*; install it with: pip install .*"):
        connect(keys_folder=str(tmp_path))


def test_the_library_is_imported_only_when_a_client_is_made():
    code = (
        "import sys; from trainshed.engines.kubernetes.api import client, watch;"
        "print(sorted({n.partition('.')[0] for n in sys.modules} & {'kubernetes', 'urllib3'}))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert output.stdout.strip() == b"[]"
