"""What clients of Google's storage insist on, byte by byte (docs/sources/gs-in-jobs.md)."""

import json

import pytest

BEGIN = "/upload/storage/v1/b/mine/o?uploadType=resumable&name="


@pytest.fixture
def api(replica):
    """TensorFlow uploads by this host."""
    return replica.tls("www.googleapis.com")


def begun(api, name, **headers):
    answer = api.ask("POST", f"{BEGIN}{name}", **headers)
    assert answer.status == 200
    return answer.header("Location").removeprefix("https://www.googleapis.com")


def test_the_place_of_an_upload_is_in_a_header_that_is_spelled_location(api):
    place = begun(api, "spelled")
    assert place.startswith("/upload/storage/v1/b/mine/o?uploadType=resumable&upload_id=")
    stored = api.ask("PUT", place, body=b"hello")
    assert (stored.status, json.loads(stored.body)["size"]) == (200, "5")


def test_a_body_is_chunked_in_spite_of_its_length(api):
    place = begun(api, "chunked")
    api.begin("PUT", place, length=11, Transfer_Encoding="chunked")
    api.send("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
    assert api.answer().status == 200
    assert api.ask("GET", "/storage/v1/b/mine/o/chunked?alt=media").body == b"hello world"


@pytest.mark.parametrize("verb", ["POST", "PUT"])
def test_a_request_without_a_body_may_call_its_coding_identity(api, verb):
    target = f"{BEGIN}identity" if verb == "POST" else begun(api, "identity")
    answer = api.ask(verb, target, Transfer_Encoding="identity", Content_Type="text/plain")
    assert answer.status == 200
    assert api.ask("GET", "/storage/v1/b/mine?fields=name").status == 200  # the next one is read


def test_a_head_may_come_in_pieces(api):
    # TCP may divide a head anywhere; docs/sources/gs-in-jobs.md has no such recording
    lines = f"POST {BEGIN}pieces HTTP/1.1\r\nHost: www.googleapis.com\r\nContent-Length: 0\r\n"
    token = f"Authorization: Bearer {api._token()}\r\n"
    for piece in (lines, token, "Transfer-Enc", "oding: iden", "tity\r\n", "\r", "\n"):
        api.send(piece)
    assert api.answer().header("Location")


def test_a_client_that_waits_for_leave_gets_it(api):
    api.begin("PUT", begun(api, "leave"), length=3, Expect="100-continue")
    assert api.answer().status == 100
    api.send(b"abc")
    assert api.answer().status == 200


def test_how_far_an_upload_is_is_said_in_a_header_that_is_spelled_range(api):
    place = begun(api, "far")
    nothing = api.ask("PUT", place, Content_Range="bytes */8")
    assert (nothing.status, nothing.header("Range")) == (308, None)
    some = api.ask("PUT", place, body=b"abcd", Content_Range="bytes 0-3/8")
    assert (some.status, some.header("Range")) == (308, "bytes=0-3")
    status = api.ask("PUT", place, Content_Range="bytes */8")
    assert (status.status, status.header("Range")) == (308, "bytes=0-3")
    assert api.ask("PUT", place, body=b"efgh", Content_Range="bytes 4-7/8").status == 200


def test_a_folder_is_an_object_of_no_bytes_whose_name_ends_in_a_slash(api):
    created = api.ask("POST", "/upload/storage/v1/b/mine/o?uploadType=media&name=a/b/")
    assert json.loads(created.body)["size"] == "0"
    listed = "/storage/v1/b/mine/o?fields=items/name,nextPageToken&prefix=a/b/&maxResults=1"
    assert [item["name"] for item in json.loads(api.ask("GET", listed).body)["items"]] == ["a/b/"]
    stat = "/storage/v1/b/mine/o/a%2Fb%2F?fields=size,generation,updated"
    assert json.loads(api.ask("GET", stat).body)["size"] == "0"
    assert api.ask("DELETE", "/storage/v1/b/mine/o/a%2Fb%2F").status == 204
    assert api.ask("GET", stat).status == 404


def test_a_list_has_what_was_stored_just_before(api):
    for name in ("fresh/1", "fresh/2"):
        api.ask("POST", f"/upload/storage/v1/b/mine/o?uploadType=media&name={name}", body=b"x")
        listed = json.loads(api.ask("GET", "/storage/v1/b/mine/o?prefix=fresh/").body)
        assert listed["items"][-1]["name"] == name
