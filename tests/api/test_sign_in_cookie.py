"""What the cookie of a sign-in opens, and what other pages get out of it: nothing."""

import pytest

from api.browsers import DOWNLOAD, FROM_PAGE, NATIVE, SIGN_IN, WALL, Browser, error_of
from trainshed.service.auth import tokens


@pytest.mark.parametrize("header", [{}, {"X-Trainshed-Csrf": "wrong"}])
def test_the_cookie_alone_does_not_give_the_header(signed_in, noted, header):
    """A browser gives the cookie to servers on other ports of the host too."""
    answer = signed_in.http.get(SIGN_IN, headers={**FROM_PAGE, **header})
    assert error_of(answer) == (401, "UNAUTHENTICATED")
    assert "/console/signin" in answer.json()["error"]["message"]
    assert signed_in.csrf not in answer.text
    assert [entry[1:] for entry in noted()] == [("UNAUTHENTICATED", "")]


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


def test_a_sign_in_makes_no_code(signed_in):
    assert error_of(signed_in.call("POST", "/signin:code")) == (403, "PERMISSION_DENIED")


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
