"""Whatever is sent to the storage API, the mistake is the caller's: no answer is 5xx."""

import asyncio
import json
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from api.storage_app import build

#: JSON texts that no client sends; some are none.
ODD = [
    r'"\ud800"', r'"\udc00\ud800"', r'"\u0000"', "[" * 5000, '{"a":' * 5000, "NaN", "-Infinity",
    "1e400", "-1e999999", "1" * 5000, "0." + "1" * 5000, '"' + "a" * 100_000 + '"', "null", "true",
    "[]", "{}", "0", "-1", '""', '"\n"', r'"\r\n"', '"../../x"', '"/"', '"a/../b"', '"\u2028"',
    "[[]]",
    '[{"name":null}]', '{"k":null}', '{"k":1}', '{"k":"v","k":"w"}', '"2026-01-01T00:00:00Z"',
    '[{"name":"a","generation":"x"}]', '[{"name":"a","objectPreconditions":[]}]', '"AAAA"', "",
    '[{"name":"a","generation":99999999999999999999999}]', '{"\\ud800":"v"}', '{"":"v"}', ",", '"',
]  # fmt: skip
FIELDS = [
    "name", "bucket", "metadata", "contentType", "cacheControl", "contentEncoding", "customTime",
    "md5Hash", "crc32c", "sourceObjects", "destination", "size", "generation", "acl", "kind",
]  # fmt: skip
VALUES = st.sampled_from(ODD) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
).map(json.dumps)  # fmt: skip
FIELD = st.tuples(st.sampled_from(FIELDS), VALUES).map(lambda pair: f'"{pair[0]}":{pair[1]}')
DOCUMENTS = st.sampled_from(ODD) | st.lists(FIELD, max_size=4).map(
    lambda fields: "{" + ",".join(fields) + "}"
)
BODIES = DOCUMENTS.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=40)

NAMES = st.sampled_from(["a", "b/c", "b/", "..", "a\0b", "\ud800x", "x" * 2000, "a//b", "%", ""])
PATHS = st.one_of(
    st.sampled_from(["/storage/v1/b?project=one", "/storage/v1/b", "/storage/v1/b/bkt",
                     "/storage/v1/b/bkt/o", "/upload/storage/v1/b/bkt/o?uploadType=resumable",
                     "/upload/storage/v1/b/bkt/o?uploadType=media&name=a"]),
    NAMES.map(lambda name: f"/storage/v1/b/bkt/o/{encoded(name)}"),
    NAMES.map(lambda name: f"/storage/v1/b/bkt/o/{encoded(name)}/compose"),
    NAMES.map(lambda name: f"/storage/v1/b/bkt/o/a/rewriteTo/b/bkt/o/{encoded(name)}"),
    NAMES.map(lambda name: f"/upload/storage/v1/b/bkt/o?uploadType=resumable&name={encoded(name)}"),
)  # fmt: skip


def encoded(name):
    return quote(name.encode("utf-8", "surrogatepass"), safe="")


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    return build(tmp_path_factory.mktemp("data"))


async def answered(app, verb, target, body, headers=()):
    path, _, query = target.partition("?")
    scope = {
        "type": "http", "method": verb, "path": path, "raw_path": path.encode(),
        "query_string": query.encode(), "scheme": "http", "server": ("testserver", 80),
        "client": ("127.0.0.1", 1), "asgi": {"spec_version": "2.3"},
        "headers": [(b"host", b"testserver"), *headers],
    }  # fmt: skip
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    sent = []

    async def receive():
        if not messages:
            await asyncio.sleep(3600)  # the client stays
        return messages.pop()

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def status_of(app, verb, target, body, headers=()):
    """The status of one call; the bucket and an object are there, and can be listed after it."""

    async def calls():
        for call in (
            ("POST", "/storage/v1/b?project=one", b'{"name":"bkt"}'),
            ("POST", "/upload/storage/v1/b/bkt/o?uploadType=media&name=a", b"content"),
        ):
            await answered(app, *call)
        status, _ = await answered(app, verb, target, body, headers)
        listed, page = await answered(app, "GET", "/storage/v1/b/bkt/o", b"")
        assert listed in (200, 404)  # it may just have been deleted
        json.loads(page)
        return status

    return asyncio.run(calls())


