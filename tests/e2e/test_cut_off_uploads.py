"""An upload whose connection ends in the middle: no half object, and a session goes on."""

import json
import socket
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

from e2e.support import check_log, good, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _clean_log(server):
    yield
    check_log(server)


def cut_off(server, path, verb, body, length, *headers):
    """Send the beginning of a body, then hang up."""
    place = urlsplit(server.url)
    head = [
        f"{verb} {path} HTTP/1.1",
        f"Host: {place.netloc}",
        f"Authorization: Bearer {server.token}",
        f"Content-Length: {length}",
        *headers,
    ]
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode() + body)


def test_an_upload_that_is_cut_off_leaves_no_object(server):
    path = "/upload/storage/v1/b/out-bkt/o?uploadType=media&name=torn"
    cut_off(server, path, "POST", b"x" * 100_000, 1_000_000)
    assert server.call("GET", "/storage/v1/b/out-bkt/o/torn")[0] == 404
    good(server.call("POST", path, "whole"))
    assert good(server.call("GET", "/storage/v1/b/out-bkt/o/torn"))["size"] == "7"


def test_an_upload_that_is_cut_off_goes_on_where_it_was(server):
    body = bytes(range(256)) * 4096
    session = begin_upload(server, "/upload/storage/v1/b/out-bkt/o?uploadType=resumable&name=long")
    cut_off(server, session, "PUT", body[:300_000], len(body))
    assert 0 < wait_until(lambda: how_far(server, session)) <= 300_000
    assert wait_until(lambda: finish(server, session, body))["size"] == str(len(body))
    download = urllib.request.Request(
        f"{server.url}/download/storage/v1/b/out-bkt/o/long?alt=media",
        headers={"Authorization": f"Bearer {server.token}"},
    )
    with urllib.request.urlopen(download, timeout=60) as answer:
        assert answer.read() == body


def begin_upload(server, path):
    """The path of an upload's session."""
    request = urllib.request.Request(
        server.url + path,
        method="POST",
        data=b"{}",
        headers={"Authorization": f"Bearer {server.token}"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        place = urlsplit(answer.headers["Location"])
        return f"{place.path}?{place.query}"


def finish(server, session, body):
    """The object, or nothing if bytes of the cut off connection still came in meanwhile."""
    received, last = how_far(server, session), len(body) - 1
    request = urllib.request.Request(
        server.url + session,
        method="PUT",
        data=body[received:],
        headers={
            "Content-Range": f"bytes {received}-{last}/{len(body)}",
            "Authorization": f"Bearer {server.token}",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 308:
            raise


def how_far(server, session):
    """How many bytes of an unfinished upload have arrived."""
    request = urllib.request.Request(
        server.url + session,
        method="PUT",
        headers={"Content-Range": "bytes */*", "Authorization": f"Bearer {server.token}"},
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=60)
    with caught.value as answer:
        assert answer.code == 308
        return int((answer.headers["Range"] or "bytes=0--1").rpartition("-")[2]) + 1
