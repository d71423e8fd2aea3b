"""Objects and buckets over HTTP, and who may see and do what."""

import asyncio
import errno
import json
import os
import re

import pytest
from starlette.requests import Request

from api.storage_process import storage_process
from trainshed.api.storage import TABLE, storage_routes
from trainshed.api.storage_call import blocking, method

ONE, TWO, VIEWER = "one-submitter", "two-submitter", "one-viewer"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with storage_process(tmp_path_factory.mktemp("data")) as process:
        process.make("mine", token=ONE)
        process.make("theirs", token=TWO)
        process.put("theirs", "secret", b"secret", TWO)
        yield process


@pytest.fixture
def bucket(server):
    """The first project's bucket, empty."""
    for item in server.call("GET", "/storage/v1/b/mine/o", token=ONE)[2].get("items", []):
        path = item["selfLink"].partition("/storage/")[2]
        assert server.call("DELETE", f"/storage/{path}", token=ONE)[0] == 204
    return server


#: Every row of the table as a request to the second project's bucket.
FOREIGN = [
    ("GET", "/storage/v1/b/{bucket}", ""),
    ("DELETE", "/storage/v1/b/{bucket}", ""),
    ("PATCH", "/storage/v1/b/{bucket}", "{}"),
    ("PUT", "/storage/v1/b/{bucket}", "{}"),
    ("GET", "/storage/v1/b/{bucket}/storageLayout", ""),
    ("GET", "/storage/v1/b/{bucket}/managedFolders", ""),
    ("POST", "/storage/v1/b/{bucket}/managedFolders", "{}"),
    ("GET", "/storage/v1/b/{bucket}/managedFolders/x", ""),
    ("DELETE", "/storage/v1/b/{bucket}/managedFolders/x", ""),
    ("GET", "/storage/v1/b/{bucket}/folders", ""),
    ("POST", "/storage/v1/b/{bucket}/folders", "{}"),
    ("GET", "/storage/v1/b/{bucket}/o", ""),
    ("GET", "/storage/v1/b/{bucket}/o/secret", ""),
    ("GET", "/storage/v1/b/{bucket}/o/secret?alt=media", ""),
    ("PATCH", "/storage/v1/b/{bucket}/o/secret", "{}"),
    ("PUT", "/storage/v1/b/{bucket}/o/secret", "{}"),
    ("DELETE", "/storage/v1/b/{bucket}/o/secret", ""),
    ("POST", "/storage/v1/b/{bucket}/o/secret/rewriteTo/b/mine/o/x", ""),
    ("POST", "/storage/v1/b/{bucket}/o/secret/copyTo/b/mine/o/x", ""),
    ("POST", "/storage/v1/b/mine/o/own/rewriteTo/b/{bucket}/o/x", ""),
    ("POST", "/storage/v1/b/{bucket}/o/secret/moveTo/o/x", ""),
    ("POST", "/storage/v1/b/{bucket}/o/x/compose", '{"sourceObjects": [{"name": "secret"}]}'),
    ("GET", "/download/storage/v1/b/{bucket}/o/secret?alt=media", ""),
    ("POST", "/upload/storage/v1/b/{bucket}/o?uploadType=media&name=x", "x"),
    ("POST", "/upload/storage/v1/b/{bucket}/o?uploadType=multipart&name=x", "x"),
    ("POST", "/upload/storage/v1/b/{bucket}/o?uploadType=resumable&name=x", ""),
    ("PUT", "/upload/storage/v1/b/{bucket}/o?upload_id={session}", ""),
    ("DELETE", "/upload/storage/v1/b/{bucket}/o?upload_id={session}", ""),
    ("POST", "/resumable/upload/storage/v1/b/{bucket}/o?uploadType=resumable&name=x", ""),
    ("PUT", "/resumable/upload/storage/v1/b/{bucket}/o?upload_id={session}", ""),
    ("DELETE", "/resumable/upload/storage/v1/b/{bucket}/o?upload_id={session}", ""),
]


