"""A registry describes an image; a hostile one costs bounded time and memory."""

import json
import socket
import ssl
import time
from pathlib import Path

import pytest

from engines.registry_server import (
    HTPASSWD,
    OCI,
    PASSWORD,
    USER,
    Pusher,
    TokenService,
    basic,
    digest_of,
    row,
    running_registry,
    send,
    serving,
)
from trainshed.engines.kubernetes.docker_config import Credentials, find_credentials
from trainshed.engines.kubernetes.image_reference import parse_reference
from trainshed.engines.kubernetes.registry import (
    Registry,
    RegistryFault,
    RegistryTrouble,
)
from trainshed.service.auth.certificates import ensure_tls

DIGEST = "sha256:" + "a" * 64
CONFIG = {
    "Entrypoint": ["python", "-m", "trainer.task"],
    "Cmd": ["--epochs", "3"],
    "WorkingDir": "/app",
    "Env": ["PATH=/usr/bin", "LD_PRELOAD=/lib/x.so", "A=b=c"],
    "User": "1000:1000",
}
DEADLINE_S = 60.0


def registry_at(host, *, ca="", architecture="amd64", more_hosts=(), **options):
    """A registry, without TLS unless there is a CA."""
    plain = () if ca else (host, *more_hosts)
    options = {"timeout_s": DEADLINE_S, **{name: _text(value) for name, value in options.items()}}
    return Registry(architecture, ca_file=str(ca), plain_hosts=plain, **options)


def _text(value):
    return str(value) if isinstance(value, Path) else value


def trouble_of(registry, image):
    with pytest.raises(RegistryFault) as fault:
        registry.describe(image)
    return fault.value


def write_config(path, **document):
    path.write_text(json.dumps(document))
    return path


# references


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("team/image", "docker.io/team/image:latest"),
        ("index.docker.io/busybox", "docker.io/library/busybox:latest"),
        ("localhost/image", "localhost/image:latest"),
        ("registry:5000/image", "registry:5000/image:latest"),
        ("10.0.0.1:5000/a/b/c:v1", "10.0.0.1:5000/a/b/c:v1"),
        ("[::1]:5000/image", "[::1]:5000/image:latest"),
        ("gcr.io/p/i_x.y--z", "gcr.io/p/i_x.y--z:latest"),
        (f"gcr.io/p/i@{DIGEST}", f"gcr.io/p/i@{DIGEST}"),
        (f"gcr.io/p/i:v1@{DIGEST}", f"gcr.io/p/i@{DIGEST}"),
    ],
)
def test_a_reference_is_read_as_docker_reads_it(text, whole):
    assert parse_reference(text).text == whole
    assert parse_reference(whole).text == whole


@pytest.mark.parametrize(
    "text",
    ["", ":", "UPPER", "a b", "a/../b", "a//b", "/a", "a/", "a:", "a:-x", "a@sha256:12", "-a",
     f"a@md5:{'a' * 32}", "host:99999/a", "a\n", "https://gcr.io/a", "gcr.io/" + "a" * 256,
     "a" * 2000],
)  # fmt: skip
def test_a_malformed_reference_is_refused(text):
    with pytest.raises(ValueError, match=r"must be \[HOST/\]PATH"):
        parse_reference(text)


# credentials


@pytest.mark.parametrize(
    ("image", "user"),
    [
        ("busybox", "hub"),
        ("registry.example/a", "all"),
        ("registry.example/team/a", "team"),
        ("registry.example/team-b/a", "all"),
        ("registry.example:5000/a", "port"),
        ("other.example/a", "old"),
        ("nobody.example/a", None),
    ],
)
def test_the_longest_key_that_fits_an_image_applies(tmp_path, image, user):
    keys = {
        "https://index.docker.io/v1/": "hub",
        "registry.example": "all",
        "registry.example/team": "team",
        "registry.example:5000": "port",
        "https://other.example/v2/": "old",
    }
    auths = {key: {"username": name, "password": "p"} for key, name in keys.items()}
    path = write_config(tmp_path / "config.json", auths=auths)
    credentials = find_credentials(str(path), parse_reference(image))
    assert (credentials and credentials.user) == user


