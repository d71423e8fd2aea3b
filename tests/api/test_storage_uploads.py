"""Uploads over a real connection: gcloud's own bytes, pieces, cuts, a killed server."""

import base64
import hashlib
import http.client
import json
import shutil
import socket
import time
import urllib.parse
from pathlib import Path

import google_crc32c
import pytest

from api.storage_process import storage_process

#: What gcloud 528 sends for a package (docs/sources/gcloud.md 4): bare LF, a quoted boundary.
BOUNDARY = "===============6951770678474630291=="
NAME = "j_pkg/f6261dfe7ebc/trainer-0.0.0.tar.gz"
QUOTED = "j_pkg%2Ff6261dfe7ebc%2Ftrainer-0.0.0.tar.gz"
PACKAGE = bytes(range(256)) + b"\n--" + BOUNDARY.encode() + b"--\r\n\n"
SINGLE = (
    f"--{BOUNDARY}\n"
    "Content-Type: application/json\nMIME-Version: 1.0\n\n"
    f'{{"size": "{len(PACKAGE)}"}}\n'
    f"--{BOUNDARY}\n"
    "Content-Type: application/x-tar\nMIME-Version: 1.0\nContent-Transfer-Encoding: binary\n\n"
).encode() + PACKAGE + f"\n--{BOUNDARY}--".encode()  # fmt: skip
RESUMABLE = "/resumable/upload/storage/v1/b/stage-bkt/o?alt=json&uploadType=resumable&name="


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with storage_process(tmp_path_factory.mktemp("data")) as process:
        yield process


@pytest.fixture
def server(process):
    """The server with nothing on its disk but a bucket."""
    for folder in ("buckets", "objects", "uploads"):
        shutil.rmtree(process.data_dir / folder, ignore_errors=True)
    process.make("stage-bkt", token="one-submitter")
    return process


def crc32c(text):
    return base64.b64encode(google_crc32c.value(text).to_bytes(4, "big")).decode()


def begin(server, name="big", document=None, **headers):
    status, answer_headers, body = server.call(
        "POST", RESUMABLE + name, json.dumps(document or {}), headers, token="one-submitter"
    )
    assert (status, body) == (200, b"")
    place = urllib.parse.urlsplit(answer_headers["Location"])
    assert place.netloc == f"127.0.0.1:{server.port}"
    return f"{place.path}?{place.query}"


def send(server, place, content, span, **headers):
    return server.call("PUT", place, content, {"Content-Range": span, **headers}, "one-submitter")


def stored(server, name="big"):
    path = server.data_dir / "buckets/stage-bkt" / name
    return path.read_bytes() if path.exists() else None


def test_the_bytes_that_gcloud_sends_for_a_package_are_understood(server):
    status, _, answer = server.call(
        "POST",
        f"/upload/storage/v1/b/stage-bkt/o?alt=json&name={QUOTED}&uploadType=multipart",
        SINGLE,
        {"content-type": f"multipart/related; boundary='{BOUNDARY}'"},
        "one-submitter",
    )
    assert status == 200
    assert (answer["bucket"], answer["name"], answer["size"]) == (
        "stage-bkt",
        NAME,
        str(len(PACKAGE)),
    )
    assert (answer["contentType"], answer["crc32c"]) == ("application/x-tar", crc32c(PACKAGE))
    assert stored(server, NAME) == PACKAGE


def test_a_large_package_of_gcloud_comes_in_pieces(server):
    content = bytes(range(256)) * 4096
    place = begin(
        server,
        QUOTED,
        {"size": str(len(content))},
        **{
            "X-Upload-Content-Type": "application/x-tar",
            "X-Upload-Content-Length": str(len(content)),
        },
    )
    half = len(content) // 2
    status, answer_headers, _ = send(
        server, place, content[:half], f"bytes 0-{half - 1}/{len(content)}"
    )
    assert (status, answer_headers["Range"], answer_headers["Location"]) == (
        308,
        f"bytes=0-{half - 1}",
        None,
    )
    assert stored(server, NAME) is None
    last = f"bytes {half}-{len(content) - 1}/{len(content)}"
    status, _, document = send(server, place, content[half:], last)
    assert (status, document["size"], document["contentType"]) == (
        200,
        str(len(content)),
        "application/x-tar",
    )
    assert document["crc32c"] == crc32c(content)
    assert stored(server, NAME) == content
    again = send(server, place, b"", f"bytes */{len(content)}")  # the answer was lost
    assert (again[0], again[2]["generation"]) == (200, document["generation"])


def test_the_session_keeps_the_prefix_that_the_caller_came_with(server):
    _, answer_headers, _ = server.call(
        "POST", "/as/one-submitter/upload/storage/v1/b/stage-bkt/o?uploadType=resumable&name=x"
    )
    start = f"http://127.0.0.1:{server.port}/as/one-submitter/upload/storage/v1/b/stage-bkt/o?"
    assert answer_headers["Location"].startswith(start)