def session_of(server, token, bucket):
    path = f"/upload/storage/v1/b/{bucket}/o?uploadType=resumable&name=x"
    return server.call("POST", path, token=token)[1]["X-GUploader-UploadID"]


@pytest.mark.parametrize(("verb", "path", "body"), FOREIGN)
def test_a_bucket_of_another_project_is_not_there(server, verb, path, body):
    server.put("mine", "own", token=ONE)
    session = session_of(server, TWO, "theirs")
    answers = [
        server.call(verb, path.format(bucket=bucket, session=session), body, token=ONE)
        for bucket in ("theirs", "unknown")
    ]
    texts = [json.dumps(answer[2]).replace("theirs", "unknown") for answer in answers]
    assert [answer[0] for answer in answers] == [404, 404]
    assert texts[0] == texts[1]  # nothing tells a foreign bucket from none
    assert server.call("GET", "/storage/v1/b/theirs/o/secret?alt=media", token=TWO)[2] == b"secret"


def test_every_row_of_the_table_was_asked_for_a_foreign_bucket():
    rows = {(row.verb, row.path) for row in storage_routes(None, None, None)}
    assert len(rows) == len(TABLE)
    requested = {
        (verb, re.split(r"[?]|/o/|/x$", path)[0].replace("mine", "{bucket}"))
        for verb, path, _ in FOREIGN
    }
    routed = {(verb, re.split("/o/|/{name", path)[0]) for verb, path in rows if "{bucket}" in path}
    assert routed == requested


def test_a_session_cannot_be_continued_from_another_bucket(server):
    session = session_of(server, TWO, "theirs")
    path = f"/upload/storage/v1/b/mine/o?upload_id={session}"
    assert server.call("PUT", path, b"x", token=ONE)[0] == 400


@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [row for row in FOREIGN if row[0] != "GET" and "rewriteTo/b/mine" not in row[1]],
)
def test_a_viewer_changes_nothing(server, verb, path, body):
    session = session_of(server, ONE, "mine")
    server.put("mine", "secret", b"here", ONE)
    target = path.format(bucket="mine", session=session)
    status, _, answer = server.call(verb, target, body, token=VIEWER)
    assert (status, answer["error"]["errors"][0]["reason"]) == (403, "forbidden")
    assert "submitter" in answer["error"]["message"]
    assert server.call("GET", "/storage/v1/b/mine/o/secret?alt=media", token=VIEWER)[2] == b"here"


def test_buckets_are_listed_for_their_project_only(server):
    def names(query="", token=None):
        status, _, answer = server.call("GET", f"/storage/v1/b{query}", token=token)
        return [bucket["name"] for bucket in answer.get("items", [])] if status == 200 else status

    assert names(token=ONE) == names("?project=one", ONE) == names("?project=1001", ONE) == ["mine"]
    assert names("?project=two", ONE) == 403
    assert names(token=VIEWER) == ["mine"]
    assert {"mine", "theirs"} <= set(names())
    assert names("?maxResults=1&prefix=mi") == ["mine"]


@pytest.mark.parametrize(
    ("name", "call", "refusal"),
    [
        ("Upper", ("one", ONE), (400, "Invalid bucket name")),
        ("../x", ("one", ONE), (400, "Invalid bucket name")),
        (None, ("one", ONE), (400, "Invalid bucket name")),
        ("fresh", ("two", ONE), (403, "project two")),
        ("fresh", ("one", VIEWER), (403, "submitter")),
        ("mine", ("one", ONE), (409, "succeeded")),
        ("theirs", ("one", ONE), (409, "not available")),
    ],
)
def test_a_bucket_that_cannot_be_made_says_why(server, name, call, refusal):
    (project, token), (status, reason) = call, refusal
    body = json.dumps({"name": name})
    got, _, answer = server.call("POST", f"/storage/v1/b?project={project}", body, token=token)
    assert got == status
    assert reason in answer["error"]["message"]