def is_no_mistake_of_ours(status):
    return status < 500


quiet = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@quiet
@given(st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]), PATHS, BODIES)
@example("PATCH", "/storage/v1/b/bkt/o/a", b'{"metadata":{"k":"\\ud800"}}')
@example("PATCH", "/storage/v1/b/bkt/o/a", b'{"metadata":' + b'{"k":' * 5000)
@example("POST", "/storage/v1/b/bkt/o/x/compose", b'{"sourceObjects":[{"name":"a"},{"name":NaN}]}')
@example("POST", "/storage/v1/b?project=one", b'{"name":"\\udfff"}')
@example("PUT", "/storage/v1/b/bkt/o/a", b'{"contentType":"a/b\\r\\nX-Evil: 1"}')
def test_any_document_is_taken_or_refused(app, verb, target, body):
    assert is_no_mistake_of_ours(status_of(app, verb, target, body))


PARTS = st.sampled_from(
    [b"--b", b"--b--", b"\r\n", b"\n", b"\r\n\r\n", b"{}", b'{"name":"a"}', b'{"name":"\\ud800"}',
     b"Content-Type: application/json", b"Content-Type: \xff", b"[" * 5000, b"NaN", b"x" * 100,
     b"Content-Transfer-Encoding: base64", b"--", b"\0", b'{"name":"m","metadata":{"k":"\\u0000"}}']
)  # fmt: skip
TYPES = st.sampled_from(
    [b"multipart/related; boundary=b", b"multipart/related; boundary='b'", b"multipart/related",
     b"multipart/related; boundary=\xff", b"multipart/related; boundary=", b"", b"application/json"]
)  # fmt: skip


@quiet
@given(st.lists(PARTS, max_size=9).map(b"".join) | BODIES, TYPES)
@example(b"--b\n\n" + b"[" * 5000 + b"\n--b\n\nx\n--b--", b"multipart/related; boundary=b")
@example(b'--b\n\n{"name":"\\ud800"}\n--b\n\nx\n--b--', b"multipart/related; boundary=b")
@example(b'--b\n\n{"name":"x","md5Hash":1e999}\n--b\n\nx\n--b--', b"multipart/related; boundary=b")
def test_any_multipart_body_is_taken_or_refused(app, body, content_type):
    target = "/upload/storage/v1/b/bkt/o?uploadType=multipart"
    status = status_of(app, "POST", target, body, [(b"content-type", content_type)])
    assert is_no_mistake_of_ours(status)


HEADERS = st.lists(
    st.tuples(
        st.sampled_from([b"content-range", b"range", b"x-goog-hash", b"x-upload-content-length",
                         b"x-upload-content-type", b"content-type"]),
        st.sampled_from([b"bytes 0-5/10", b"bytes */*", b"bytes " + b"9" * 300 + b"-1/1", b"\xff",
                         b"crc32c=AAAA", b"md5=\xb2", b"-1", b"1" * 5000, b"\xb2", b"bytes=-0", b"",
                         b"bytes=5-1,2-3", b"\x01", b"bytes=" + b"9" * 18 + b"-"]),
    ),
    max_size=3,
)  # fmt: skip
QUERIES = st.lists(
    st.tuples(
        st.sampled_from(["maxResults", "pageToken", "prefix", "delimiter", "ifGenerationMatch",
                         "generation", "upload_id", "uploadType", "name", "alt", "fields",
                         "startOffset", "endOffset", "project"]),
        st.sampled_from(["", "-1", "1" * 400, "%ff", "%00", "%ed%a0%80", "a", "media", "resumable",
                         "..", "AAAA", "%F0%9F%98%80", "/", "*"]),
    ),
    max_size=4,
).map(lambda pairs: "&".join(f"{key}={value}" for key, value in pairs))  # fmt: skip


@quiet
@given(
    st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    st.sampled_from(["/storage/v1/b", "/storage/v1/b/bkt/o", "/storage/v1/b/bkt/o/a",
                     "/upload/storage/v1/b/bkt/o", "/download/storage/v1/b/bkt/o/a"]),
    QUERIES,
    HEADERS,
)  # fmt: skip
def test_any_head_is_taken_or_refused(app, verb, path, query, headers):
    assert is_no_mistake_of_ours(status_of(app, verb, f"{path}?{query}", b"{}", headers))
