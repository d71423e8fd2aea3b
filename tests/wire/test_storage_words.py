import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import check_golden
from trainshed.model.stored_objects import Attributes, Checksums, Conditions, StoredObject
from trainshed.wire.storage_v1.requests import (
    SOURCE_CONDITION_KEYS,
    BadStorageRequest,
    ContentRange,
    attributes_of,
    byte_range,
    checksums_of,
    compose_sources,
    conditions_of,
    content_range,
    error_json,
    header_checksums,
    patch_attributes,
)
from trainshed.wire.storage_v1.resources import (
    bucket_json,
    bucket_list_json,
    download_headers,
    object_json,
    object_list_json,
    rewrite_json,
)

GOLDEN = Path(__file__).parents[1] / "golden/storage_v1"
NOON = datetime(2026, 11, 20, 12, 0, 0, 120_456, tzinfo=UTC)
FOUND = StoredObject(
    bucket="stage",
    name="dir/aiplatform-2026-11-20-23:53:10.914 ü.tar.gz",
    size=603,
    generation=1795274434978062,
    metageneration=2,
    created=NOON,
    updated=NOON,
    attributes=Attributes(content_type="application/x-tar", metadata={"k": "v"}),
    checksums=Checksums(crc32c="mnG7TA==", md5="XUFAKrxLKna5cZ2REBfFkg=="),
)
BASE = "http://127.0.0.1:8080/as/TOKEN"


@pytest.mark.parametrize(
    ("header", "first", "last", "total"),
    [
        ("bytes 0-5/10", 0, 5, 10),
        ("bytes 0-5/*", 0, 5, None),
        ("bytes */10", None, None, 10),
        ("bytes */*", None, None, None),
        (" bytes 4194304-8388607/9000000 ", 4194304, 8388607, 9000000),
        ("bytes 0-9/10", 0, 9, 10),
    ],
)
def test_a_content_range_is_read(header, first, last, total):
    assert content_range(header) == ContentRange(first=first, last=last, total=total)


@pytest.mark.parametrize(
    "header",
    ["", "bytes", "bytes 5-0/10", "bytes 0-10/10", "bytes 0-/10", "items 0-1/2", "bytes -1-2/3",
     "bytes 0-5", "bytes 0-5/0", f"bytes 0-{'9' * 30}/*"],
)  # fmt: skip
def test_a_content_range_that_makes_no_sense_is_refused(header):
    with pytest.raises(BadStorageRequest, match="Content-Range must"):
        content_range(header)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-4", (0, 5)),
        ("bytes=7-", (7, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-30", (0, 10)),
        ("bytes=8-99", (8, 10)),
        ("bytes=10-", (10, 10)),
        ("bytes=5-2", None),
        ("bytes=0-1,4-5", None),
        ("nonsense", None),
        ("bytes=-", None),
    ],
)
def test_a_download_gets_the_range_it_asks_for(header, expected):
    assert byte_range(header, 10) == expected


@given(st.text(max_size=20), st.integers(0, 50))
def test_a_range_never_leaves_the_object(header, size):
    for text in (header, f"bytes={header}"):
        span = byte_range(text, size)
        assert span is None or 0 <= span[0] <= span[1] <= size


def test_resources_look_like_those_of_cloud_storage():
    document = object_json(FOUND, BASE)
    answers = {
        "object": document,
        "objects": object_list_json([document], ["dir/"], "token"),
        "no objects": object_list_json([], [], ""),
        "rewrite": rewrite_json(document),
        "bucket": bucket_json("stage", "1001", NOON, BASE),
        "buckets": bucket_list_json([], "next"),
        "download": download_headers(FOUND),
        "error": error_json(404, "The specified bucket does not exist."),
    }
    check_golden(GOLDEN / "answers.json", json.dumps(answers, indent=2, ensure_ascii=False) + "\n")


def test_what_is_not_known_of_an_object_is_left_out():
    bare = StoredObject(
        bucket="b", name="n", size=0, generation=1, metageneration=1, created=NOON, updated=NOON,
        attributes=Attributes(), checksums=Checksums(),
    )  # fmt: skip
    document = object_json(bare, BASE)
    assert not {"crc32c", "md5Hash", "metadata", "cacheControl"} & document.keys()
    assert (document["size"], document["contentType"]) == ("0", "application/octet-stream")
    assert "X-Goog-Hash" not in download_headers(bare)