def test_a_password_is_in_no_representation():
    credentials = Credentials("trainer", "secret-word")
    assert "secret-word" not in f"{credentials!r} {credentials}"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"credHelpers": {"gcr.io": "gcloud"}}, "docker-credential-gcloud .* runs no helpers"),
        ({"auths": {"gcr.io": {}}, "credsStore": "pass"}, "docker-credential-pass .* `auths`"),
        ({"auths": {"gcr.io": {"identitytoken": "x"}}}, "token of an identity provider"),
        ({"auths": {"gcr.io": {"auth": "%%"}}}, "base64 of USER:PASSWORD"),
        ({"auths": {"gcr.io": {"auth": "YWJj"}}}, "base64 of USER:PASSWORD"),
    ],
)
def test_what_the_server_does_not_use_is_refused_with_what_to_do(tmp_path, document, words):
    path = write_config(tmp_path / "config.json", **document)
    with pytest.raises(ValueError, match=words):
        find_credentials(str(path), parse_reference("gcr.io/p/i"))


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "x" * (1 << 20) + "x"])
def test_a_malformed_config_file_is_refused(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="must be a docker config file"):
        find_credentials(str(path), parse_reference("gcr.io/p/i"))


def test_a_missing_config_file_is_said_with_its_path(tmp_path):
    with serving(lambda h: send(h, 401, WWW_Authenticate='Basic realm="x"')) as (host, _):
        registry = registry_at(host, docker_config=tmp_path / "no.json")
        fault = trouble_of(registry, f"{host}/a")
    assert fault.trouble is RegistryTrouble.UNAUTHORIZED
    assert str(tmp_path / "no.json") in str(fault)


# a real registry


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with running_registry(tmp_path_factory.mktemp("registry") / "r") as started:
        yield started


def test_an_image_is_described_by_its_digest(host):
    digest = Pusher(host).image("team/one", "v1", **CONFIG)
    description = registry_at(host).describe(f"{host}/team/one:v1")
    assert description.reference.text == f"{host}/team/one@{digest}"
    assert description.entrypoint == ("python", "-m", "trainer.task")
    assert description.command == ("--epochs", "3")
    assert description.working_folder == "/app"
    assert description.variables == {"PATH": "/usr/bin", "LD_PRELOAD": "/lib/x.so", "A": "b=c"}
    assert (description.user, description.architecture) == ("1000:1000", "amd64")
    assert registry_at(host).describe(description.reference.text) == description


def test_an_image_without_any_of_them_is_described_too(host):
    Pusher(host).image("team/bare", "latest", Entrypoint=None, Env=None)
    description = registry_at(host).describe(f"{host}/team/bare")
    assert (description.entrypoint, description.command, description.variables) == ((), (), {})


def test_an_index_gives_the_image_of_the_architecture_of_the_pods(host):
    digest = Pusher(host).index(
        "team/many", "v1", arm64={"Entrypoint": ["arm"]}, amd64={"Entrypoint": ["intel"]}
    )
    image = f"{host}/team/many:v1"
    for architecture, word in (("amd64", "intel"), ("arm64", "arm")):
        description = registry_at(host, architecture=architecture).describe(image)
        assert description.entrypoint == (word,)
        assert description.reference.digest == digest
    fault = trouble_of(registry_at(host, architecture="s390x"), image)
    assert fault.trouble is RegistryTrouble.OTHER_ARCHITECTURE
    assert "is for linux/amd64, linux/arm64, and the pods need linux/s390x" in str(fault)
    assert not fault.heals


def test_an_image_of_another_architecture_is_refused(host):
    Pusher(host).image("team/arm", "v1", architecture="arm64")
    fault = trouble_of(registry_at(host), f"{host}/team/arm:v1")
    assert fault.trouble is RegistryTrouble.OTHER_ARCHITECTURE
    assert "linux/arm64" in str(fault)