def test_a_deleted_bucket_comes_back_to_its_project_only(server):
    server.make("brief", token=ONE)
    assert server.call("DELETE", "/storage/v1/b/brief", token=ONE)[0] == 204
    assert server.call("GET", "/storage/v1/b/brief", token=ONE)[0] == 404
    body = json.dumps({"name": "brief"})
    assert server.call("POST", "/storage/v1/b", body, token=TWO)[0] == 409
    assert server.call("POST", "/storage/v1/b", body, token=ONE)[0] == 200


def test_a_folder_of_nobodys_stays_so_whoever_writes_to_it(server):
    (server.data_dir / "buckets/found").mkdir()
    (server.data_dir / "buckets/found/old").write_text("from a local run")
    reading = "/storage/v1/b/found/o/old"
    assert [server.call("GET", reading, token=token)[0] for token in (ONE, TWO)] == [404, 404]
    assert server.call("GET", reading)[0] == 200  # who may do everything sees it
    assert server.put("found", "new")[0] == 200  # and takes it from nobody
    assert server.put("found", "new", token=VIEWER)[0] == 404
    assert [server.put("found", "new", token=token)[0] for token in (ONE, TWO)] == [404, 404]
    body = json.dumps({"name": "found"})  # nor is it had by making a bucket of its name
    statuses = [server.call("POST", "/storage/v1/b", body, token=token)[0] for token in (ONE, TWO)]
    assert statuses == [409, 409]
    assert [server.call("GET", reading, token=token)[0] for token in (ONE, TWO)] == [404, 404]


@pytest.mark.parametrize(
    ("byte_range", "status", "content", "content_range"),
    [
        (None, 200, b"0123456789", None),
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-2", 206, b"89", "bytes 8-9/10"),
        ("bytes=5-99", 206, b"56789", "bytes 5-9/10"),
    ],
)
def test_a_download_may_be_a_range(bucket, byte_range, status, content, content_range):
    bucket.put("mine", "x", b"0123456789", ONE)
    headers = {"Range": byte_range} if byte_range else {}
    for path in ("/download/storage/v1/b/mine/o/x?alt=media", "/storage/v1/b/mine/o/x?alt=media"):
        got, answer_headers, body = bucket.call("GET", path, headers=headers, token=ONE)
        assert (got, body, answer_headers["Content-Range"]) == (status, content, content_range)
        assert answer_headers["X-Goog-Hash"].startswith("crc32c=")


def test_a_range_behind_the_end_cannot_be_satisfied(bucket):
    bucket.put("mine", "x", b"0123456789", ONE)
    headers = {"Range": "bytes=10-"}
    status, answer_headers, body = bucket.call(
        "GET", "/storage/v1/b/mine/o/x?alt=media", headers=headers, token=ONE
    )
    assert (status, answer_headers["Content-Range"]) == (416, "bytes */10")
    assert "not satisfiable" in body["error"]["message"]


def test_a_revision_is_the_one_that_was_asked_for(bucket):
    generation = bucket.put("mine", "x", b"one", ONE)[2]["generation"]
    path = f"/storage/v1/b/mine/o/x?alt=media&generation={generation}"
    assert bucket.call("GET", path, token=ONE)[2] == b"one"
    bucket.put("mine", "x", b"two", ONE)
    assert bucket.call("GET", path, token=ONE)[0] == 404


@pytest.mark.parametrize(
    ("query", "status"),
    [("ifGenerationMatch=0", 412), ("ifGenerationMatch=5", 412), ("ifMetagenerationMatch=1", 200)],
)
def test_conditions_are_kept_on_every_way_to_write(bucket, query, status):
    bucket.put("mine", "x", b"one", ONE)
    bucket.put("mine", "y", b"two", ONE)
    calls = [
        ("POST", f"/upload/storage/v1/b/mine/o?uploadType=media&name=x&{query}", "three"),
        ("PATCH", f"/storage/v1/b/mine/o/x?{query}", "{}"),
        ("POST", f"/storage/v1/b/mine/o/y/copyTo/b/mine/o/x?{query}", ""),
        ("POST", f"/storage/v1/b/mine/o/x/compose?{query}", '{"sourceObjects": [{"name": "y"}]}'),
        ("POST", f"/storage/v1/b/mine/o/y/moveTo/o/x?{query}", ""),
    ]
    for verb, path, body in calls:
        got, _, answer = bucket.call(verb, path, body, token=ONE)
        assert got == status
        bucket.put("mine", "x", b"one", ONE)
        if status == 412:
            assert answer["error"]["errors"][0]["reason"] == "conditionNotMet"


