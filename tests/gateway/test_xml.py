"""The XML API: what it answers is what the JSON API has, in Google's words."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.replica import Replica


@pytest.fixture
def xml(replica):
    return replica.tls("storage.googleapis.com")


def code_of(answer):
    assert answer.header("Content-Type") == "application/xml"
    return answer.status, re.search("<Code>(.*)</Code>", answer.body.decode())[1]


def find_texts(answer, tag):
    return re.findall(f"<{tag}>(.*?)</{tag}>", answer.body.decode())


def test_a_range_of_an_object_is_read(xml, world):
    world.put("range/a b", b"0123456789")
    part = xml.ask("GET", "/mine/range/a%20b", Range="bytes=2-4")
    assert (part.status, part.body, part.header("Content-Range")) == (206, b"234", "bytes 2-4/10")
    assert xml.ask("GET", "/mine/range/a%20b", Range="bytes=8-99").body == b"89"
    behind = xml.ask("GET", "/mine/range/a%20b", Range="bytes=10-19")
    assert code_of(behind) == (416, "InvalidRange")
    assert behind.header("Content-Range") == "bytes */10"


def test_a_head_says_all_and_sends_nothing(xml, world):
    world.put("head", b"0123456789")
    head = xml.ask("HEAD", "/mine/head")
    assert (head.status, head.header("X-Goog-Stored-Content-Length")) == (200, "10")
    assert "content-length: 10" in head.head.lower()
    assert xml.ask("GET", "/mine/head").body == b"0123456789"  # and no byte too many before it
    assert xml.ask("HEAD", "/mine/nothing").status == 404


def test_an_object_is_stored_and_removed(xml):
    stored = xml.ask("PUT", "/mine/put/it", body=b"abc", Content_Type="text/plain")
    assert (stored.status, stored.header("ETag")) == (200, '"900150983cd24fb0d6963f7d28e17f72"')
    assert xml.ask("GET", "/mine/put/it").header("Content-Type").startswith("text/plain")
    again = xml.ask("PUT", "/mine/put/it", body=b"x", x_goog_if_generation_match="0")
    assert code_of(again) == (412, "PreconditionFailed")
    wrong = xml.ask("PUT", "/mine/put/it", body=b"x", Content_MD5="kAFQmDzST7DWlj99KOF/cg==")
    assert wrong.status == 400
    copied = xml.ask("PUT", "/mine/put/copy", x_goog_copy_source="/mine/put/it")
    assert find_texts(copied, "ETag") == ['"900150983cd24fb0d6963f7d28e17f72"']
    assert xml.ask("DELETE", "/mine/put/it").status == 204
    assert code_of(xml.ask("DELETE", "/mine/put/it")) == (404, "NoSuchKey")


def test_a_bucket_is_listed_by_folders_and_in_pages(xml, world):
    for name in ("list/a", "list/b/1", "list/b/2", "list/c&d"):
        world.put(name, b"x")
    assert find_texts(xml.ask("GET", "/mine?prefix=list/"), "Key") == [
        "list/a", "list/b/1", "list/b/2", "list/c&amp;d",
    ]  # fmt: skip
    folders = xml.ask("GET", "/mine?prefix=list/&delimiter=/")
    assert find_texts(folders, "Key") == ["list/a", "list/c&amp;d"]
    assert find_texts(folders, "CommonPrefixes") == ["<Prefix>list/b/</Prefix>"]
    first = xml.ask("GET", "/mine?prefix=list/&delimiter=/&max-keys=2")
    assert (find_texts(first, "IsTruncated"), find_texts(first, "NextMarker")) == (
        ["true"],
        ["list/b/"],
    )
    rest = xml.ask("GET", "/mine?prefix=list/&delimiter=/&marker=list/b/")
    assert (find_texts(rest, "Key"), find_texts(rest, "IsTruncated")) == (
        ["list/c&amp;d"],
        ["false"],
    )


def test_the_newer_list_goes_on_where_its_page_ended(xml, world):
    for name in ("two/a", "two/b", "two/c"):
        world.put(name, b"x")
    first = xml.ask("GET", "/mine?list-type=2&prefix=two/&max-keys=2")
    assert (find_texts(first, "Key"), find_texts(first, "KeyCount")) == (["two/a", "two/b"], ["2"])
    (token,) = find_texts(first, "NextContinuationToken")
    rest = xml.ask("GET", f"/mine?list-type=2&prefix=two/&continuation-token={token}")
    assert find_texts(rest, "Key") == ["two/c"]
    behind = xml.ask("GET", "/mine?list-type=2&prefix=two/&start-after=two/a")
    assert find_texts(behind, "Key") == ["two/b", "two/c"]


def test_an_address_may_say_how_the_bytes_are_described(xml, world):
    world.put("described", b"x")
    query = "response-content-type=text/csv&response-content-disposition=attachment%0d%0aX:%20y"
    answer = xml.ask("GET", f"/mine/described?{query}")
    assert (answer.header("Content-Type"), answer.header("X")) == ("text/csv", None)


def test_a_bucket_may_be_named_by_the_host(replica, world):
    world.put("host/x", b"by host")
    assert replica.tls("mine.storage.googleapis.com").ask("GET", "/host/x").body == b"by host"


@pytest.mark.parametrize(
    ("verb", "target", "answer"),
    [
        ("GET", "/none/x", (404, "NoSuchBucket")),
        ("GET", "/none", (404, "NoSuchBucket")),
        ("GET", "/mine/none", (404, "NoSuchKey")),
        ("GET", "/mine?acl", (501, "NotImplemented")),
        ("POST", "/mine/x?uploads", (501, "NotImplemented")),
        ("GET", "/mine/%ff", (400, "InvalidArgument")),
        ("GET", "/mine/x?Signature=00", (403, "SignatureDoesNotMatch")),
        ("PUT", "/new", (403, "AccessDenied")),
        ("DELETE", "/mine", (403, "AccessDenied")),
    ],
)
def test_a_refusal_has_googles_code(xml, verb, target, answer):
    assert code_of(xml.ask(verb, target)) == answer


HEADERS = ["Range", "Content-MD5", "x-goog-if-generation-match", "x-goog-copy-source", "Expect"]
ODD = st.text(st.sampled_from('/%?&=+.:a1 \u00ff\\"<\t'), max_size=12).map(
    lambda text: text.translate({ord(" "): "%20", ord("\t"): "%09"})
)


@given(
    st.sampled_from(["GET", "HEAD", "PUT", "DELETE", "POST", "PATCH"]),
    ODD,
    st.dictionaries(st.sampled_from(HEADERS), ODD, max_size=2),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_asked_is_answered_or_refused(world, verb, target, headers):
    replica = Replica(world)
    try:
        wire = replica.tls()
        answer = wire.ask(verb, f"/{target}", **headers)
        if answer.status == 100:
            answer = wire.answer(bodiless=verb == "HEAD")
        assert answer.status < 500 or answer.status == 501
    finally:
        replica.close()