@pytest.mark.parametrize("name", ["no/image:v1", f"no/image@{DIGEST}", "team/one:no-such-tag"])
def test_an_image_that_is_not_there_is_said_to_be_so(host, name):
    Pusher(host).image("team/one", "v1")
    fault = trouble_of(registry_at(host), f"{host}/{name}")
    assert fault.trouble is RegistryTrouble.NO_IMAGE
    assert f"{host}/{name}" in str(fault)
    assert not fault.heals


def test_a_tag_that_has_moved_gives_the_new_image(host):
    registry = registry_at(host)
    first = Pusher(host).image("team/moves", "v1", Entrypoint=["old"])
    assert registry.describe(f"{host}/team/moves:v1").reference.digest == first
    second = Pusher(host).image("team/moves", "v1", Entrypoint=["new"])
    description = registry.describe(f"{host}/team/moves:v1")
    assert (description.reference.digest, description.entrypoint) == (second, ("new",))


def test_a_malformed_name_is_refused_before_any_request(host):
    fault = trouble_of(registry_at(host), "Not An Image")
    assert fault.trouble is RegistryTrouble.UNUSABLE


def test_a_registry_with_a_private_ca_is_asked_over_tls(tmp_path):
    files = ensure_tls(tmp_path, [])
    tls = {"tls": {"certificate": str(files.certificate), "key": str(files.key)}}
    with running_registry(tmp_path / "r", http=tls) as host:
        Pusher(host, ca=files.ca).image("team/one", "v1", **CONFIG)
        image = f"{host}/team/one:v1"
        assert registry_at(host, ca=files.ca).describe(image).command == ("--epochs", "3")
        fault = trouble_of(Registry("amd64"), image)
    assert fault.trouble is RegistryTrouble.UNREACHABLE
    assert "its certificate is not trusted" in str(fault)


def test_a_password_opens_a_private_registry(tmp_path):
    passwords = tmp_path / "htpasswd"
    passwords.write_text(HTPASSWD)
    auth = {"htpasswd": {"realm": "tests", "path": str(passwords)}}
    with running_registry(tmp_path / "r", auth=auth) as host:
        Pusher(host, authorization=basic()).image("team/one", "v1", **CONFIG)
        image = f"{host}/team/one:v1"
        entry = {"username": USER, "password": PASSWORD}
        right = write_config(tmp_path / "right.json", auths={host: entry})
        assert registry_at(host, docker_config=right).describe(image).user == "1000:1000"
        wrong = write_config(tmp_path / "wrong.json", auths={host: {**entry, "password": "no"}})
        other = write_config(tmp_path / "other.json", auths={"other.example": entry})
        faults = [
            trouble_of(registry_at(host, docker_config=path), image) for path in (wrong, other, "")
        ]
    assert {fault.trouble for fault in faults} == {RegistryTrouble.UNAUTHORIZED}
    assert "refuses" in str(faults[0])
    assert f"{other} has none for it" in str(faults[1])
    assert "no file is configured" in str(faults[2])
    assert not any(PASSWORD in str(fault) or fault.heals for fault in faults)


def test_a_token_service_opens_a_private_registry(tmp_path):
    files = ensure_tls(tmp_path, [])
    service = TokenService(files.certificate, files.key)
    with serving(service.answer) as (token_host, requests):
        auth = {
            "token": {
                "realm": f"http://{token_host}/token",
                "service": "registry",
                "issuer": "tests",
                "rootcertbundle": str(files.ca),
            }
        }
        with running_registry(tmp_path / "r", auth=auth) as host:
            push = service.token("repository:team/one:pull,push")
            Pusher(host, authorization=f"Bearer {push}").image("team/one", "v1", **CONFIG)
            image = f"{host}/team/one:v1"
            entry = {"username": USER, "password": PASSWORD}
            path = write_config(tmp_path / "config.json", auths={host: entry})
            more = {"more_hosts": (token_host,)}
            description = registry_at(host, docker_config=path, **more).describe(image)
            assert description.entrypoint == ("python", "-m", "trainer.task")
            fault = trouble_of(registry_at(host, **more), image)
            assert fault.trouble is RegistryTrouble.UNAUTHORIZED
    assert requests[0] == ("/token?service=registry&scope=repository%3Ateam%2Fone%3Apull", basic())
    assert len(requests) == 2


# registries as nobody wants them


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