def test_names_are_one_part_of_the_path_and_never_mistaken(bucket):
    odd = "a%2FrewriteTo%2Fb%2Fmine%2Fo%2Fcompose"
    assert bucket.put("mine", odd, b"odd", ONE)[0] == 200
    assert bucket.call("GET", f"/storage/v1/b/mine/o/{odd}?alt=media", token=ONE)[2] == b"odd"
    plain = "/storage/v1/b/mine/o/a/rewriteTo/b/mine/o/compose?alt=media"  # slashes as they are
    assert bucket.call("GET", plain, token=ONE)[2] == b"odd"
    assert bucket.call("POST", f"/storage/v1/b/mine/o/{odd}/copyTo/b/mine/o/x", token=ONE)[0] == 200


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e%2f%2e%2e%2fadmin-token", "a%2F%2Fb", "%00", "%FF", "x" * 2000, ""]
)
def test_no_name_leads_out_of_the_bucket_or_breaks_the_server(bucket, name):
    (bucket.data_dir / "admin-token").write_text("secret")
    for verb, path in [
        ("GET", f"/storage/v1/b/mine/o/{name}?alt=media"),
        ("GET", f"/download/storage/v1/b/mine/o/{name}"),
        ("DELETE", f"/storage/v1/b/mine/o/{name}"),
        ("POST", f"/upload/storage/v1/b/mine/o?uploadType=media&name={name}"),
        ("POST", f"/storage/v1/b/mine/o/{name}/moveTo/o/y"),
    ]:
        assert bucket.call(verb, path, token=ONE)[0] in (400, 404)
    assert (bucket.data_dir / "admin-token").read_text() == "secret"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("matchGlob=*", "matchGlob"),
        ("maxResults=x", "maxResults"),
        ("pageToken=%25", "pageToken"),
    ],
)
def test_a_list_that_cannot_be_made_says_why(bucket, query, reason):
    status, _, answer = bucket.call("GET", f"/storage/v1/b/mine/o?{query}", token=ONE)
    assert (status, reason in answer["error"]["message"]) == (400, True)


def test_what_a_bucket_cannot_keep_is_not_promised(bucket):
    body = json.dumps({"labels": {"a": "b"}})
    assert bucket.call("PATCH", "/storage/v1/b/mine", body, token=ONE)[0] == 400


def test_files_that_are_no_objects_are_in_the_way_all_the_same(bucket):
    folder = bucket.data_dir / "buckets/mine/closed"
    folder.mkdir(exist_ok=True)
    file = folder / "x"
    file.mkdir(exist_ok=True)
    (file / ".trainshed-half").touch()  # not an object, and in the way
    status, _, answer = bucket.put("mine", "closed%2Fx", b"x", ONE)
    assert status == 400
    assert "folder" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("number", "status", "reason"),
    [
        (errno.ENOSPC, 507, "the disk is full"),
        (errno.EDQUOT, 507, "quota"),
        (errno.EACCES, 403, "no permission"),
        (errno.EIO, 503, "Input/output error"),
    ],
)
def test_what_the_disk_refuses_is_told_as_it_is(number, status, reason):
    def refuse(_ask, _document):
        raise OSError(number, os.strerror(number))

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    row = method("GET", "/", None, blocking(refuse))
    answer = asyncio.run(row.handle(Request({"type": "http"}, receive), None))
    assert answer.status_code == status
    assert reason in answer.body.decode()
