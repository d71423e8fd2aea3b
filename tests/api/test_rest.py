"""The HTTP edge beside Google's routes: health, storage, tokens in paths, the native API."""

import base64
import hashlib
import logging
import re

import pytest
from starlette.responses import JSONResponse

from api.support import WELL, Seen, application, client, method
from trainshed.api.call import RawMethod
from trainshed.model.access import AccessRole
from trainshed.model.refusals import Code, Refusal, Throttled

JOBS = "/v1/projects/{project}/jobs"


async def read_object(request, caller):
    if request.path_params["name"] == "broken":
        raise ZeroDivisionError("secret detail")
    if request.path_params["name"] == "absent":
        raise Refusal(Code.NOT_FOUND, "there is no such object")
    return JSONResponse(
        {
            "caller": caller.name,
            "name": request.path_params["name"],
            "path": request.scope["path"],
            "raw": request.scope["raw_path"].decode(),
            "base": request.scope["root_path"],
            "query": str(request.query_params),
        }
    )


async def write_object(request, caller):
    size = 0
    async for piece in request.stream():
        size += len(piece)
    return JSONResponse({"caller": caller.name, "size": size})


RAW = (
    RawMethod(verb="GET", path="/storage/v1/b/{bucket}/o/{name:path}", handle=read_object),
    RawMethod(verb="POST", path="/upload/storage/v1/b/{bucket}/o", handle=write_object),
)


async def native(scope, receive, send):
    """What an application behind the admission sees."""
    answer = JSONResponse({"caller": scope["state"]["caller"].name, "path": scope["path"]})
    await answer(scope, receive, send)


def exchange(assertion, _=""):
    if assertion != "good.signed.token":
        raise Refusal(Code.UNAUTHENTICATED, "the signature is wrong")
    return {"access_token": assertion, "expires_in": 3600, "token_type": "Bearer"}


@pytest.fixture(scope="module")
def edge():
    rows = [
        method("GET", JOBS, Seen(), role=AccessRole.VIEWER),
        method("DELETE", JOBS + "/{job}", Seen({"gone": "\u00e9"})),
    ]
    with client(application(rows, raw=RAW, native=native, exchange=exchange)) as edge:
        yield edge


def error(answer):
    return answer.status_code, answer.json()["error"]["status"], answer.json()["error"]["message"]


def test_whoever_asks_too_often_is_answered_with_a_time():
    def recognise(authorization, **_):
        raise Throttled(f"too many of {len(authorization)}", 7)

    with client(application([method("GET", JOBS, Seen())], recognise=recognise)) as edge:
        answer = edge.get("/v1/projects/demo/jobs")
    assert error(answer)[:2] == (429, "RESOURCE_EXHAUSTED")
    assert answer.headers["Retry-After"] == "7"


def test_an_answer_has_its_length_and_its_type(edge):
    answer = edge.get("/v1/projects/demo/jobs")
    assert answer.content == b'{"ok":true}'
    assert answer.headers["content-length"] == "11"
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    assert "transfer-encoding" not in answer.headers


def test_head_is_get_without_the_body(edge):
    answer = edge.head("/v1/projects/demo/jobs")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == "11"


def test_texts_of_all_languages_arrive(edge):
    assert edge.delete("/v1/projects/demo/jobs/a").json() == {"gone": "\u00e9"}


def test_a_connection_is_kept_for_the_next_call(edge):
    assert "connection" not in edge.get("/v1/projects/demo/jobs").headers


# ---- health ----


PROBES = ("/healthz", "/readyz")


@pytest.mark.parametrize("path", PROBES)
def test_a_probe_needs_no_token_and_no_known_host(path):
    with client(application([]), token=None) as edge:
        answer = edge.get(path, headers={"Host": "10.244.7.10:8080"})
    assert (answer.status_code, answer.text) == (200, "ok")


def broken_store():
    raise OSError("the disk is gone")


