"""What goes beyond the bytes of a project is refused on every way into a bucket."""

import json

import pytest

from api.storage_process import storage_process

ONE, TWO = "one-submitter", "two-submitter"
LIMIT = 100_000
UPLOAD = "/upload/storage/v1/b/mine/o"


@pytest.fixture
def server(tmp_path):
    (tmp_path / "bytes_max").write_text(str(LIMIT))
    with storage_process(tmp_path) as process:
        process.make("mine", token=ONE)
        process.make("theirs", token=TWO)
        assert process.put("mine", "first", bytes(60_000), ONE)[0] == 200
        yield process


def multipart(content):
    head = b"--b\r\nContent-Type: application/json\r\n\r\n{}\r\n--b\r\nContent-Type: x/y\r\n\r\n"
    return head + content + b"\r\n--b--"


def refused(answer):
    status, _, body = answer
    assert status == 403, body
    assert "limits.project_bytes_max" in body["error"]["message"]
    assert "project one has 60000 bytes" in body["error"]["message"]


def test_more_than_a_project_may_have_is_refused_however_it_comes(server):
    refused(server.put("mine", "second", bytes(50_000), ONE))
    query = f"{UPLOAD}?uploadType=multipart&name=second"
    headers = {"Content-Type": "multipart/related; boundary=b"}
    refused(server.call("POST", query, multipart(bytes(50_000)), headers, ONE))
    begun = server.call("POST", f"{UPLOAD}?uploadType=resumable&name=second", b"{}", token=ONE)
    session = begun[1]["Location"].partition("/upload/")[2]
    refused(server.call("PUT", f"/upload/{session}", bytes(50_000), token=ONE))
    objects = "/storage/v1/b/mine/o"
    for action in ("rewriteTo/b/mine/o/second", "copyTo/b/mine/o/second"):
        refused(server.call("POST", f"{objects}/first/{action}", b"{}", token=ONE))
    sources = {"sourceObjects": [{"name": "first"}], "destination": {}}
    refused(server.call("POST", f"{objects}/second/compose", json.dumps(sources), token=ONE))
    listed = server.call("GET", objects, token=ONE)[2]["items"]
    assert [item["name"] for item in listed] == ["first"]
    assert server.put("mine", "second", bytes(40_000), ONE)[0] == 200
    assert server.put("theirs", "other", bytes(90_000), TWO)[0] == 200
