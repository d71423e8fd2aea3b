"""The configuration of a cluster, read by the official client, and how credentials are renewed."""

import base64
import importlib
import json
import logging
import stat
import sys
import threading
from types import SimpleNamespace

import pytest
import yaml

from engines.fake_kubernetes_api import PODS, FakeApi, error, pod
from engines.kubernetes_clients import LIMITS
from engines.support import DEADLINE_S
from trainshed.engines.kubernetes.api import access as access_module
from trainshed.engines.kubernetes.api.access import ClusterAccess
from trainshed.engines.kubernetes.api.client import Client, connect
from trainshed.engines.kubernetes.api.errors import ApiAway, ApiRefused
from trainshed.engines.kubernetes.api.transport import Transport

pytest.importorskip("kubernetes", reason="make test installs the extra `kubernetes`")
from trainshed.engines.kubernetes.api.library import ConfigurationSource

#: Too short to look like a token.
SHORT = "hunter22"
TOKEN = "eyJhbGciOiJSUzI1NiIsImtpZCI6InNlY3JldCJ9.secret"


@pytest.fixture
def api():
    with FakeApi() as api:
        yield api


@pytest.fixture
def cluster(api, tmp_path):
    return Cluster(api, tmp_path)


class Cluster:
    """A kubeconfig for an API server, and clients that read it."""

    def __init__(self, api, folder):
        self.api = api
        self.folder = folder
        self.path = folder / "config"
        self.now_s = 1000.0
        self.clients = []

    def write(self, user, **of_cluster):
        value = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "prod",
            "clusters": [{"name": "c", "cluster": {"server": self.api.url, **of_cluster}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [
                {"name": "prod", "context": {"cluster": "c", "user": "u", "namespace": "ml"}},
                {"name": "bare", "context": {"cluster": "c", "user": "u"}},
            ],
        }
        self.path.write_text(yaml.safe_dump(value))

    def client(self, context="", *, load_s_max=DEADLINE_S, **more):
        path = more.pop("path", str(self.path))
        more.setdefault("environ", {})
        source = ConfigurationSource(path, context, str(self.folder / "keys"), **more)
        access = ClusterAccess(source.load, now_s=lambda: self.now_s, load_s_max=load_s_max)
        client = Client(Transport(access, LIMITS, 1 << 20))
        self.clients.append(client)
        return client

    def plug_in(self, code):
        """The entry of a user whose credentials a program prints."""
        script = self.folder / "plug_in.py"
        script.write_text(code)
        return {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": sys.executable,
                "args": ["-I", "-S", str(script)],
                "interactiveMode": "Never",
            }
        }

    def pass_time(self):
        self.now_s += access_module.RENEW_S_MIN + access_module.HEADERS_S


@pytest.fixture(autouse=True)
def _clients_close(cluster):
    yield
    for client in cluster.clients:
        client.close()


def printing(folder):
    """A plug-in that prints the token in a file; its token has no end that it names."""
    return (
        f"import json; token = open({str(folder / 'current')!r}).read();"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1',"
        "'kind': 'ExecCredential', 'status': {'token': token}}))"
    )


def test_a_kubeconfig_names_the_server_the_token_and_the_namespace(cluster):
    cluster.api.tokens = ["t1"]
    cluster.write({"token": "t1"})
    client = cluster.client()
    assert client.get(PODS)["items"] == []
    assert client.namespace == "ml"
    assert cluster.client("bare").namespace == "default"
    variable = cluster.client(path="", environ={"KUBECONFIG": str(cluster.path)})
    assert variable.namespace == "ml"


def test_a_service_account_has_its_files_read_again(cluster, monkeypatch):
    account = cluster.folder / "account"
    account.mkdir()
    for name, text in {"token": "t1", "ca.crt": "no CA", "namespace": "trainshed"}.items():
        (account / name).write_text(text)
    host, port = cluster.api.url.removeprefix("http://").split(":")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    source = ConfigurationSource("", "", "", environ=environ, service_account=str(account))
    session = source.load()
    assert session.url == f"https://{host}:{port}"
    assert session.namespace == "trainshed"
    assert session.make_headers()["Authorization"].lower() == "bearer t1"
    (account / "token").write_text("t2\n")
    assert source.load().make_headers()["Authorization"].lower() == "bearer t2"
    _let_a_minute_pass(monkeypatch)
    assert session.make_headers()["Authorization"].lower() == "bearer t2", "without a 401"


def _let_a_minute_pass(monkeypatch):
    incluster_config = importlib.import_module("kubernetes.config.incluster_config")
    real = incluster_config.datetime
    later = real.datetime.now() + real.timedelta(minutes=2)
    clock = SimpleNamespace(now=lambda: later)
    monkeypatch.setattr(
        incluster_config,
        "datetime",
        SimpleNamespace(datetime=clock, timedelta=real.timedelta),
    )


def test_a_token_file_that_rotates_is_read_again_after_a_401(cluster):
    token = cluster.folder / "token"
    token.write_text("t1\n")
    cluster.api.tokens = ["t1"]
    cluster.write({"tokenFile": "token"})
    client = cluster.client()
    client.get(PODS)
    token.write_text("t2\n")
    cluster.api.tokens = ["t2"]
    cluster.pass_time()
    assert client.get(PODS)["items"] == []
    assert client.post(PODS, {"a": 1}) == {"a": 1}


