"""What users get wrong, on a real server: the status, and the words that Google's clients show."""

import json
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from conformance.gcloud import needs_gcloud
from e2e.support import PARENT, PROJECT, check_log, custom_job, good, ml_job, submit
from trainshed.service.jobs.paging import TOKEN_S_MAX, digest_of, token_of
from trainshed.store.records.jobs import JobKind

pytestmark = pytest.mark.slow

JOBS = f"/v1/projects/{PROJECT}/jobs"
CUSTOM_JOBS = f"/v1/{PARENT}/customJobs"
INVALID, DENIED, MISSING = "INVALID_ARGUMENT", "PERMISSION_DENIED", "NOT_FOUND"
NO_UPLOAD = "/upload/storage/v1/b/no-such-bucket/o?uploadType=media&name=x"


def expired_token():
    """A page token that this server gave out so long ago that it is over."""
    then = int((datetime.now(UTC) - timedelta(seconds=TOKEN_S_MAX + 60)).timestamp())
    digest = digest_of(JobKind.CUSTOM_JOB.value, PROJECT, "us-central1", "")
    return token_of(digest, then * 10**9, 1, then)


#: name: (verb, path, body, content type, status, google.rpc word, a part of the message)
WRONG = {
    "malformed JSON": ("POST", JOBS, b'{"jobId": ', "", 400, INVALID, "line 1 column 11"),
    "wrong content type": ("POST", JOBS, b"jobId=a", "text/plain", 400, INVALID, "send JSON"),
    "10 MB": ("POST", JOBS, b" " * 10_000_000, "", 413, INVALID, "larger than 8388608 bytes"),
    "10 MB to a native route": (
        "POST",
        "/trainshed/v1/tokens",
        b" " * 10_000_000,
        "",
        413,
        INVALID,
        "larger than 8388608 bytes",
    ),
    "an id with a slash": ("GET", f"{JOBS}/a%2Fb", None, "", 400, INVALID, "an id has no slash"),
    "a display name that clears the screen": (
        "POST",
        CUSTOM_JOBS,
        json.dumps({**custom_job("a"), "displayName": "a\x1b[2J"}).encode(),
        "",
        400,
        INVALID,
        "displayName: the name",
    ),
    "an unknown filter": (
        "GET",
        f"{CUSTOM_JOBS}?filter={quote('colour=red')}",
        None,
        "",
        400,
        INVALID,
        "colour",
    ),
    "an unknown filter of AI Platform": (
        "GET",
        f"{JOBS}?filter={quote('colour=red')}",
        None,
        "",
        400,
        INVALID,
        "colour",
    ),
    "an unknown filter of a log": (
        "POST",
        "/v2/entries:list",
        json.dumps({"resourceNames": [f"projects/{PROJECT}"], "filter": "colour=red"}).encode(),
        "",
        400,
        INVALID,
        "filter",
    ),
    "an expired page token": (
        "GET",
        f"{CUSTOM_JOBS}?pageToken={expired_token()}",
        None,
        "",
        400,
        INVALID,
        "has expired; list again from the first page",
    ),
    "a page token that is none": (
        "GET",
        f"{CUSTOM_JOBS}?pageToken=abc",
        None,
        "",
        400,
        INVALID,
        "page_token",
    ),
    "a project that cannot be": ("GET", "/v1/projects/-/jobs", None, "", 400, INVALID, "project"),
    "no such job": ("GET", f"{JOBS}/never", None, "", 404, MISSING, "jobs/never does not exist"),
    "no such Vertex job": ("GET", f"{CUSTOM_JOBS}/1", None, "", 404, MISSING, "does not exist"),
    "cancel of no job": ("POST", f"{JOBS}/never:cancel", b"", "", 404, MISSING, "does not exist"),
    "an upload to no bucket": ("POST", NO_UPLOAD, b"abc", "", 404, "", "does not exist"),
}


@pytest.fixture(autouse=True, scope="module")
def _clean_log(server):
    yield
    check_log(server)


