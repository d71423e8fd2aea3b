"""Browsers: signing in, what the cookie opens, and what other pages get out of it: nothing."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import httpx
import pytest

from api.support import WAIT_S_MAX, serving
from databases import new_database
from trainshed.app.application import build
from trainshed.config import Settings
from trainshed.config.settings import ConsoleSettings
from trainshed.model.access import AccessRole
from trainshed.service.auth import tokens
from trainshed.store.opening import Store
from trainshed.testing.fake_engine import FakeEngine

#: A name and an origin that the server's settings allow.
HOST, WALL = "train.example", "https://wall.example"
NATIVE = "/trainshed/v1"
SIGN_IN = f"{NATIVE}/signin"
FROM_PAGE = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}


def make_server(folder, **fields):
    """A server's application with the fake engine; the limits are those of its settings."""
    new_database(folder)
    settings = Settings(data_dir=folder, **{"failed_sign_ins_a_minute": 0, **fields})
    return build(settings, engine=FakeEngine([]))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = {"allowed_hosts": (HOST,), "allowed_origins": (WALL,)}
    application = make_server(tmp_path_factory.mktemp("server"), **settings)
    with serving(application.http) as port:
        yield SimpleNamespace(application=application, port=port, store=application.store)
    application.stop()


class Browser:
    """A browser that keeps cookies, and whose page sends the header of its sign-in."""

    def __init__(self, port, **headers):
        self.origin = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(
            base_url=self.origin, headers=headers, timeout=WAIT_S_MAX, trust_env=False
        )
        self.csrf = None

    def sign_in(self, **credential):
        answer = self.http.post(
            SIGN_IN, json=credential, headers={**FROM_PAGE, "Origin": self.origin}
        )
        if answer.status_code == 200:
            self.csrf = answer.json()["csrf"]
        return answer

    def call(self, verb, path, **options):
        headers = {**FROM_PAGE, "X-Trainshed-Csrf": self.csrf or "", **options.pop("headers", {})}
        return self.http.request(verb, f"{NATIVE}{path}", headers=headers, **options)

    @property
    def cookie(self):
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.http.cookies.jar)


@pytest.fixture
def browser(server):
    browser = Browser(server.port)
    yield browser
    browser.http.close()


@pytest.fixture
def token(server):
    return tokens.create(server.store, {"name": "laptop", "project": "demo", "role": "submitter"})


@pytest.fixture
def signed_in(browser, token):
    assert browser.sign_in(token=token.token).status_code == 200
    return browser


@pytest.fixture
def noted(server):
    """What the audit log has since the test began, as (method, status, caller)."""
    server.application.audit_log.write()
    begun = len(server.store.audit_log(limit=1000))

    def entries():
        server.application.audit_log.write()
        rows = server.store.audit_log(limit=1000)[begun:]
        return [(row.method, row.status, row.caller) for row in rows]

    return entries


def error_of(answer):
    error = answer.json()["error"]
    assert error["message"].strip()
    return answer.status_code, error["status"]


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


@pytest.mark.parametrize("header", [{}, {"X-Trainshed-Csrf": "wrong"}])
def test_the_cookie_alone_does_not_give_the_header(signed_in, noted, header):
    """A browser gives the cookie to servers on other ports of the host too."""
    answer = signed_in.http.get(SIGN_IN, headers={**FROM_PAGE, **header})
    assert error_of(answer) == (401, "UNAUTHENTICATED")
    assert "/console/signin" in answer.json()["error"]["message"]
    assert signed_in.csrf not in answer.text
    assert [entry[1:] for entry in noted()] == [("UNAUTHENTICATED", "")]


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


def test_a_browser_without_a_sign_in_is_told_where_to_sign_in(browser):
    answer = browser.call("GET", "/signin")
    assert error_of(answer) == (401, "UNAUTHENTICATED")
    assert "/console/signin" in answer.json()["error"]["message"]


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


def test_a_sign_in_makes_no_code(signed_in):
    assert error_of(signed_in.call("POST", "/signin:code")) == (403, "PERMISSION_DENIED")


