"""What a caller can get wrong, and what each is told: on a real server, from real bytes."""

import json
import socket

import pytest

from api.support import BODY_BYTES_MAX, Seen, application, client, method
from trainshed.model.access import AccessRole

JOBS = "/v1/projects/{project}/jobs"
JSON = {"Content-Type": "application/json"}
HANDLE = Seen()
ROWS = [
    method("GET", JOBS, HANDLE, query=("pageSize", "filter")),
    method("POST", JOBS, HANDLE, role=AccessRole.SUBMITTER, body="*"),
    method("GET", JOBS + "/{job}", HANDLE),
    method("POST", JOBS + "/{job}:cancel", HANDLE, role=AccessRole.SUBMITTER, body="*"),
]


@pytest.fixture(scope="module")
def edge():
    with client(application(ROWS)) as edge:
        yield edge


def post(content, headers=JSON, path="/v1/projects/demo/jobs"):
    return ("POST", path, content, headers)


def get(path, headers=None):
    return ("GET", path, None, headers or {})


INVALID, DENIED, MISSING = "INVALID_ARGUMENT", "PERMISSION_DENIED", "NOT_FOUND"

#: name: (request, status, google.rpc word, a part of the message)
WRONG = {
    "JSON that stops": (post(b'{"jobId": '), 400, INVALID, "Expecting value at line 1 column 11"),
    "JSON with a slip": (post(b'{\n "a": 1,\n "b" 2}'), 400, INVALID, "at line 3 column 6"),
    "a list": (post(b"[]"), 400, INVALID, "The body must be an object"),
    "a text": (post(b'"a"'), 400, INVALID, "The body must be an object"),
    "null": (post(b"null"), 400, INVALID, "The body must be an object"),
    "no UTF-8": (post(b'{"a": "\xff"}'), 400, INVALID, "not UTF-8 at byte 7"),
    "NaN": (post(b'{"a": NaN}'), 400, INVALID, "NaN is not a JSON number"),
    "a number of 5000 digits": (post(b'{"a": ' + b"1" * 5000 + b"}"), 400, INVALID, "digits"),
    "one key twice": (post(b'{"a": 1, "a": 2}'), 400, INVALID, "'a' is given twice"),
    "half a character": (post(b'{"a": "\\ud800"}'), 400, INVALID, "unpaired surrogate"),
    "U+0000": (post(b'{"a": "\\u0000"}'), 400, INVALID, "the character U+0000"),
    "U+0000 behind a backslash": (post(b'{"a": "\\\\\\u0000"}'), 400, INVALID, "U+0000"),
    "101 levels": (post(b'{"a":' * 101 + b"1" + b"}" * 101), 400, INVALID, "100 deep"),
    "4000 levels": (post(b"[" * 4000), 400, INVALID, "deep"),
    "a form": (
        post(b"jobId=a", {"Content-Type": "application/x-www-form-urlencoded"}),
        400,
        INVALID,
        "the body is application/x-www-form-urlencoded; send JSON",
    ),
    "YAML": (post(b"jobId: a", {"Content-Type": "text/yaml"}), 400, INVALID, "send JSON"),
    "a body over the limit": (post(b" " * (BODY_BYTES_MAX + 1)), 413, INVALID, "is larger than"),
    "10 MB": (post(b" " * 10_000_000), 413, INVALID, f"is larger than {BODY_BYTES_MAX} bytes"),
    "no such path": (get("/v1/projects/demo/cows"), 404, MISSING, "no method at /v1/projects/"),
    "no such version": (get("/v3/projects/demo/jobs"), 404, MISSING, "no method at /v3"),
    "the root": (get("/"), 404, MISSING, "no method at /"),
    "no such custom verb": (post(b"", path="/v1/projects/demo/jobs/a:run"), 404, MISSING, ":run"),
    "no such verb": (
        ("PUT", "/v1/projects/demo/jobs", b"{}", JSON),
        405,
        "UNIMPLEMENTED",
        "has no verb PUT; it has GET, POST",
    ),
    "an id with a slash": (get("/v1/projects/demo/jobs/a/b"), 404, MISSING, "no method at"),
    "an id with %2F": (get("/v1/projects/demo/jobs/a%2Fb"), 400, INVALID, "an id has no slash"),
    "an id with %00": (get("/v1/projects/demo/jobs/a%00"), 400, INVALID, "control character"),
    "an id that is no UTF-8": (get("/v1/projects/demo/jobs/%FF"), 400, INVALID, "is not UTF-8"),
    "an empty id": (get("/v1/projects/demo/jobs/"), 404, MISSING, "no method at"),
    "an unknown parameter": (
        get("/v1/projects/demo/jobs?colour=red"),
        400,
        INVALID,
        'Unknown name "colour": Cannot bind query parameter.',
    ),
    "a parameter twice": (
        get("/v1/projects/demo/jobs?pageSize=1&page_size=2"),
        400,
        INVALID,
        "page_size is given twice",
    ),
    "a parameter with U+0000": (get("/v1/projects/demo/jobs?filter=%00"), 400, INVALID, "U+0000"),
    "a parameter that is no UTF-8": (
        get("/v1/projects/demo/jobs?filter=%FF"),
        400,
        INVALID,
        "the query cannot be read",
    ),
    "101 parameters": (
        get("/v1/projects/demo/jobs?" + "&".join(["pageSize=1"] * 101)),
        400,
        INVALID,
        "the query cannot be read",
    ),
    "a foreign project": (get("/v1/projects/other/jobs"), 403, DENIED, "(or it may not exist)"),
    "no project": (get("/v1/projects/none/jobs"), 403, DENIED, "(or it may not exist)"),
    "a wrong token": (
        get("/v1/projects/demo/jobs", {"Authorization": "Bearer stolen"}),
        401,
        "UNAUTHENTICATED",
        "is not known here",
    ),
    "a foreign page": (
        post(b"{}", {**JSON, "Origin": "https://evil.example"}),
        403,
        DENIED,
        "https://evil.example may not call",
    ),
    "a foreign host": (
        get("/v1/projects/demo/jobs", {"Host": "evil.example"}),
        403,
        DENIED,
        "'evil.example'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(edge, name):
    (verb, path, content, headers), status, word, part = WRONG[name]
    HANDLE.calls.clear()
    answer = edge.request(verb, path, content=content, headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["status"]) == (status, status, word)
    assert part in error["message"]
    assert HANDLE.calls == []


@pytest.mark.parametrize("name", WRONG)
def test_no_refusal_makes_gcloud_wait_and_repeat(edge, name):
    (verb, path, content, headers), *_ = WRONG[name]
    answer = edge.request(verb, path, content=content, headers=headers)
    assert "retry-after" not in answer.headers
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"


def test_nobody_is_refused_with_403_because_clients_hide_a_401():
    with client(application(ROWS), token=None) as edge:
        answer = edge.get("/v1/projects/demo/jobs")
    assert (answer.status_code, answer.json()["error"]["status"]) == (403, DENIED)


def test_the_fault_of_a_parameter_is_a_field_violation(edge):
    [detail] = edge.get("/v1/projects/demo/jobs?colour=red").json()["error"]["details"]
    assert detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    assert [v["field"] for v in detail["fieldViolations"]] == ["colour"]


def test_an_unknown_verb_is_told_the_known_ones(edge):
    assert edge.put("/v1/projects/demo/jobs").headers["allow"] == "GET, POST"


# ---- what only looks wrong ----

FINE = {
    "an empty body": post(b""),
    "blanks": post(b" \n"),
    "a byte order mark": post(b"\xef\xbb\xbf{}"),
    "no content type": post(b"{}", {}),
    "a charset": post(b"{}", {"Content-Type": "application/json; charset=utf-8"}),
    "another kind of JSON": post(b"{}", {"Content-Type": "application/merge-patch+json"}),
    "a text about U+0000": post(b'{"a": "\\\\u0000"}'),
    "a whole pair": post(b'{"a": "\\ud83d\\ude00"}'),
    "100 levels": post(b'{"a":' * 100 + b"1" + b"}" * 100),
    "a body at the limit": post(b"{}" + b" " * (BODY_BYTES_MAX - 2)),
    "a body with a GET": ("GET", "/v1/projects/demo/jobs", b"garbage", {}),
    "cancel without a body": post(b"", {}, "/v1/projects/demo/jobs/a:cancel"),
    "our own page": post(b"{}", {**JSON, "Origin": "https://console.example"}),
    "alt": get("/v1/projects/demo/jobs?alt=json"),
    "$alt": get("/v1/projects/demo/jobs?$alt=json;enum-encoding=int"),
    "$alt encoded": get("/v1/projects/demo/jobs?%24alt=json%3Benum-encoding%3Dint"),
    "the parameters of every API": get(
        "/v1/projects/demo/jobs?prettyPrint=false&key=k&fields=jobs&quotaUser=u&uploadType=media"
        "&upload_protocol=raw&access_token=t&oauth_token=t&callback=c&$.xgafv=2"
    ),
}


@pytest.mark.parametrize("name", FINE)
def test_what_clients_do_is_taken(edge, name):
    verb, path, content, headers = FINE[name]
    answer = edge.request(verb, path, content=content, headers=headers)
    assert (answer.status_code, answer.json()) == (200, {"ok": True})


def test_parameters_are_read_in_both_key_cases(edge):
    edge.get("/v1/projects/demo/jobs?page_size=3&filter=a%20b")
    assert HANDLE.calls[-1].query == {"pageSize": "3", "filter": "a b"}


def test_an_encoded_id_is_decoded(edge):
    edge.get("/v1/projects/demo/jobs/a%40b%3Ac")
    assert HANDLE.calls[-1].params["job"] == "a@b:c"


def test_a_body_in_many_pieces_is_one_body(edge):
    def pieces():
        yield b'{"a": '
        yield b"1}"

    answer = edge.post("/v1/projects/demo/jobs", content=pieces(), headers=JSON)
    assert answer.status_code == 200
    assert HANDLE.calls[-1].document == {"a": 1}


@pytest.mark.parametrize(("token", "status"), [("stolen", 401), ("demo", 413)])
def test_a_body_that_will_be_refused_is_not_waited_for(edge, token, status):
    """The answer comes while almost all of the body is still on its way."""
    head = (
        "POST /v1/projects/demo/jobs HTTP/1.1\r\nHost: testserver\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: 1000000000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", edge.base_url.port), timeout=60) as connection:
        connection.sendall(head.encode() + b" " * 1000)
        assert connection.recv(12) == f"HTTP/1.1 {status}".encode()


def test_a_body_over_the_limit_without_a_length_is_not_read_to_its_end(edge):
    head = (
        "POST /v1/projects/demo/jobs HTTP/1.1\r\nHost: testserver\r\n"
        "Authorization: Bearer demo\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", edge.base_url.port), timeout=60) as connection:
        connection.sendall(head.encode() + 3 * chunk)
        assert connection.recv(12) == b"HTTP/1.1 413"


def test_the_server_goes_on_after_every_wrong_request(edge):
    for (verb, path, content, headers), *_ in WRONG.values():
        edge.request(verb, path, content=content, headers=headers)
    assert edge.get("/v1/projects/demo/jobs").status_code == 200


def test_an_error_of_ours_tells_nothing_of_the_inside(caplog):
    rows = [method("GET", JOBS, Seen(KeyError("the secret")))]
    with client(application(rows)) as edge:
        answer = edge.get("/v1/projects/demo/jobs")
    error = answer.json()["error"]
    assert (answer.status_code, error["status"]) == (500, "INTERNAL")
    assert "secret" not in json.dumps(error)
    assert error["message"].rpartition(" ")[2] in caplog.text