def test_a_stored_page_cannot_act_as_a_page_of_this_server():
    headers = download_headers(FOUND)
    assert headers["Content-Security-Policy"] == "sandbox"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_every_header_of_a_download_can_be_sent():
    attributes = Attributes(
        content_disposition="attachment; filename=ü☃.txt", content_type="text/plain"
    )
    stored = StoredObject(
        bucket="b", name="n", size=0, generation=1, metageneration=1, created=NOON, updated=NOON,
        attributes=attributes, checksums=Checksums(),
    )  # fmt: skip
    for value in download_headers(stored).values():
        value.encode("latin-1")


def test_a_patch_removes_with_null_and_leaves_what_it_does_not_name():
    before = Attributes(content_type="a/b", cache_control="no-store", metadata={"x": "1", "y": "2"})
    after = patch_attributes(
        before, {"cacheControl": None, "metadata": {"x": None, "z": "3"}, "acl": []}
    )
    assert after == Attributes(content_type="a/b", metadata={"y": "2", "z": "3"})
    assert patch_attributes(before, {"metadata": None}).metadata == {}


def test_the_document_says_the_content_type_and_else_the_transfer():
    assert attributes_of({"contentType": "a/b"}, "c/d").content_type == "a/b"
    assert attributes_of({}, "c/d").content_type == "c/d"


@pytest.mark.parametrize(
    "document",
    [{"contentType": 5}, {"metadata": []}, {"metadata": {"a": 1}}, {"cacheControl": "a\r\nb: c"}],
)
def test_attributes_of_the_wrong_kind_are_refused(document):
    with pytest.raises(BadStorageRequest, match="Invalid value for"):
        attributes_of(document)


def test_checksums_are_read_where_clients_put_them():
    sums = Checksums(crc32c="mnG7TA==", md5="XUFAKrxLKna5cZ2REBfFkg==")
    assert checksums_of({"crc32c": sums.crc32c, "md5Hash": sums.md5}) == sums
    assert header_checksums(f"crc32c={sums.crc32c}, md5={sums.md5},sha1=x") == sums
    assert header_checksums("") == Checksums()
    for wrong in ("abc", "mnG7", 5):
        with pytest.raises(BadStorageRequest, match="crc32c"):
            checksums_of({"crc32c": wrong})


def test_conditions_are_whole_numbers():
    query = {"ifGenerationMatch": "0", "ifSourceGenerationMatch": "7", "generation": "5"}
    assert conditions_of(query) == Conditions(generation=0, revision=5)
    assert conditions_of(query, SOURCE_CONDITION_KEYS) == Conditions(generation=7)
    for wrong in ("", "-1", "x", "1.5", "9" * 30, "٣"):
        with pytest.raises(BadStorageRequest, match="ifGenerationMatch"):
            conditions_of({"ifGenerationMatch": wrong})


def test_a_composition_has_at_most_32_sources():
    """As with Cloud Storage, whose clients compose larger ones in steps."""
    most = [{"name": str(number)} for number in range(32)]
    assert len(compose_sources({"sourceObjects": most})[0]) == 32
    with pytest.raises(BadStorageRequest, match=r"\(33\) exceeds the maximum \(32\)"):
        compose_sources({"sourceObjects": [*most, {"name": "x"}]})


def test_a_composition_names_its_sources():
    sources, attributes = compose_sources(
        {
            "sourceObjects": [
                {"name": "a", "generation": "3"},
                {"name": "b", "objectPreconditions": {"ifGenerationMatch": 4}},
            ],
            "destination": {"contentType": "x/y"},
        }
    )
    assert sources == [("a", Conditions(revision=3)), ("b", Conditions(generation=4))]
    assert attributes == {"contentType": "x/y"}
    for wrong in ({}, {"sourceObjects": [{}]}, {"sourceObjects": "ab"}):
        with pytest.raises(BadStorageRequest, match="sourceObjects"):
            compose_sources(wrong)