def test_a_viewer_cannot_change_anything_and_no_other_project_is_open(server, browser, noted):
    viewer = tokens.create(server.store, {"name": "eve", "project": "demo", "role": "viewer"})
    browser.sign_in(token=viewer.token)
    orders = [
        ("/projects/demo/jobs:dryRun", {"collection": "jobs", "job": {}}),
        ("/projects/demo/jobs/7:cancel", None),
        ("/projects/demo/jobs:cancel", {"names": ["projects/demo/jobs/7"]}),
    ]
    for path, document in orders:
        answer = browser.call("POST", path, json=document)
        assert error_of(answer) == (403, "PERMISSION_DENIED")
    assert error_of(browser.call("GET", "/projects/other/jobs/7")) == (403, "PERMISSION_DENIED")
    assert error_of(browser.call("GET", "/tokens")) == (403, "PERMISSION_DENIED")
    assert [entry[1:] for entry in noted()[1:]] == [("PERMISSION_DENIED", "eve")] * 5


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


@pytest.mark.parametrize("verb", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ({}, (403, "PERMISSION_DENIED")),
        ({"X-Trainshed-Csrf": ""}, (403, "PERMISSION_DENIED")),
        ({"X-Trainshed-Csrf": "wrong"}, (401, "UNAUTHENTICATED")),
    ],
)
def test_a_call_with_the_cookie_and_without_the_header_is_refused(
    signed_in, noted, verb, header, expected
):
    path = {"GET": "/nodes", "POST": "/tokens", "DELETE": "/signin"}[verb]
    body = {"json": {}} if verb == "POST" else {}
    answer = signed_in.http.request(verb, f"{NATIVE}{path}", headers=header, **body)
    assert error_of(answer) == expected
    assert "X-Trainshed-Csrf" in answer.json()["error"]["message"]
    assert [entry[1:] for entry in noted()] == [(expected[1], "")]
    assert signed_in.call("GET", "/nodes").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {
            "Sec-Fetch-Site": "cross-site",
            "Sec-Fetch-Mode": "navigate",
            "Sec-Fetch-Dest": "document",
        },
        {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
    ],
)
def test_a_page_of_another_origin_is_refused_even_with_the_header(signed_in, noted, headers):
    for verb, path in (("GET", "/nodes"), ("GET", "/signin"), ("DELETE", "/signin")):
        answer = signed_in.call(verb, path, headers=headers)
        assert error_of(answer) == (403, "PERMISSION_DENIED")
        assert "access-control-allow-origin" not in answer.headers
    assert [entry[1:] for entry in noted()] == [("PERMISSION_DENIED", "")] * 3
    assert signed_in.call("GET", "/nodes").status_code == 200


def test_an_allowed_origin_calls_with_tokens_and_never_with_a_sign_in(signed_in, token):
    headers = {"Sec-Fetch-Site": "cross-site", "Origin": WALL}
    answer = signed_in.call("GET", "/nodes", headers=headers)
    assert answer.status_code == 403
    assert "access-control-allow-credentials" not in answer.headers
    bearer = {**headers, "Authorization": f"Bearer {token.token}"}
    assert signed_in.call("GET", "/nodes", headers=bearer).status_code == 200


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/v1/projects/demo/jobs"),
        ("GET", "/v1/projects/demo/locations/us-central1/customJobs"),
        ("POST", "/v2/entries:list"),
        ("GET", "/storage/v1/b?project=demo"),
        ("GET", "/download/storage/v1/b/data/o/x"),
    ],
)
def test_the_cookie_opens_no_route_of_google(signed_in, noted, verb, path):
    headers = {**FROM_PAGE, "X-Trainshed-Csrf": signed_in.csrf, "Cookie": signed_in.cookie}
    answer = signed_in.http.request(verb, path, headers=headers)
    assert error_of(answer) == (403, "PERMISSION_DENIED")
    assert "no credentials" in answer.json()["error"]["message"]
    assert [entry[1:] for entry in noted()] == [("PERMISSION_DENIED", "")]


