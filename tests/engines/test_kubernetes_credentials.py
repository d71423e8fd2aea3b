"""Credentials that the API server refuses, plug-ins that hang, and secrets in messages."""

import logging
import threading

import pytest

from engines.fake_kubernetes_api import PODS, FakeApi, error, status
from engines.kubernetes_clients import Clock, client_with, session_to
from engines.support import DEADLINE_S, wait_until
from trainshed.engines.kubernetes.api import access as access_module
from trainshed.engines.kubernetes.api.access import ClusterAccess
from trainshed.engines.kubernetes.api.errors import ApiAway, ApiRefused

TOKEN = "eyJhbGciOiJSUzI1NiIsImtpZCI6InNlY3JldCJ9.secret"


@pytest.fixture
def api():
    with FakeApi() as api:
        yield api


def test_credentials_that_are_refused_are_loaded_again_once(api):
    clock = Clock()
    loads = []

    def load():
        loads.append(clock())
        return session_to(api.url, api.tokens[-1] if len(loads) > 1 else "old")

    api.tokens = ["new"]
    client = client_with(load, now_s=clock)
    with pytest.raises(ApiRefused, match="Unauthorized"):
        client.get(PODS)  # loaded a moment ago
    clock.now_s += access_module.RENEW_S_MIN
    assert client.get(PODS)["items"] == []
    assert len(loads) == 2
    api.tokens = ["newer"]
    clock.now_s += access_module.RENEW_S_MIN
    with client.stream(PODS, {"resourceVersion": "100"}, 10.0) as stream:
        assert list(stream) == []
    assert len(loads) == 3
    client.close()


def test_credentials_are_used_again_for_some_seconds():
    clock, made = Clock(), []
    session = session_to("http://127.0.0.1:1")._replace(
        make_headers=lambda: made.append(1) or {"Authorization": f"Bearer {len(made)}"}
    )
    access = ClusterAccess(lambda: session, now_s=clock)
    assert [access.current()[1]["Authorization"] for _ in range(3)] == ["Bearer 1"] * 3
    clock.now_s += access_module.HEADERS_S
    assert access.current()[1]["Authorization"] == "Bearer 2"


def test_many_threads_load_refused_credentials_once(api):
    clock, loads = Clock(), []

    def load():
        loads.append(1)
        return session_to(api.url, "new" if len(loads) > 1 else "old")

    client = client_with(load, now_s=clock)
    api.tokens = ["old"]
    client.get(PODS)
    api.tokens = ["new"]
    clock.now_s += access_module.RENEW_S_MIN
    outcomes = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(client.get(PODS)["items"]))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert outcomes == [[]] * 8
    assert len(loads) == 2
    client.close()


def test_a_plug_in_that_does_not_end_is_started_once(api):
    release, calls = threading.Event(), []

    def load():
        calls.append(1)
        release.wait(DEADLINE_S)
        return session_to(api.url)

    client = client_with(load, load_s_max=0.05)
    with pytest.raises(ApiAway, match=r"no answer within 0\.05 s"):
        client.get(PODS)
    with pytest.raises(ApiAway, match="plug-in of the kubeconfig does not end"):
        client.get(PODS)
    assert len(calls) == 1
    release.set()
    wait_until(lambda: _answers(client), "an answer")
    client.close()


def _answers(client):
    try:
        return client.get(PODS)
    except ApiAway:
        return None


def test_no_error_and_no_log_has_the_token_or_a_secret(api, caplog):
    caplog.set_level(logging.DEBUG)
    texts = []
    client = client_with(lambda: session_to(api.url, TOKEN), now_s=Clock())
    faults = [
        error(500, b"oops"),
        error(401, status(401, "Unauthorized")),
        error(403, status(403, "Forbidden")),
        lambda handler: handler.drop(),
        error(200, b"no json"),
    ]
    for fault in faults:
        api.faults.append(fault)
        with pytest.raises((ApiAway, ApiRefused)) as caught:
            client.post("/api/v1/namespaces/ml/secrets", {"stringData": {"secret": "hunter22"}})
        texts += [str(caught.value), repr(caught.value)]
    assert api.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"
    for secret in (TOKEN, "hunter22"):
        assert secret not in "".join(texts) + caplog.text
    client.close()

    def fail():
        raise ValueError(f"users: [token: {TOKEN}]")

    with pytest.raises(ApiAway, match=r"^cannot get credentials: ValueError$"):
        client_with(fail).get(PODS)