@pytest.mark.parametrize("path", PROBES)
@pytest.mark.parametrize("is_healthy", [lambda: False, broken_store])
def test_the_server_is_neither_healthy_nor_ready_without_the_store(path, is_healthy):
    with client(application([], probes=WELL._replace(is_healthy=is_healthy)), token=None) as edge:
        answer = edge.get(path)
    assert (answer.status_code, answer.text) == (503, "the store does not answer")


def test_a_server_without_its_controller_is_healthy_and_not_ready():
    probes = WELL._replace(is_controlling=lambda: False)
    with client(application([], probes=probes), token=None) as edge:
        answers = [edge.get(path) for path in PROBES]
    assert [answer.status_code for answer in answers] == [200, 503]
    assert answers[1].text == "the controller does not run"


# ---- the page for browsers ----

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Sec-Fetch-Site": "none"}


def test_a_browser_gets_a_page_without_a_token(stranger):
    answer = stranger.get("/", headers=BROWSER)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "trainshed env --shell --url ADDRESS" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    style = re.search("<style>(.*?)</style>", answer.text)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("accept", ["application/json", "*/*"])
def test_other_clients_get_no_page(stranger, accept):
    answer = stranger.get("/", headers={"Accept": accept})
    assert error(answer) == (404, "NOT_FOUND", "there is no method at /")


def test_the_page_is_not_shown_under_foreign_names(stranger):
    answer = stranger.get("/", headers={**BROWSER, "Host": "evil.example"})
    assert error(answer)[:2] == (403, "PERMISSION_DENIED")


# ---- storage ----


def test_a_storage_route_gets_its_caller(edge):
    answer = edge.get("/storage/v1/b/data/o/a/b%2Fc?alt=media").json()
    assert (answer["caller"], answer["name"], answer["query"]) == ("dora", "a/b/c", "alt=media")
    assert answer["raw"] == "/storage/v1/b/data/o/a/b%2Fc"


def test_an_upload_is_not_bounded_by_the_limit_of_documents(edge):
    answer = edge.post("/upload/storage/v1/b/data/o", content=b"x" * 1_000_000)
    assert answer.json() == {"caller": "dora", "size": 1_000_000}


def test_a_storage_route_asks_who_calls(edge):
    answer = edge.get("/storage/v1/b/data/o/a", headers={"Authorization": "Bearer stolen"})
    assert error(answer) == (401, "UNAUTHENTICATED", "The token is not known here.")
    answer = edge.get("/storage/v1/b/data/o/a", headers={"Origin": "https://evil.example"})
    assert error(answer)[:2] == (403, "PERMISSION_DENIED")


def test_a_storage_refusal_is_googles(edge):
    assert error(edge.get("/storage/v1/b/data/o/absent")) == (
        404,
        "NOT_FOUND",
        "there is no such object",
    )


def test_an_unforeseen_error_of_storage_is_a_number(edge, caplog):
    answer = edge.get("/storage/v1/b/data/o/broken")
    assert error(answer)[:2] == (500, "INTERNAL")
    assert "secret" not in answer.text
    assert "secret detail" in caplog.text


def test_unknown_paths_and_verbs_of_storage_are_refused_in_googles_form(edge):
    assert error(edge.get("/storage/v1/nothing"))[:2] == (404, "NOT_FOUND")
    answer = edge.put("/upload/storage/v1/b/data/o")
    assert error(answer)[:2] == (405, "UNIMPLEMENTED")
    assert answer.headers["allow"] == "POST"


# ---- tokens in paths ----


@pytest.fixture(scope="module")
def stranger():
    """A client without a header of its own, as storage clients are."""
    with client(application([method("GET", JOBS, Seen())], raw=RAW), token=None) as stranger:
        yield stranger


def test_a_token_in_the_path_is_the_callers(stranger):
    answer = stranger.get("/as/bucket/storage/v1/b/data/o/a%2Fb").json()
    assert answer["caller"] == "rita"
    assert (answer["path"], answer["raw"]) == (
        "/storage/v1/b/data/o/a/b",
        "/storage/v1/b/data/o/a%2Fb",
    )


