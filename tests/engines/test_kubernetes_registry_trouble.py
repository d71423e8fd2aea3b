"""A registry that is hostile, slow or wrong costs bounded time and memory, and is named."""

import json
import socket
import ssl
import time

import pytest

from engines.registry_clients import DIGEST, registry_at, trouble_of, write_config
from engines.registry_server import OCI, PASSWORD, USER, basic, digest_of, row, send, serving
from trainshed.engines.kubernetes.registry import Registry, RegistryTrouble
from trainshed.service.auth.certificates import ensure_tls


class Scripted:
    """Answers the documents of one image, and notes changes of them."""

    def __init__(self, config=None, **documents):
        self.config = json.dumps(config or {"architecture": "amd64", "os": "linux"}).encode()
        manifest = {
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": row(f"{OCI}.config.v1+json", self.config),
        }
        self.manifest = json.dumps(documents.get("manifest", manifest)).encode()

    def answer(self, handler):
        is_blob = "/blobs/" in handler.path
        send(handler, 200, self.config if is_blob else self.manifest)


def test_what_a_digest_names_is_asked_for_once():
    with serving(Scripted().answer) as (fake, requests):
        registry = registry_at(fake)
        description = registry.describe(f"{fake}/a:v1")
        assert registry.describe(f"{fake}/a:v1") == description
        assert registry.describe(description.reference.text) == description
    paths = [path for path, _ in requests]
    assert paths == ["/v2/a/manifests/v1", f"/v2/a/blobs/{blob_of(paths)}", "/v2/a/manifests/v1"]


def blob_of(paths):
    return paths[1].rpartition("/")[2]


def test_the_cache_has_a_bound(monkeypatch):
    monkeypatch.setattr("trainshed.engines.kubernetes.registry._CACHED_MAX", 2)
    with serving(Scripted().answer) as (fake, requests):
        registry = registry_at(fake)
        described = [registry.describe(f"{fake}/{name}") for name in ("a", "b", "c")]
        before = len(requests)
        registry.describe(described[2].reference.text)
        assert len(requests) == before
        registry.describe(described[0].reference.text)
        assert len(requests) > before


def test_no_credentials_go_to_another_host_after_a_redirect(tmp_path):
    scripted = Scripted()
    with serving(scripted.answer) as (storage, stored):

        def answer(handler):
            if handler.headers.get("Authorization") is None:
                send(handler, 401, WWW_Authenticate='Basic realm="x"')
            elif "/blobs/" in handler.path:
                send(handler, 307, Location=f"http://{storage}{handler.path}?signature=x")
            else:
                scripted.answer(handler)

        with serving(answer) as (front, requests):
            entry = {"username": USER, "password": PASSWORD}
            path = write_config(tmp_path / "c.json", auths={front: entry})
            registry = registry_at(front, docker_config=path, more_hosts=(storage,))
            registry.describe(f"{front}/a")
    assert [authorization for _, authorization in requests] == [None, basic(), basic()]
    assert [authorization for _, authorization in stored] == [None]


def test_a_redirect_to_plain_http_is_not_followed():
    with (
        serving(Scripted().answer) as (inner, requests),
        serving(lambda h: send(h, 302, Location=f"http://{inner}/")) as (front, _),
    ):
        fault = trouble_of(registry_at(front), f"{front}/a")
    assert fault.trouble is RegistryTrouble.UNREACHABLE
    assert "only https is accepted" in str(fault)
    assert requests == []


def test_redirects_have_a_bound():
    with serving(lambda h: send(h, 302, Location=h.path)) as (fake, requests):
        fault = trouble_of(registry_at(fake), f"{fake}/a")
    assert "redirects more than 5 times" in str(fault)
    assert len(requests) == 6


def drip_body(handler):
    send(handler, 200, Content_Length="1000000")
    drip(handler, b"x")


def drip_headers(handler):
    handler.send_response(200)
    handler.flush_headers()
    drip(handler, b"X-A: b\r\n")


def drip(handler, piece):
    """Send a piece for as long as the other end listens."""
    try:
        while True:
            handler.wfile.write(piece)
            handler.wfile.flush()
            time.sleep(0.05)
    except OSError:
        handler.close_connection = True


@pytest.mark.parametrize("answer", [drip_body, drip_headers])
def test_a_registry_that_sends_a_byte_now_and_then_is_left_at_the_deadline(answer):
    with serving(answer) as (fake, _):
        fault = trouble_of(registry_at(fake, timeout_s=0.5), f"{fake}/a")
    assert fault.trouble is RegistryTrouble.UNREACHABLE
    assert "it did not answer in time" in str(fault)
    assert fault.heals


def test_a_handshake_that_does_not_end_is_left_at_the_deadline(tmp_path):
    files = ensure_tls(tmp_path, [])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        fault = trouble_of(registry_at(host, ca=files.ca, timeout_s=0.5), f"{host}/a")
    assert "it did not answer in time" in str(fault)


def test_what_another_service_says_is_not_repeated():
    def answer(handler):
        handler.wfile.write(b"220 mail.internal ready\r\n")
        handler.close_connection = True

    with serving(answer) as (fake, _):
        fault = trouble_of(registry_at(fake), f"{fake}/a")
    assert "its answer is not HTTP" in str(fault)
    assert "mail" not in str(fault)


