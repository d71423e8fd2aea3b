"""Tokens on a running server: revoked at once, streams too; and their texts are written nowhere."""

import json
import urllib.error
import urllib.request

import pytest

from e2e.support import PARENT, PROJECT, custom_job, good, serving
from server_process import TRAINSHED, finished

pytestmark = pytest.mark.slow

TALKS = "import time\nfor n in range(9999): print('line', n, flush=True); time.sleep(0.1)"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("tokens") / "data", "--verbose") as server:
        yield server


def new_token(server, **wish):
    return good(server.call("POST", "/trainshed/v1/tokens", wish))


def raw(server, verb, path, data=None, token=None):
    """(status, text) of a request, whose path may have a token in it."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers["Content-Type"] = "application/json"
    request = urllib.request.Request(server.url + path, data, headers, method=verb)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_stream_ends_when_its_token_is_revoked(server):
    token = new_token(server, role="viewer", project=PROJECT)
    job = good(server.call("POST", f"/v1/{PARENT}/customJobs", custom_job("talks", TALKS)))["name"]
    server.wait_for(f"/v1/{job}", {"JOB_STATE_RUNNING"})
    path = f"/trainshed/v1/projects/{PROJECT}/jobs/{job.rpartition('/')[2]}/logs?follow=true"
    headers = {"Authorization": f"Bearer {token['token']}"}
    with urllib.request.urlopen(
        urllib.request.Request(server.url + path, headers=headers), timeout=60
    ) as stream:
        assert stream.readline()
        good(server.call("DELETE", f"/trainshed/v1/tokens/{token['id']}"))
        assert raw(server, "GET", path, token=token["token"])[0] == 401
        for _ in stream:
            pass  # it ends, though the job goes on
    assert good(server.call("GET", f"/v1/{job}"))["state"] == "JOB_STATE_RUNNING"
    good(server.call("POST", f"/v1/{job}:cancel", {}))
    server.wait_for(f"/v1/{job}", {"JOB_STATE_CANCELLED"})


def test_no_text_of_a_token_is_written_down_anywhere(server):
    """Neither in logs nor in the database nor beside an object, whatever a client does with it."""
    maker = new_token(server, project=PROJECT)
    wish = {"bucket": "mine-bkt"}
    path = f"/trainshed/v1/projects/{PROJECT}/bucketTokens"
    status, text = raw(server, "POST", path, json.dumps(wish).encode(), maker["token"])
    assert status == 200, text
    of_bucket = json.loads(text)["token"]
    inside = f"/as/{of_bucket}"
    assert raw(server, "POST", f"{inside}/storage/v1/b", b'{"name": "mine-bkt"}')[0] == 200
    upload = f"{inside}/upload/storage/v1/b/mine-bkt/o?name=a&uploadType=media"
    status, stored = raw(server, "POST", upload, b"content")
    assert status == 200
    assert inside in json.loads(stored)["mediaLink"]
    begun = f"{inside}/upload/storage/v1/b/mine-bkt/o?name=b&uploadType=resumable"
    assert raw(server, "POST", begun, b"{}")[0] == 200
    assert raw(server, "GET", f"{inside}/storage/v1/b/other-bkt/o")[0] == 404
    for secret in (maker["token"], server.token):
        status, text = raw(server, "GET", f"/as/{secret}/storage/v1/b/mine-bkt/o")
        assert status == 401
        assert "buckets token" in text
        for nothing in ("/storage/v1/b/mine-bkt/x/y", "/v1/projects/p/jobs", "/"):
            assert raw(server, "GET", f"/as/{secret}{nothing}")[0] in (401, 404)
        raw(server, "GET", f"/v1/projects/{PROJECT}/jobs?access_token={secret}")
    audit = good(server.call("GET", "/trainshed/v1/audit"))["entries"]
    assert {"POST /upload/storage/v1/b/{bucket}/o"} <= {entry["method"] for entry in audit}
    secrets = [text.encode() for text in (maker["token"], server.token, of_bucket)]
    files = [path for path in server.data_dir.rglob("*") if path.is_file()]
    assert {"serve.log", "trainshed.db"} <= {path.name for path in files}
    for path in files:
        leaks = [secret for secret in secrets if secret in path.read_bytes()]
        assert not leaks or path.name == "admin-token", path


def test_the_command_line_tells_the_audit_log(server):
    new_token(server, name="seen", role="viewer")
    raw(server, "GET", "/v1/projects/alpha/jobs", token="tsd_nobody-has-this")
    words = ("audit", "list", "--data-dir", server.data_dir, "--since", "1h")
    done = finished([TRAINSHED, *words, "--limit", "1000", "--format", "json"])
    entries = [
        (entry["status"], entry["caller"], entry["method"]) for entry in json.loads(done.stdout)
    ]
    assert ("OK", "first-admin", "POST /trainshed/v1/tokens") in entries
    assert ("UNAUTHENTICATED", "", "GET /v1/projects/{project}/jobs") in entries
    assert "first-admin" in finished([TRAINSHED, *words]).stdout