def send(  # noqa: PLR0913  # what requests of this file differ in
    server, verb, path, body=None, *, content_type="", token=None
):
    """One request: the status, and google.rpc.Status or the storage API's error."""
    request = urllib.request.Request(
        server.url + path,
        method=verb,
        data=body,
        headers={
            "Authorization": f"Bearer {token or server.token}",
            "Content-Type": content_type or "application/json",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        with error:
            if error.headers["Retry-After"] is not None:
                pytest.fail("gcloud would wait and repeat it")
            return error.code, json.loads(error.read())["error"]


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(server, name):
    verb, path, body, content_type, status, word, part = WRONG[name]
    code, error = send(server, verb, path, body, content_type=content_type)
    assert (code, error["code"], error.get("status", "")) == (status, status, word)
    assert part in error["message"]


def test_an_unknown_project_and_a_foreign_token_are_told_alike(server):
    document = {"name": "other", "project": "other-proj", "role": "submitter"}
    token = good(server.call("POST", "/trainshed/v1/tokens", document))["token"]
    foreign = send(server, "GET", JOBS, token=token)
    unknown = send(server, "GET", "/v1/projects/no-such-proj/jobs", token=token)
    assert foreign[0] == unknown[0] == 403
    assert foreign[1]["message"].replace(PROJECT, "P") == unknown[1]["message"].replace(
        "no-such-proj", "P"
    )
    status, error = send(server, "GET", JOBS, token="stolen")
    assert (status, error["status"]) == (401, "UNAUTHENTICATED")


def test_two_creates_with_one_id_make_one_job(server):
    name = submit(server, ml_job("only_once"))
    status, error = send(server, "POST", JOBS, json.dumps(ml_job("only_once")).encode())
    assert (status, error["status"]) == (409, "ALREADY_EXISTS")
    assert error["message"] == f"{name} already exists"


def test_a_finished_job_is_cancelled_in_vain_and_a_deleted_one_is_gone(server):
    name = submit(server, custom_job("finished"))
    before = server.wait_for(f"/v1/{name}", {"JOB_STATE_SUCCEEDED"})
    assert send(server, "POST", f"/v1/{name}:cancel", b"{}") == (200, {})
    assert send(server, "GET", f"/v1/{name}") == (200, before)
    assert send(server, "DELETE", f"/v1/{name}")[0] == 200
    for verb, path in (("GET", name), ("DELETE", name), ("POST", f"{name}:cancel")):
        status, error = send(server, verb, f"/v1/{path}", b"" if verb == "POST" else None)
        assert (status, error["message"]) == (404, f"{name} does not exist")


def test_a_running_job_is_not_deleted(server):
    name = submit(server, custom_job("runs", "import time; time.sleep(7200)"))
    status, error = send(server, "DELETE", f"/v1/{name}")
    assert (status, error["status"]) == (400, "FAILED_PRECONDITION")
    assert "cancel it first" in error["message"]
    assert send(server, "POST", f"/v1/{name}:cancel", b"{}")[0] == 200
    server.wait_for(f"/v1/{name}", {"JOB_STATE_CANCELLED"})


# ---- as gcloud shows it ----


@pytest.fixture
def refused(gcloud):
    """What gcloud prints of a command that fails."""

    def run(*argv, **env):
        done = gcloud(*argv, **env)
        assert done.code == 1, done
        assert "Traceback" not in done.stderr
        return done.stderr

    return run


SUBMIT = ("ai-platform", "jobs", "submit", "training")


@needs_gcloud
def test_gcloud_shows_what_was_wrong(refused, server, trainer, gcloud_at):
    vertex = ("ai", "custom-jobs", "describe")
    assert "does not exist" in refused("ai-platform", "jobs", "describe", "never_was")
    assert f"{PARENT}/customJobs/1 does not exist" in refused(*vertex, "1")
    complaint = refused("ai-platform", "jobs", "list", "--project=no-such-proj", **stranger(server))
    assert "project no-such-proj (or it may not exist)" in complaint
    stolen = gcloud_at(server.url, "stolen")
    assert "trainshed tokens create" in refused(*vertex, "1", **stolen)

    submit(server, ml_job("taken"))
    config = trainer.parent / "job.yaml"
    config.write_text(json.dumps({"trainingInput": ml_job("taken")["trainingInput"]}))
    complaint = refused(*SUBMIT, "taken", "--config", config, "--region=us-central1")
    assert f"projects/{PROJECT}/jobs/taken already exists" in complaint

    complaint = refused(
        *SUBMIT, "staged", "--package-path", trainer, "--module-name=trainer.task",
        "--staging-bucket=gs://no-such-bucket", "--runtime-version=2.11", "--python-version=3.7",
        "--region=us-central1",
    )  # fmt: skip
    assert "no-such-bucket" in complaint


def stranger(server):
    document = {"name": "stranger", "project": "third-proj", "role": "viewer"}
    token = good(server.call("POST", "/trainshed/v1/tokens", document))["token"]
    path = server.data_dir / "stranger"
    path.write_text(token)
    return {"CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(path)}


@needs_gcloud
def test_gcloud_cancels_a_finished_job_without_a_word_of_complaint(gcloud, server):
    name = submit(server, ml_job("over"))
    server.wait_for(f"/v1/{name}", {"SUCCEEDED"})
    gcloud("ai-platform", "jobs", "cancel", "over").ok()