def test_a_port_that_is_closed_may_heal():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        host = f"127.0.0.1:{closed.getsockname()[1]}"
    fault = trouble_of(registry_at(host), f"{host}/a")
    assert fault.trouble is RegistryTrouble.UNREACHABLE
    assert fault.heals
    assert "refused" in str(fault)


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (429, RegistryTrouble.UNREACHABLE),
        (503, RegistryTrouble.UNREACHABLE),
        (403, RegistryTrouble.UNAUTHORIZED),
        (404, RegistryTrouble.NO_IMAGE),
        (400, RegistryTrouble.UNUSABLE),
        (204, RegistryTrouble.UNUSABLE),
    ],
)
def test_each_status_has_its_trouble(status, trouble):
    with serving(lambda handler: send(handler, status)) as (fake, _):
        assert trouble_of(registry_at(fake), f"{fake}/a").trouble is trouble


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b"{}", "has no configuration"),
        (b'{"schemaVersion": 1, "fsLayers": []}', "push the image again with a current tool"),
        (b'{"config": {"digest": "sha256:../../x"}}', "digest in its manifest is malformed"),
        (b'{"config": {"digest": 5}}', "digest in its manifest is malformed"),
        (b'{"manifests": 5}', "is for nothing"),
        (b'{"manifests": [5, {"platform": []}]}', "is for nothing"),
        (
            b'{"manifests": [{"platform": {"os": "linux", "architecture": "amd64"}}]}',
            "digest in its manifest is malformed",
        ),
    ],
)
def test_a_malformed_manifest_is_refused(body, words):
    with serving(lambda handler: send(handler, 200, body)) as (fake, _):
        fault = trouble_of(registry_at(fake), f"{fake}/a")
    assert words in str(fault)
    assert not fault.heals


@pytest.mark.parametrize(
    "config",
    [{"config": [1]}, {"config": {"Entrypoint": "sh"}}, {"config": {"Cmd": [1]}},
     {"config": {"Env": {"a": "b"}}}],
)  # fmt: skip
def test_a_malformed_configuration_is_refused(config):
    with serving(Scripted(config).answer) as (fake, _):
        fault = trouble_of(registry_at(fake), f"{fake}/a")
    assert fault.trouble is RegistryTrouble.UNUSABLE
    assert "configuration is malformed" in str(fault)


def test_content_that_is_not_that_of_its_digest_is_refused():
    with serving(Scripted().answer) as (fake, _):
        fault = trouble_of(registry_at(fake), f"{fake}/a@{DIGEST}")
    assert f"in the place of {DIGEST}" in str(fault)


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_manifest_has_a_bound(is_announced):
    def answer(handler):
        size = {"Content_Length": str(5 << 20)} if is_announced else {"Connection": "close"}
        handler.send_response(200)
        for name, text in size.items():
            handler.send_header(name.replace("_", "-"), text)
        handler.end_headers()
        try:
            for _ in range(5):
                handler.wfile.write(bytes(1 << 20))
        except OSError:
            handler.close_connection = True

    with serving(answer) as (fake, _):
        assert "more than 4194304 bytes" in str(trouble_of(registry_at(fake), f"{fake}/a"))


def test_an_answer_that_ends_early_may_heal():
    def answer(handler):
        send(handler, 200, b"{}", Content_Length="100")
        handler.close_connection = True

    with serving(answer) as (fake, _):
        fault = trouble_of(registry_at(fake), f"{fake}/a")
    assert "the answer ends early" in str(fault)
    assert fault.heals


def test_a_registry_that_asks_again_and_again_for_a_password_is_asked_twice(tmp_path):
    with serving(lambda h: send(h, 401, WWW_Authenticate='Basic realm="x"')) as (fake, requests):
        entry = {"username": USER, "password": PASSWORD}
        path = write_config(tmp_path / "c.json", auths={fake: entry})
        fault = trouble_of(registry_at(fake, docker_config=path), f"{fake}/a")
    assert fault.trouble is RegistryTrouble.UNAUTHORIZED
    assert len(requests) == 2


@pytest.mark.parametrize("token", ["", None, 5, "a\r\nX-Injected: yes"])
def test_a_malformed_token_is_refused(token):
    def answer(handler):
        if handler.path.startswith("/token"):
            send(handler, 200, json.dumps({"token": token}).encode())
        else:
            realm = f'Bearer realm="http://{handler.headers["Host"]}/token",service="s"'
            send(handler, 401, WWW_Authenticate=realm)

    with serving(answer) as (fake, _):
        assert "sends no token" in str(trouble_of(registry_at(fake), f"{fake}/a"))


@pytest.mark.parametrize(
    "challenge", ['Bearer realm="http://metadata.internal/token"', 'Bearer realm=""', "Bearer", "x"]
)
def test_a_challenge_that_leads_nowhere_is_refused(challenge):
    with serving(lambda h: send(h, 401, WWW_Authenticate=challenge)) as (fake, requests):
        fault = trouble_of(registry_at(fake), f"{fake}/a")
    assert fault.trouble in {RegistryTrouble.UNREACHABLE, RegistryTrouble.UNAUTHORIZED}
    assert len(requests) == 1


def test_of_several_challenges_the_token_is_taken():
    def answer(handler):
        if handler.path.startswith("/token"):
            send(handler, 200, b'{"access_token": "word"}')
        elif handler.headers.get("Authorization") == "Bearer word":
            Scripted().answer(handler)
        else:
            realm = f"http://{handler.headers['Host']}/token?account=x"
            send(handler, 401, WWW_Authenticate=f'Basic realm="a b", Bearer realm="{realm}"')

    with serving(answer) as (fake, requests):
        registry_at(fake).describe(f"{fake}/a")
    assert requests[1][0] == "/token?account=x&scope=repository%3Aa%3Apull"


def test_a_file_without_certificates_is_refused(tmp_path):
    path = tmp_path / "ca.pem"
    path.write_text("nothing")
    with pytest.raises(ssl.SSLError):
        Registry("amd64", ca_file=str(path))


def test_digests_are_compared_with_what_was_sent():
    assert digest_of(b"") == (
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )
