"""Signing a browser in and out: with a token or a code, and what ends the sign-in."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from api.browsers import (
    DOWNLOAD,
    FROM_PAGE,
    HOST,
    NATIVE,
    SIGN_IN,
    Browser,
    error_of,
    make_server,
)
from api.support import serving
from trainshed.config.settings import ConsoleSettings
from trainshed.model.access import AccessRole
from trainshed.service.auth import tokens
from trainshed.store.opening import Store


def test_a_token_signs_a_browser_in(server, browser, token, noted):
    answer = browser.sign_in(token=token.token)
    document = answer.json()
    assert document | {"csrf": "", "until": "", "version": "", "pageRevision": ""} == {
        "name": "laptop", "role": "SUBMITTER", "project": "demo", "anonymous": False,
        "csrf": "", "until": "", "version": "", "pageRevision": "",
    }  # fmt: skip
    assert document["csrf"]
    header = answer.headers["set-cookie"]
    assert header.startswith(f"trainshed_{server.port}=")
    assert {"HttpOnly", "SameSite=Strict", f"Path={NATIVE}"} <= set(header.split("; "))
    assert token.token not in answer.text + header
    assert browser.call("GET", "/signin").json() == document
    assert browser.call("GET", "/projects/demo/jobs").status_code == 200
    assert noted() == [(f"POST {SIGN_IN}", "OK", "laptop")]


def test_a_reloaded_page_reads_its_sign_in_with_the_stored_header(signed_in):
    assert signed_in.call("GET", "/signin").json()["csrf"] == signed_in.csrf


@pytest.mark.parametrize(
    ("credential", "expected"),
    [
        ({"token": "tsd_wrong"}, (401, "UNAUTHENTICATED")),
        ({"token": ""}, (401, "UNAUTHENTICATED")),
        ({"code": "wrong"}, (401, "UNAUTHENTICATED")),
        ({"token": "a.b.c"}, (400, "INVALID_ARGUMENT")),
        ({}, (400, "INVALID_ARGUMENT")),
        ({"token": "a", "code": "b"}, (400, "INVALID_ARGUMENT")),
        ({"password": "x"}, (400, "INVALID_ARGUMENT")),
        ({"token": 7}, (400, "INVALID_ARGUMENT")),
        ({"token": "x" * 5000}, (400, "INVALID_ARGUMENT")),
    ],
)
def test_a_wrong_credential_signs_no_browser_in(browser, noted, credential, expected):
    answer = browser.sign_in(**credential)
    assert error_of(answer) == expected
    assert "set-cookie" not in answer.headers
    assert noted() == [(f"POST {SIGN_IN}", expected[1], "")]
    assert error_of(browser.call("GET", "/signin")) == (401, "UNAUTHENTICATED")


def test_an_expired_or_revoked_token_signs_no_browser_in(server, browser, token):
    tokens.revoke(server.store, token.id)
    text, expired = tokens.new_token("expired", "demo", AccessRole.ADMIN)
    server.store.add_token(replace(expired, expire_time=datetime.now(UTC)))
    for credential in (token.token, text):
        assert error_of(browser.sign_in(token=credential)) == (401, "UNAUTHENTICATED")


def test_a_browser_without_a_sign_in_is_told_where_to_sign_in_and_is_not_audited(browser, noted):
    foreign = {"Cookie": "jupyter=1; trainshed_1=x"}  # of other servers of the host
    for headers in ({}, foreign):
        answer = browser.call("GET", "/signin", headers=headers)
        assert error_of(answer) == (401, "UNAUTHENTICATED")
        assert "/console/signin" in answer.json()["error"]["message"]
    assert noted() == []


@pytest.mark.parametrize("credential", ["cookie", "token"])
def test_a_wrong_credential_that_asks_for_its_sign_in_is_audited(
    server, browser, noted, credential
):
    cookie = f"trainshed_{server.port}=wrong"
    headers = {"Cookie": cookie} if credential == "cookie" else {"Authorization": "Bearer tsd_x"}
    assert error_of(browser.call("GET", "/signin", headers=headers)) == (401, "UNAUTHENTICATED")
    assert noted() == [(f"GET {SIGN_IN}", "UNAUTHENTICATED", "")]


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    """A server behind a proxy that provides TLS, and that allows few failures."""
    settings = {"allowed_hosts": (HOST,), "console": ConsoleSettings(plain_http=True)}
    folder = tmp_path_factory.mktemp("proxied")
    application = make_server(folder, failed_sign_ins_a_minute=3, **settings)
    token = tokens.create(application.store, {})
    with serving(application.http) as port:
        yield SimpleNamespace(port=port, token=token.token)
    application.stop()


def test_failures_are_throttled_and_a_valid_token_is_accepted(proxied):
    browser = Browser(proxied.port)
    statuses = [browser.sign_in(code=f"wrong{n}").status_code for n in range(5)]
    assert statuses == [401, 401, 401, 429, 429]
    answer = browser.sign_in(token="wrong")
    assert (answer.status_code, "retry-after" in answer.headers) == (429, True)
    assert browser.sign_in(token=proxied.token).status_code == 200
    browser.http.close()


def test_a_code_signs_one_browser_in(server, browser, token, noted):
    bearer = {"Authorization": f"Bearer {token.token}"}
    answer = browser.http.post(f"{SIGN_IN}:code", headers=bearer)
    code = answer.json()["code"]
    assert browser.sign_in(code=code).json()["name"] == "laptop"
    again = Browser(server.port)
    assert error_of(again.sign_in(code=code)) == (401, "UNAUTHENTICATED")
    again.http.close()
    assert noted() == [
        (f"POST {SIGN_IN}:code", "OK", "laptop"),
        (f"POST {SIGN_IN}", "OK", "laptop"),
        (f"POST {SIGN_IN}", "UNAUTHENTICATED", ""),
    ]


def test_a_sign_in_ends_with_its_token(server, signed_in, token):
    assert signed_in.call("GET", "/nodes").status_code == 200
    tokens.revoke(server.store, token.id)
    assert error_of(signed_in.call("GET", "/nodes")) == (401, "UNAUTHENTICATED")
    assert error_of(signed_in.call("GET", "/signin")) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("ends", ["token", "sign-in"])
def test_a_stream_ends_with_the_sign_in(server, signed_in, token, ends):
    headers = {**FROM_PAGE, "X-Trainshed-Csrf": signed_in.csrf}
    path = f"{NATIVE}/stream?topic=queue:demo"
    with signed_in.http.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        assert next(lines) == "event: ready"
        if ends == "token":
            tokens.revoke(server.store, token.id)
        else:
            signed_in.call("DELETE", "/signin")
        assert not [line for line in lines if line.startswith("event: queue")]


def test_signing_out_ends_the_sign_in_and_deletes_the_cookie(signed_in, noted):
    cookie = signed_in.cookie
    answer = signed_in.call("DELETE", "/signin")
    assert answer.json() == {}
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert signed_in.cookie == ""
    stolen = signed_in.call("GET", "/nodes", headers={"Cookie": cookie})
    assert error_of(stolen) == (401, "UNAUTHENTICATED")
    assert (f"DELETE {SIGN_IN}", "OK", "laptop") in noted()


def test_signing_out_everywhere_ends_all_sign_ins_of_the_token(server, signed_in, token):
    others = [Browser(server.port) for _ in range(2)]
    other_token = tokens.create(server.store, {"name": "other"})
    others[0].sign_in(token=token.token)
    others[1].sign_in(token=other_token.token)
    signed_in.call("DELETE", "/signin?everywhere=true")
    assert others[0].call("GET", "/nodes").status_code == 401
    assert others[1].call("GET", "/nodes").status_code == 200
    for other in others:
        other.http.close()


def test_signing_out_twice_is_no_error(browser):
    assert browser.call("DELETE", "/signin").json() == {}


def test_while_the_database_is_away_a_sign_in_is_neither_refused_nor_lost(signed_in, monkeypatch):
    from trainshed.store.base import StoreFault  # noqa: PLC0415

    def fail(*_):
        raise StoreFault("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "sign_in", fail)
        for path in ("/signin", "/nodes"):
            assert error_of(signed_in.call("GET", path)) == (503, "UNAVAILABLE")
    assert signed_in.call("GET", "/nodes").status_code == 200


@pytest.fixture(scope="module")
def anonymous(tmp_path_factory):
    application = make_server(tmp_path_factory.mktemp("anonymous"), anonymous=True)
    with serving(application.http) as port:
        yield port
    application.stop()


def test_an_anonymous_server_needs_no_sign_in(anonymous):
    browser = Browser(anonymous)
    document = browser.call("GET", "/signin").json()
    assert (document["anonymous"], document["name"], document["role"]) == (
        True, "anonymous", "SUBMITTER",
    )  # fmt: skip
    assert "csrf" not in document
    assert browser.call("GET", "/projects/-/jobs").status_code == 200
    answer = browser.sign_in(token="tsd_any")
    assert error_of(answer) == (400, "FAILED_PRECONDITION")
    assert "--anonymous" in answer.json()["error"]["message"]
    link = browser.call("POST", "/downloads", json={"path": DOWNLOAD}).json()
    assert link == {"path": DOWNLOAD}
    browser.http.close()


def test_a_cookie_does_not_hinder_on_an_anonymous_server(anonymous):
    browser = Browser(anonymous)
    headers = {"Cookie": f"trainshed_{anonymous}=old"}
    assert browser.call("GET", "/nodes", headers=headers).status_code == 200
    browser.http.close()


@pytest.fixture
def without_console(tmp_path):
    application = make_server(tmp_path, console=ConsoleSettings(enabled=False))
    token = tokens.create(application.store, {})
    with serving(application.http) as port:
        yield Browser(port), token
    application.stop()


def test_a_server_without_a_console_signs_no_browser_in(without_console):
    browser, token = without_console
    bearer = {"Authorization": f"Bearer {token.token}"}
    answers = [
        browser.sign_in(token=token.token),
        browser.call("GET", "/signin"),
        browser.http.post(f"{SIGN_IN}:code", headers=bearer),
    ]
    for answer in answers:
        assert error_of(answer) == (400, "FAILED_PRECONDITION")
        assert "[console]" in answer.json()["error"]["message"]
    browser.http.close()


FROM_PROXY = {"Host": HOST, "Origin": f"https://{HOST}", "Sec-Fetch-Site": "same-origin"}


def test_over_plain_http_from_another_machine_the_answer_is_why_not(signed_in, token):
    document = {"token": token.token}
    headers = {"Host": HOST, "Origin": f"http://{HOST}"}
    answers = [
        signed_in.http.get(SIGN_IN, headers=headers),
        signed_in.http.post(SIGN_IN, json=document, headers=headers),
    ]
    for answer in answers:
        assert error_of(answer) == (400, "FAILED_PRECONDITION")
        for setting in ("https = true", "plain_http = true"):
            assert setting in answer.json()["error"]["message"]
        assert "set-cookie" not in answer.headers
    stolen = {"Host": HOST, "Cookie": signed_in.cookie, "X-Trainshed-Csrf": signed_in.csrf}
    assert signed_in.http.get(f"{NATIVE}/nodes", headers=stolen).status_code == 403


def test_behind_a_proxy_with_tls_the_cookie_is_secure(proxied):
    browser = Browser(proxied.port)
    answer = browser.http.post(SIGN_IN, json={"token": proxied.token}, headers=FROM_PROXY)
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert cookie.startswith("__Host-trainshed=")
    assert {"Secure", "Path=/", "HttpOnly", "SameSite=Strict"} <= set(attributes)
    headers = {"Host": HOST, "Sec-Fetch-Site": "same-origin", "Cookie": cookie}
    csrf = {"X-Trainshed-Csrf": answer.json()["csrf"]}
    assert browser.http.get(f"{NATIVE}/nodes", headers=headers | csrf).status_code == 200
    browser.http.close()


def test_no_secret_is_in_the_log_or_in_the_audit_log(server, browser, token, caplog):
    answer = browser.sign_in(token=token.token)
    browser.call("GET", "/nodes")
    browser.call("GET", "/nodes", headers={"X-Trainshed-Csrf": "wrong"})
    server.application.audit_log.write()
    texts = caplog.text + json.dumps([list(row) for row in server.store.audit_log(limit=1000)])
    cookie = answer.headers["set-cookie"].partition("=")[2].partition(";")[0]
    assert not [s for s in (token.token, cookie, answer.json()["csrf"]) if s in texts]
