"""A registry describes an image: names, credentials, and what a real registry answers."""

import pytest

from engines.registry_clients import DIGEST, registry_at, trouble_of, write_config
from engines.registry_server import (
    HTPASSWD,
    PASSWORD,
    USER,
    Pusher,
    TokenService,
    basic,
    running_registry,
    send,
    serving,
)
from trainshed.engines.kubernetes.docker_config import Credentials, find_credentials
from trainshed.engines.kubernetes.image_reference import parse_reference
from trainshed.engines.kubernetes.registry import Registry, RegistryTrouble
from trainshed.service.auth.certificates import ensure_tls

CONFIG = {
    "Entrypoint": ["python", "-m", "trainer.task"],
    "Cmd": ["--epochs", "3"],
    "WorkingDir": "/app",
    "Env": ["PATH=/usr/bin", "LD_PRELOAD=/lib/x.so", "A=b=c"],
    "User": "1000:1000",
}


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
