"""A neighbour swaps files, folders and links while the storage API is called.

No answer has a byte of another place, nothing is made there, and what is refused has its sentence.
"""

import json
import time

import pytest

from api.storage_process import storage_process
from conftest import FULL
from storage.swapper import KNOWN, SECRET, check_unharmed, check_unread, swapping

pytestmark = [pytest.mark.slow, KNOWN]

SECONDS = 60.0 if FULL else 3.0
ROOT = "/storage/v1/b/bkt/o"
UPLOAD = "/upload/storage/v1/b/bkt/o"
#: Being swapped, as a request has them.
SOURCES = ("file", "folder%2Fsecret")
TARGETS = (*SOURCES, "folder%2Fnew", "folder%2Fdeep%2Fx", "folder%2Fbelow%2Fplace%2F")
#: What the storage API says of a name that it does not take, or does not find.
REFUSED = (400, 404)

MULTIPART = (
    b"--cut\r\nContent-Type: application/json\r\n\r\n{}\r\n"
    b"--cut\r\nContent-Type: text/plain\r\n\r\nnew\r\n--cut--\r\n"
)
HEADERS = {"Content-Type": "multipart/related; boundary=cut"}


def calls():
    """Every row of the API that reads or makes an object."""
    for name in SOURCES:
        yield "GET", f"{ROOT}/{name}", None, {}
        yield "GET", f"{ROOT}/{name}?alt=media", None, {}
        yield "GET", f"/download{ROOT}/{name}?alt=media", None, {}
        yield "PATCH", f"{ROOT}/{name}", '{"metadata": {"a": "b"}}', {}
        yield "PUT", f"{ROOT}/{name}", "{}", {}
        yield "POST", f"{ROOT}/{name}/rewriteTo/b/bkt/o/rewritten", "{}", {}
        yield "POST", f"{ROOT}/{name}/copyTo/b/bkt/o/copied", "{}", {}
        sources = json.dumps({"sourceObjects": [{"name": name.replace("%2F", "/")}] * 2})
        yield "POST", f"{ROOT}/composed/compose", sources, {}
        yield "POST", f"{ROOT}/{name}/moveTo/o/moved", "{}", {}
        yield "DELETE", f"{ROOT}/{name}", None, {}
    for name in TARGETS:
        content = b"" if name.endswith("%2F") else b"new"
        yield "POST", f"{UPLOAD}?uploadType=media&name={name}", content, {}
        yield "POST", f"{UPLOAD}?uploadType=multipart&name={name}", MULTIPART, HEADERS
        yield "POST", f"{UPLOAD}?uploadType=resumable&name={name}", "{}", {}
        yield "POST", f"{ROOT}/moved/moveTo/o/{name}", "{}", {}
        yield "POST", f"{ROOT}/copied/rewriteTo/b/bkt/o/{name}", "{}", {}
    yield "GET", ROOT, None, {}
    yield "GET", f"{ROOT}?delimiter=/&prefix=folder/", None, {}


def called(server, call):
    """The answer; of a resumable upload, that to its bytes."""
    verb, path, body, headers = call
    answer = server.call(verb, path, body, headers)
    if "resumable" not in path or answer[0] != 200:
        return answer
    session = f"{UPLOAD}?upload_id={answer[1]['X-GUploader-UploadID']}"
    return server.call("PUT", session, b"new")


@pytest.mark.parametrize("options", [(), ("by_parts",)], ids=["openat2", "by parts"])
def test_no_answer_has_a_byte_from_outside_and_nothing_is_made_there(tmp_path, options):
    data, outside, statuses = tmp_path / "data", tmp_path / "outside", set()
    data.mkdir()
    end_s = time.monotonic() + SECONDS
    with storage_process(data, *options) as server:
        server.make("bkt")
        with swapping(data / "buckets" / "bkt", outside):
            while time.monotonic() < end_s or not statuses.issuperset({200, *REFUSED}):
                for call in calls():
                    status, _, content = called(server, call)
                    statuses.add(status)
                    assert status in (200, 204, *REFUSED), (call, content)
                    assert SECRET not in (
                        content if isinstance(content, bytes) else json.dumps(content).encode()
                    )
                    check_unharmed(outside)
    check_unread(data / "buckets" / "bkt")


def test_a_link_is_refused_by_name(tmp_path):
    data, outside = tmp_path / "data", tmp_path / "outside"
    (data / "buckets" / "bkt" / "dir").mkdir(parents=True)
    outside.mkdir()
    for name in ("link", "dir/link"):
        (data / "buckets" / "bkt" / name).symlink_to(outside)
    with storage_process(data) as server:
        server.put("bkt", "own")
        for name in ("link", "link/x", "dir/link", "dir/link/new/x"):
            session = called(
                server, ("POST", f"{UPLOAD}?uploadType=resumable&name={name}", "{}", {})
            )
            to, multipart = name.replace("/", "%2F"), f"{UPLOAD}?uploadType=multipart&name={name}"
            for status, _, answer in (
                session,
                server.put("bkt", name, b"new"),
                server.call("POST", multipart, MULTIPART, HEADERS),
                server.call("POST", f"{ROOT}/own/moveTo/o/{to}", "{}"),
                server.call("POST", f"{ROOT}/own/rewriteTo/b/bkt/o/{to}", "{}"),
                server.call("POST", f"{ROOT}/{to}/compose", '{"sourceObjects": [{"name": "own"}]}'),
            ):
                assert status == 400
                reason = f"Invalid object name '{name}': objects are files on this server, and a"
                assert answer["error"]["message"].startswith(reason)
        listed = server.call("GET", ROOT)[2]["items"]
        assert [item["name"] for item in listed] == ["own"]
    assert list(outside.iterdir()) == []
