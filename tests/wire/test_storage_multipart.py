import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.wire.storage_v1.multipart import HEAD_BYTES_MAX, MultipartReader, boundary_of
from trainshed.wire.storage_v1.requests import BadStorageRequest

LINE_ENDS = (b"\n", b"\r\n")


def body(boundary, document, content, line_end, headers=(b"Content-Type: application/x-tar",)):
    mark = b"--" + boundary
    return (
        line_end.join([mark, b"Content-Type: application/json", b"", json.dumps(document).encode()])
        + line_end
        + line_end.join([mark, *headers, b"", b""])
        + content
        + line_end
        + mark
        + b"--"
    )


def read(raw, boundary, sizes=(1 << 16,)):
    reader, out, at, turn = MultipartReader(boundary), b"", 0, 0
    while at < len(raw):
        size = sizes[turn % len(sizes)]
        out += reader.feed(raw[at : at + size])
        at, turn = at + size, turn + 1
    return reader, out + reader.finish()


@pytest.mark.parametrize(
    ("header", "boundary"),
    [
        ("multipart/related; boundary='===============695=='", b"===============695=="),
        ('multipart/related; boundary="==0=="', b"==0=="),
        ("multipart/related; boundary=abc; charset=utf-8", b"abc"),
        ("Multipart/Related; type=x; BOUNDARY = abc", b"abc"),
    ],
)
def test_quotes_of_either_kind_are_no_part_of_the_boundary(header, boundary):
    assert boundary_of(header) == boundary


@pytest.mark.parametrize(
    "header", ["", "text/plain", "multipart/related", "multipart/form-data; boundary=x"]
)
def test_a_content_type_without_a_boundary_is_refused(header):
    with pytest.raises(BadStorageRequest, match="multipart/related; boundary"):
        boundary_of(header)


@given(
    content=st.binary(max_size=300),
    line_end=st.sampled_from(LINE_ENDS),
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=5),
    tail=st.sampled_from([b"", b"\n", b"\r\n"]),
)
def test_any_bytes_come_out_as_they_went_in(content, line_end, sizes, tail):
    raw = body(b"==0==", {"name": "x"}, content, line_end) + tail
    reader, out = read(raw, b"==0==", sizes)
    assert out == content
    assert reader.document == {"name": "x"}
    assert reader.content_type == "application/x-tar"


@given(
    parts=st.lists(
        st.sampled_from([b"\n--==0==--", b"\r\n--==0==", b"--==0==--\n", b"\r", b"\n", b"x" * 80]),
        max_size=12,
    ),
    line_end=st.sampled_from(LINE_ENDS),
    size=st.integers(1, 200),
)
def test_a_file_may_hold_the_boundary_itself(parts, line_end, size):
    content = b"".join(parts)
    assert read(body(b"==0==", {}, content, line_end), b"==0==", [size])[1] == content


@given(st.data(), st.sampled_from(LINE_ENDS))
def test_a_body_that_was_cut_off_is_refused(data, line_end):
    raw = body(b"==0==", {"name": "x"}, b"content", line_end)
    cut = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(BadStorageRequest):
        read(raw[:cut], b"==0==")


def test_a_part_needs_no_headers_and_the_document_may_be_empty():
    reader, out = read(b"--b\n\n\n--b\n\ndata\n--b--\n", b"b")
    assert (reader.document, reader.content_type, out) == ({}, "", b"data")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"--other\n\n{}\n--other\n\n\n--other--", "must begin with the boundary"),
        (b"--bb\n\n{}\n--bb\n\n\n--bb--", "must begin with the boundary"),
        (b"--b\n\n{]\n--b\n\nx\n--b--", "must be a JSON object"),
        (b"--b\n\n[]\n--b\n\nx\n--b--", "must be an object"),
        (b"--b\n\n{}\n--b--", "two parts"),
        (b"--b\nContent-Type: x\n--b\n\nx\n--b--", "must have a blank line"),
        (b"--b\n\n{}\n--b\nContent-Transfer-Encoding: base64\n\nx\n--b--", "binary"),
        (b"--b\n\n" + b" " * (HEAD_BYTES_MAX + 1), "must have at most"),
    ],
)
def test_what_is_wrong_with_a_body_is_said(raw, message):
    with pytest.raises(BadStorageRequest, match=message):
        read(raw, b"b")


def test_a_large_file_passes_through_and_is_not_kept():
    reader = MultipartReader(b"b")
    reader.feed(b"--b\n\n{}\n--b\n\n")
    for _ in range(64):
        reader.feed(bytes(1 << 16))
        assert len(reader._held) < 1 << 10