def test_beside_a_token_the_cookie_does_not_count(server, signed_in):
    other = tokens.create(server.store, {"name": "other", "project": "demo", "role": "viewer"})
    bearer = {"Authorization": f"Bearer {other.token}"}
    answer = signed_in.http.get(SIGN_IN, headers=bearer)
    assert (answer.json()["name"], "csrf" in answer.json()) == ("other", False)
    wrong = signed_in.call("GET", "/nodes", headers={"Authorization": "Bearer tsd_wrong"})
    assert error_of(wrong) == (401, "UNAUTHENTICATED")


def test_a_wrong_cookie_is_no_sign_in(server, browser):
    for value in ("", "x", "é", "a" * 5000, '"x"'):
        headers = {"Cookie": f"trainshed_{server.port}={value}".encode()}
        assert browser.call("GET", "/nodes", headers=headers).status_code in (401, 403)


def test_two_sign_ins_at_once_are_refused(server, signed_in, token):
    other = Browser(server.port)
    other.sign_in(token=token.token)
    headers = {"Cookie": f"{signed_in.cookie}; {other.cookie}"}
    answer = signed_in.call("GET", "/nodes", headers=headers)
    assert error_of(answer) == (401, "UNAUTHENTICATED")
    assert "delete the cookies" in answer.json()["error"]["message"]
    other.http.close()


def test_the_cookie_of_another_servers_port_does_not_count(server, signed_in):
    cookie = signed_in.cookie.replace(f"trainshed_{server.port}", "trainshed_1")
    answer = signed_in.call("GET", "/nodes", headers={"Cookie": cookie})
    assert error_of(answer) == (403, "PERMISSION_DENIED")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_a_body_that_a_form_can_send_is_refused(signed_in, kind):
    headers = {"Content-Type": kind} if kind else {}
    answer = signed_in.call("POST", "/downloads", content=b'{"path":"/"}', headers=headers)
    assert error_of(answer) == (400, "INVALID_ARGUMENT")
    assert "application/json" in answer.json()["error"]["message"]


DOWNLOAD = f"{NATIVE}/projects/demo/jobs?pageSize=1"


def test_a_download_is_a_link_with_a_ticket_and_is_audited(signed_in, noted):
    path = signed_in.call("POST", "/downloads", json={"path": DOWNLOAD}).json()["path"]
    visit = {**FROM_PAGE, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert signed_in.http.get(path, headers=visit).status_code == 200
    row = f"GET {NATIVE}/projects/{{project}}/jobs"
    assert noted()[-1] == (row, "OK", "laptop")
    assert error_of(signed_in.http.get(f"{path}x", headers=visit)) == (403, "PERMISSION_DENIED")
    other = path.replace("pageSize=1", "pageSize=2")
    assert error_of(signed_in.http.get(other, headers=visit)) == (403, "PERMISSION_DENIED")


def test_a_ticket_opens_nothing_without_the_cookie_or_with_another_verb(server, signed_in, token):
    path = signed_in.call("POST", "/downloads", json={"path": f"{NATIVE}/signin"}).json()["path"]
    assert error_of(signed_in.http.delete(path)) == (403, "PERMISSION_DENIED")
    jobs = signed_in.call("POST", "/downloads", json={"path": DOWNLOAD}).json()["path"]
    stranger, colleague = Browser(server.port), Browser(server.port)
    colleague.sign_in(token=token.token)
    for browser in (stranger, colleague):
        assert error_of(browser.http.get(jobs)) == (403, "PERMISSION_DENIED")
        browser.http.close()


@pytest.mark.parametrize("path", ["https://evil.example/", "//evil.example/", "/v1/x", "", 7])
def test_there_is_no_ticket_for_another_address(signed_in, path):
    answer = signed_in.call("POST", "/downloads", json={"path": path})
    assert error_of(answer) == (400, "INVALID_ARGUMENT")


def test_a_token_needs_no_link(browser, token):
    bearer = {"Authorization": f"Bearer {token.token}"}
    answer = browser.http.post(f"{NATIVE}/downloads", json={"path": DOWNLOAD}, headers=bearer)
    assert error_of(answer) == (400, "FAILED_PRECONDITION")


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
