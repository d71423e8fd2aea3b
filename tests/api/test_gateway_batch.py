"""A batch: each call is answered as if it had come by itself, in order."""

import asyncio

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse

from trainshed.api.gateway.batch import BadBatch, batched, parts_of

KIND = 'multipart/mixed; boundary="===1=="'


def batch_of(*calls):
    parts = [
        f"--===1==\nContent-Type: application/http\nContent-ID: <b29c+{n}>\n\n{call}\n"
        for n, call in enumerate(calls)
    ]
    return ("".join(parts) + "--===1==--").encode()


async def storage(scope, receive, send):
    """Say what came."""
    request = Request(scope, receive)
    line = [request.method, scope["path"], scope["raw_path"].decode(), request.url.query]
    content = {"told": line, "by": request.headers["authorization"]}
    content["body"] = (await request.body()).decode()
    status = 404 if "absent" in scope["path"] else 200
    await JSONResponse(content, status)(scope, receive, send)


def answered(body, kind=KIND):
    """The answer's status and parts."""
    headers = [(b"content-type", kind.encode()), (b"authorization", b"Bearer t")]
    scope = {
        "type": "http", "asgi": {}, "http_version": "1.1", "server": ("s", 443),
        "client": ("c", 1), "scheme": "https", "method": "POST", "path": "/batch/storage/v1",
        "headers": headers, "query_string": b"",
    }  # fmt: skip

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    response = asyncio.run(batched(storage)(Request(scope, receive)))
    boundary = response.headers["content-type"].partition("=")[2]
    return response.status_code, response.body.decode().split(f"--{boundary}")[1:-1]


def test_each_call_is_answered_in_order_with_its_own_body_and_the_rights_of_the_batch():
    status, parts = answered(
        batch_of(
            "DELETE /storage/v1/b/bkt/o/a%2Fb?generation=1 HTTP/1.1\nContent-Type: text/plain\n\n",
            "PATCH https://storage.googleapis.com/storage/v1/b/bkt/o/absent HTTP/1.1\r\n"
            'Authorization: Bearer another\r\nContent-Length: 7\r\n\r\n{"a":1}',
        )
    )
    assert (status, len(parts)) == (200, 2)
    assert "HTTP/1.1 200 OK" in parts[0]
    assert (
        '["DELETE","/storage/v1/b/bkt/o/a/b","/storage/v1/b/bkt/o/a%2Fb","generation=1"]'
        in parts[0]
    )
    assert "Content-ID: <response-b29c+0>" in parts[0]
    assert "HTTP/1.1 404 Not Found" in parts[1]
    assert r'"body":"{\"a\":1}"' in parts[1]
    assert '"by":"Bearer t"' in parts[1]


@pytest.mark.parametrize(
    "call",
    [
        "GET /storage/v1/b/bkt/o/a?alt=media HTTP/1.1\n\n",
        "POST /upload/storage/v1/b/bkt/o HTTP/1.1\n\n",
        "POST /batch/storage/v1 HTTP/1.1\n\n",
        "GET /bkt/object HTTP/1.1\n\n",
    ],
)
def test_bytes_of_objects_and_batches_are_no_part_of_one(call):
    _, [part] = answered(batch_of(call))
    assert "HTTP/1.1 400 Bad Request" in part


@pytest.mark.parametrize("body", [b"", b"{}", batch_of(), batch_of(*["GET / HTTP/1.1\n"] * 1001)])
def test_what_is_no_batch_or_a_too_long_one_is_refused_whole(body):
    with pytest.raises(BadBatch):
        parts_of(KIND, body)
    assert answered(body)[0] == 400