def test_a_plug_in_runs_again_when_its_token_is_refused(cluster):
    current = cluster.folder / "current"
    current.write_text("t1")
    cluster.api.tokens = ["t1"]
    cluster.write(cluster.plug_in(printing(cluster.folder)))
    client = cluster.client()
    client.get(PODS)
    current.write_text("t2")
    client.get(PODS)
    cluster.api.tokens = ["t2"]
    cluster.pass_time()
    assert client.get(PODS)["items"] == []
    refused = [
        request for request in cluster.api.requests if "t1" in request.headers["Authorization"]
    ]
    assert len(refused) == 3, "twice accepted, once refused"


def test_a_kubeconfig_that_was_changed_is_read_again_after_a_401(cluster):
    cluster.api.tokens = ["t2"]
    cluster.write({"token": "t1"})
    client = cluster.client()
    with pytest.raises(ApiRefused, match="Unauthorized"):
        client.get(PODS)
    cluster.write({"token": "t2"})
    cluster.pass_time()
    assert client.get(PODS)["items"] == []


BAD_PLUG_INS = {
    "fails": (
        f"import sys; sys.exit('no session, token {TOKEN}')",
        r"exec: process returned 1\. no session, token \*\*\*",
    ),
    "prints no JSON": (f"print('{TOKEN}')", "failed to decode process output"),
    "prints no token": (
        (
            "import json; print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1',"
            "'kind': 'ExecCredential', 'status': {}}))"
        ),
        "missing token",
    ),
}


@pytest.mark.parametrize(("code", "words"), BAD_PLUG_INS.values(), ids=BAD_PLUG_INS)
def test_a_plug_in_that_fails_is_an_error_and_no_request_without_credentials(
    cluster, caplog, code, words
):
    caplog.set_level(logging.DEBUG)
    cluster.write(cluster.plug_in(code))
    client = cluster.client()
    with pytest.raises(
        ApiAway, match=f"cannot get credentials from kubeconfig .*{words}"
    ) as caught:
        client.get(PODS)
    assert not cluster.api.requests
    assert TOKEN not in str(caught.value) + caplog.text
    cluster.write({"token": "t1"})
    assert client.get(PODS)["items"] == [], "it heals"


def test_a_plug_in_that_hangs_stops_no_caller(cluster):
    release = cluster.folder / "release"
    code = f"import os, time\nwhile not os.path.exists({str(release)!r}): time.sleep(0.02)"
    cluster.write(cluster.plug_in(code))
    client = cluster.client(load_s_max=0.2)
    with pytest.raises(ApiAway, match="no answer within"):
        client.get(PODS)
    with pytest.raises(ApiAway, match="does not end"):
        client.get(PODS)
    release.touch()
    for thread in threading.enumerate():
        if thread.name == "kubernetes-access":
            thread.join(DEADLINE_S)


BAD_FILES = {
    "no file": None,
    "no YAML": f"users: [token: {TOKEN}",
    "no mapping": "- 1",
    "no context": "current-context: x\ncontexts: []\nclusters: []\nusers: []",
    "no server of the context": json.dumps(
        {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
        }
    ),
    "a plug-in without a command": json.dumps(
        {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {"exec": {"command": None, "apiVersion": SHORT}}}],
        }
    ),
}


@pytest.mark.parametrize("text", BAD_FILES.values(), ids=BAD_FILES)
def test_a_kubeconfig_that_cannot_be_used_is_named_without_its_secrets(cluster, caplog, text):
    caplog.set_level(logging.DEBUG)
    if text is not None:
        cluster.path.write_text(text)
    with pytest.raises(
        ApiAway, match=r"cannot get credentials from kubeconfig .*config: .+"
    ) as caught:
        cluster.client().get(PODS)
    for secret in (TOKEN, SHORT):
        assert secret not in str(caught.value) + caplog.text


def test_keys_in_a_kubeconfig_are_written_for_this_user_alone(cluster):
    data = base64.b64encode(b"no certificate").decode()
    cluster.api.url = "https://127.0.0.1:1"
    cluster.write(
        {"client-certificate-data": data, "client-key-data": data},
        **{"certificate-authority-data": data, "tls-server-name": "kube"},
    )
    source = ConfigurationSource(str(cluster.path), "", str(cluster.folder / "keys"), environ={})
    session = source.load()
    options = session.pool.connection_pool_kw
    assert options["server_hostname"] == "kube"
    for name in ("cert_file", "key_file", "ca_certs"):
        path = cluster.folder / "keys" / options[name]
        assert path.parent == cluster.folder / "keys"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_requests_go_through_the_proxy_of_the_kubeconfig(cluster):
    cluster.write({"token": TOKEN}, **{"proxy-url": cluster.api.url})
    text = cluster.path.read_text().replace(f"server: {cluster.api.url}", "server: http://k8s:6443")
    cluster.path.write_text(text)
    cluster.api.faults.append(error(200, b'{"through": "proxy"}'))
    assert cluster.client().get(PODS) == {"through": "proxy"}
    assert cluster.api.requests[0].headers["Host"] == "k8s:6443"


def test_a_client_is_made_without_a_request_and_without_a_file(cluster):
    client = connect(str(cluster.path), keys_folder=str(cluster.folder / "keys"))
    with pytest.raises(ApiAway, match=r"kubeconfig .*config"):
        client.get(PODS)
    cluster.write({"token": "t1"})
    cluster.api.put(pod("p"))
    assert len(client.get(PODS)["items"]) == 1
    client.close()