def test_an_upload_that_was_cut_off_is_invisible_and_goes_on_after_a_crash(server):
    content = bytes(range(256)) * 8192
    place = begin(server)
    cut = len(content) // 3
    head = (
        f"PUT {place} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        "Authorization: Bearer one-submitter\r\n"
        f"Content-Length: {len(content)}\r\n"
        f"Content-Range: bytes 0-{len(content) - 1}/{len(content)}\r\n\r\n"
    ).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head + content[:cut])
    # the server may not have seen the end yet; what it says it has, it has for good
    server.kill()
    server.start()
    assert stored(server) is None
    status, answer_headers, _ = send(server, place, b"", f"bytes */{len(content)}")
    assert status == 308
    received = (
        int(answer_headers["Range"].removeprefix("bytes=0-")) + 1 if answer_headers["Range"] else 0
    )
    assert received <= cut
    rest = f"bytes {received}-{len(content) - 1}/{len(content)}"
    status, _, document = send(server, place, content[received:], rest)
    assert (status, document["crc32c"]) == (200, crc32c(content))
    assert stored(server) == content


def wait_until(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def files(server, folder):
    return [path for path in (server.data_dir / "uploads" / folder).rglob("*") if path.is_file()]


def cut_off(server, target, headers, content, when):
    """Send a part of a body, and hang up once the server has got some of it."""
    with server.connect() as connection:
        connection.putrequest(*target)
        connection.putheader("Authorization", "Bearer one-submitter")
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(content)
        wait_until(when)


def test_what_came_before_a_cut_is_kept(server):
    content = bytes(range(256)) * 16384
    total, sent = len(content), len(content) * 3 // 4
    place = begin(server)
    cut_off(
        server,
        ("PUT", place),
        {"Content-Length": total, "Content-Range": f"bytes 0-{total - 1}/{total}"},
        content[:sent],
        lambda: any(path.stat().st_size >= 1 << 20 for path in files(server, "sessions")),
    )
    assert stored(server) is None
    answer_headers = send(server, place, b"", f"bytes */{total}")[1]
    received = int(answer_headers["Range"].removeprefix("bytes=0-")) + 1
    assert 1 << 20 <= received <= sent
    rest = f"bytes {received}-{total - 1}/{total}"
    # what the cut connection still had to say may arrive meanwhile: then we are told, and ask again
    while (answer := send(server, place, content[received:], rest))[0] in (308, 503):
        answer_headers = send(server, place, b"", f"bytes */{total}")[1]
        received = int(answer_headers["Range"].removeprefix("bytes=0-")) + 1
        rest = f"bytes {received}-{total - 1}/{total}"
    assert (answer[0], stored(server)) == (200, content)


def test_a_multipart_upload_that_was_cut_off_leaves_nothing(server):
    path = "/upload/storage/v1/b/stage-bkt/o?uploadType=multipart&name=x"
    kind = {"Content-Type": f"multipart/related; boundary='{BOUNDARY}'", "Content-Length": 4 << 20}
    head = SINGLE[: SINGLE.index(PACKAGE)]
    cut_off(server, ("POST", path), kind, head + bytes(2 << 20), lambda: files(server, "parts"))
    wait_until(lambda: not files(server, "parts"))
    assert stored(server, "x") is None


def test_a_piece_may_be_sent_again_and_none_may_be_left_out(server):
    place = begin(server)
    assert send(server, place, b"abcd", "bytes 0-3/*")[1]["Range"] == "bytes=0-3"
    assert send(server, place, b"abcd", "bytes 0-3/*")[1]["Range"] == "bytes=0-3"
    assert send(server, place, b"cdef", "bytes 2-5/*")[1]["Range"] == "bytes=0-5"
    assert send(server, place, b"xyz", "bytes 9-11/*")[1]["Range"] == "bytes=0-5"
    assert send(server, place, b"", "bytes */*")[0] == 308
    assert send(server, place, b"", "bytes */6")[0] == 200  # how gcsfs ends
    assert stored(server) == b"abcdef"


def test_one_put_without_a_range_is_the_whole_upload(server):
    place = begin(server)
    status, _, answer = server.call("PUT", place, b"abc", token="one-submitter")
    assert (status, answer["size"]) == (200, "3")
    empty = begin(server, "empty")
    assert send(server, empty, b"", "bytes */0")[2]["size"] == "0"


@pytest.mark.parametrize(
    ("content", "span"),
    [
        (b"abcd", "bytes 0-2/3"),
        (b"abc", "bytes 0-2/4"),
        (b"abc", "nonsense"),
        (b"a", "bytes 3-1/9"),
    ],
)
def test_a_piece_that_contradicts_itself_is_refused(server, content, span):
    place = begin(server, **{"X-Upload-Content-Length": "3"})
    status, _, answer = send(server, place, content, span)
    assert status == 400
    assert "Range" in answer["error"]["message"]
    assert stored(server) is None


@pytest.mark.parametrize("kind", ["crc32c", "md5"])
def test_bytes_that_are_not_what_was_meant_are_not_stored(server, kind):
    wrong = crc32c(b"other") if kind == "crc32c" else base64.b64encode(bytes(16)).decode()
    place = begin(server)
    status, _, answer = send(
        server, place, b"abc", "bytes 0-2/3", **{"x-goog-hash": f"{kind}={wrong}"}
    )
    assert (status, stored(server)) == (400, None)
    assert f"Provided {kind.upper()}" in answer["error"]["message"]
    assert send(server, place, b"", "bytes */3")[0] == 404
    document = {"name": "x", "crc32c" if kind == "crc32c" else "md5Hash": wrong}
    body = f"--b\r\n\r\n{json.dumps(document)}\r\n--b\r\n\r\nabc\r\n--b--\r\n"
    status, *_ = server.call(
        "POST",
        "/upload/storage/v1/b/stage-bkt/o?uploadType=multipart",
        body,
        {"Content-Type": "multipart/related; boundary=b"},
        "one-submitter",
    )
    assert (status, stored(server, "x")) == (400, None)


def test_right_checksums_are_accepted(server):
    place = begin(server)
    md5 = base64.b64encode(hashlib.md5(b"abc").digest()).decode()  # noqa: S324 -- the API's
    claim = f"crc32c={crc32c(b'abc')},md5={md5}"
    status, _, answer = send(server, place, b"abc", "bytes 0-2/3", **{"x-goog-hash": claim})
    assert (status, answer["md5Hash"]) == (200, md5)


def test_a_cancelled_session_is_answered_as_google_does(server):
    place = begin(server)
    assert server.call("DELETE", place, token="one-submitter")[0] == 499
    assert send(server, place, b"abc", "bytes 0-2/3")[0] == 404


@pytest.mark.parametrize(
    ("path", "headers", "body", "reason"),
    [
        ("uploadType=multipart&name=x", {"Content-Type": "text/plain"}, b"x", "multipart/related"),
        ("uploadType=multipart", {"Content-Type": "multipart/related; boundary=b"},
         b"--b\n\n{}\n--b\n\nx\n--b--", "Required parameter: name"),
        ("uploadType=media", {}, b"x", "Required parameter: name"),
        ("uploadType=odd&name=x", {}, b"x", "uploadType"),
        ("name=x", {}, b"x", "uploadType"),
        ("uploadType=resumable&name=x", {}, b"{]", "must be a JSON object"),
        ("uploadType=resumable&name=a//b", {}, b"", "empty"),
        ("uploadType=media&name=../x", {}, b"x", "'..'"),
        ("uploadType=media&name=x&ifGenerationMatch=x", {}, b"x", "ifGenerationMatch"),
        ("uploadType=resumable&name=x", {"X-Upload-Content-Length": "-1"}, b"", "Content-Length"),
    ],
)  # fmt: skip
def test_a_bad_upload_says_what_is_wrong(server, path, headers, body, reason):
    status, _, answer = server.call(
        "POST", f"/upload/storage/v1/b/stage-bkt/o?{path}", body, headers, "one-submitter"
    )
    assert status == 400
    assert reason in answer["error"]["message"]
    assert answer["error"]["errors"][0]["reason"] == "invalid"


def test_a_large_body_to_an_unknown_bucket_is_read_and_answered(server):
    """A client in the middle of sending would report a broken connection and not the reason."""
    status, _, answer = server.put("none", "x", bytes(16 << 20), "one-submitter")
    assert status == 404
    assert "The specified bucket does not exist." in answer["error"]["message"]


def test_a_large_upload_is_not_held_in_memory(server):
    def peak_kib():
        status = Path(f"/proc/{server.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if "VmHWM" in line))

    server.put("stage-bkt", "warm", bytes(8 << 20), "one-submitter")
    before, piece, count = peak_kib(), bytes(1 << 20), 192
    with server.connect() as connection:
        connection.putrequest("POST", "/upload/storage/v1/b/stage-bkt/o?uploadType=media&name=huge")
        connection.putheader("Authorization", "Bearer one-submitter")
        connection.putheader("Content-Length", str(len(piece) * count))
        connection.endheaders()
        for _ in range(count):
            connection.send(piece)
        assert connection.getresponse().status == http.client.OK
    with server.connect() as connection:
        connection.request("GET", "/storage/v1/b/stage-bkt/o/huge?alt=media")
        answer = connection.getresponse()
        assert sum(len(part) for part in iter(lambda: answer.read(1 << 20), b"")) == count << 20
    assert peak_kib() - before < 32 << 10
