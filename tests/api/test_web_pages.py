"""Pages of allowed origins can really use the service; all others get nothing out of it."""

import pytest

from api.support import Seen, application, client, method

JOBS = "/v1/projects/{project}/jobs"
CONSOLE = {"Origin": "https://console.example"}
PREFLIGHT = {
    "Access-Control-Request-Method": "PATCH",
    "Access-Control-Request-Headers": "authorization,content-type",
}


@pytest.fixture(scope="module")
def edge():
    with client(application([method("GET", JOBS, Seen())])) as edge:
        yield edge


def test_a_listed_page_may_ask_first_without_a_token(edge):
    headers = {**CONSOLE, **PREFLIGHT, "Authorization": ""}
    answer = edge.options("/v1/projects/demo/jobs", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://console.example"
    assert "PATCH" in answer.headers["access-control-allow-methods"]
    assert "authorization" in answer.headers["access-control-allow-headers"]


@pytest.mark.parametrize(("path", "status"), [("demo", 200), ("other", 403)])
def test_a_listed_page_can_read_answers_and_refusals(edge, path, status):
    answer = edge.get(f"/v1/projects/{path}/jobs", headers=CONSOLE)
    assert answer.status_code == status
    assert answer.headers["access-control-allow-origin"] == "https://console.example"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://console.example.evil"])
def test_another_page_is_allowed_nothing(edge, origin):
    preflight = edge.options("/v1/projects/demo/jobs", headers={"Origin": origin, **PREFLIGHT})
    got = edge.get("/v1/projects/demo/jobs", headers={"Origin": origin})
    assert preflight.status_code >= 400
    assert got.status_code == 403
    assert not any("access-control-allow-origin" in answer.headers for answer in (preflight, got))


def test_without_listed_origins_no_page_is_answered_to():
    rows = [method("GET", JOBS, Seen())]
    with client(application(rows, allowed_origins=())) as edge:
        preflight = edge.options("/v1/projects/demo/jobs", headers={**CONSOLE, **PREFLIGHT})
        assert preflight.status_code == 403
        assert "access-control-allow-origin" not in preflight.headers