def test_the_next_url_can_have_the_token_too(stranger):
    assert stranger.get("/as/bucket/storage/v1/b/data/o/a").json()["base"] == "/as/bucket"


def test_a_wrong_token_in_the_path_is_a_wrong_token(stranger):
    assert error(stranger.get("/as/stolen/storage/v1/b/data/o/a"))[:2] == (401, "UNAUTHENTICATED")


def test_a_token_that_opens_more_than_a_bucket_is_refused_in_a_path(stranger):
    answer = stranger.get("/as/reader/storage/v1/b/data/o/a")
    assert error(answer)[:2] == (401, "UNAUTHENTICATED")
    assert "`trainshed env`" in error(answer)[2]


def test_a_token_for_a_bucket_opens_nothing_else(edge):
    of_bucket = {"Authorization": "Bearer bucket"}
    assert edge.get("/storage/v1/b/data/o/a", headers=of_bucket).status_code == 200
    for path in ("/v1/projects/demo/jobs", "/trainshed/v1/nodes"):
        answer = edge.get(path, headers=of_bucket)
        assert error(answer)[:2] == (403, "PERMISSION_DENIED")
        assert "bucket data only" in error(answer)[2]


def test_only_storage_takes_a_token_in_the_path(stranger):
    assert error(stranger.get("/as/demo/v1/projects/demo/jobs"))[:2] == (404, "NOT_FOUND")
    assert stranger.get("/as/demo/healthz").status_code == 404
    assert stranger.get("/as/demo").status_code == 404


def test_a_header_does_not_overrule_the_path(edge):
    assert edge.get("/as/bucket/storage/v1/b/data/o/a").json()["caller"] == "rita"


@pytest.mark.parametrize("path", ["/storage/v1/b/data/o/a", "/storage/v1/nothing", "/v1/nothing"])
def test_no_log_has_the_token(caplog, path):
    caplog.set_level(logging.DEBUG)
    with client(application([], raw=RAW), token=None, access_log=True) as edge:
        edge.get(f"/as/t0p-secret{path}")
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("uvicorn")]
    assert any(path in line for line in lines)
    assert not any("t0p-secret" in line for line in lines)


# ---- the native API ----


def test_the_native_api_gets_its_caller(edge):
    assert edge.get("/trainshed/v1/nodes").json() == {
        "caller": "dora",
        "path": "/trainshed/v1/nodes",
    }


def test_nobody_reaches_the_native_api_unrecognised(edge):
    answer = edge.get("/trainshed/v1/nodes", headers={"Authorization": "Bearer stolen"})
    assert error(answer)[:2] == (401, "UNAUTHENTICATED")
    answer = edge.get("/trainshed/v1/nodes", headers={"Host": "evil.example"})
    assert error(answer)[:2] == (403, "PERMISSION_DENIED")


# ---- grants ----

GRANT = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}


def test_a_signed_assertion_is_exchanged_for_a_token(edge):
    answer = edge.post("/token", data={**GRANT, "assertion": "good.signed.token"})
    assert (answer.status_code, answer.json()) == (200, exchange("good.signed.token"))


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ({**GRANT, "assertion": "bad"}, "invalid_grant"),
        (GRANT, "invalid_request"),
        ({"grant_type": "refresh_token"}, "invalid_request"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({}, "unsupported_grant_type"),
    ],
)
def test_another_grant_is_refused_in_oauths_form(edge, form, word):
    answer = edge.post("/token", data=form)
    assert (answer.status_code, answer.json()["error"]) == (400, word)
    assert answer.json()["error_description"]


def test_a_foreign_page_gets_no_token(edge):
    headers = {"Origin": "https://evil.example"}
    answer = edge.post("/token", data={**GRANT, "assertion": "good.signed.token"}, headers=headers)
    assert error(answer)[:2] == (403, "PERMISSION_DENIED")


def test_an_endless_grant_is_not_collected(edge):
    answer = edge.post("/token", content=b"grant_type=" + b"x" * 200_000)
    assert answer.status_code == 400
