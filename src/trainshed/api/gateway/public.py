"""Reads public data in Google's buckets that the job's project does not have.

Training code reads data sets and weights this way (``keras.datasets``, ``tensorflow_datasets``).
The server forwards only reads, without a token.  It forwards a read of another project's bucket
too, so that the answer does not reveal that the bucket exists.
"""

import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from trainshed.api.announced_bytes import AnnouncedBytes
from trainshed.api.gateway.accepting import authority_of
from trainshed.api.gateway.tunnels import authorization, proxy_for
from trainshed.api.storage_call import refusal
from trainshed.api.threads import Threads
from trainshed.service.auth.signed_addresses import SIGNATURE
from trainshed.storage.buckets import is_bucket_name
from trainshed.wire.storage_v1.resources import layout_json, public_bucket_json

STORAGE_HOST: Final = "storage.googleapis.com"
#: The most seconds to wait for the next bytes from Google.
_ANSWER_S: Final = 10.0
#: Seconds after a failed connection to Google in which no other one is tried.
_AWAY_S: Final = 30.0
_THREADS_MAX: Final = 8
_PIECE_BYTES: Final = 256 << 10

SILENT: Final = "this server has no such bucket, and Google's storage does not answer"

_READ_VERBS: Final = frozenset({"GET", "HEAD"})
_FORWARDED_HEADERS: Final = frozenset(
    {"accept", "accept-encoding", "range", "if-match", "if-none-match", "if-modified-since",
     "if-unmodified-since", "x-goog-if-generation-match", "x-goog-if-metageneration-match"}
)  # fmt: skip
_RESPONSE_HEADERS: Final = re.compile(
    r"accept-ranges|cache-control|content-[a-z]+|etag|expires|last-modified|retry-after|vary"
    r"|x-goog-[a-z0-9-]+"
)
#: Statuses passed on to the program: bytes, conditions, and errors that clients retry.
_PASSED_STATUSES: Final = frozenset({200, 206, 304, 412, 416, 429, *range(500, 600)})
#: Google refuses these to callers without a token, but TensorFlow and gcloud request them first.
_BUCKET_METADATA: Final = re.compile(r"/storage/v1/b/([^/]+)(/storageLayout)?")

Connect = Callable[[], HTTPConnection]


class _Unreachable(Exception):
    """Google cannot be reached from this machine."""


class Public:
    """Reads Google's public buckets.  For one event loop."""

    def __init__(self, connect: Connect) -> None:
        """``connect`` returns an unopened connection to Google's storage."""
        self._connect = connect
        self._threads = Threads(_THREADS_MAX)
        self._away_until = 0.0

    async def read(self, request: Request) -> Response | None:
        """Return Google's response to a request without a token; None if it has no public data."""
        target = _target(request)
        if target is None or time.monotonic() < self._away_until:
            return None
        bucket_match = _BUCKET_METADATA.fullmatch(request.url.path)
        if bucket_match and request.method == "GET":
            return await self._describe_bucket(
                unquote(bucket_match[1]), is_layout=bool(bucket_match[2])
            )
        headers = {
            name: text for name, text in request.headers.items() if name in _FORWARDED_HEADERS
        }
        return await self._forward(request.method, target, headers)

    async def _describe_bucket(self, bucket: str, *, is_layout: bool) -> Response | None:
        """Describe a bucket, if it can be listed."""
        if not is_bucket_name(bucket):
            return None
        target = f"/storage/v1/b/{bucket}/o?maxResults=1&fields=kind"
        response = await self._forward("GET", target, {})
        if response is None or response.status_code != 200:  # noqa: PLR2004 - HTTP
            return response
        return JSONResponse(layout_json(bucket) if is_layout else public_bucket_json(bucket))

    async def _forward(self, verb: str, target: str, headers: Mapping[str, str]) -> Response | None:
        try:
            response = await self._threads.run(self._send_request, verb, target, headers)
        except _Unreachable:
            self._away_until = time.monotonic() + _AWAY_S
            return None
        except OSError:
            return refusal(503, SILENT)
        except (HTTPException, ValueError):  # HTTP cannot express the request
            return None
        if response.status not in _PASSED_STATUSES:
            response.close()
            return None
        response_headers = {
            name: text
            for name, text in response.getheaders()
            if _RESPONSE_HEADERS.fullmatch(name.lower())
        }
        pieces = self._pieces(response)
        return AnnouncedBytes(
            pieces, response.status, response_headers, f"https://{STORAGE_HOST}{target[:200]}"
        )

    def _send_request(self, verb: str, target: str, headers: Mapping[str, str]) -> HTTPResponse:
        """Send a request to Google.  Raises _Unreachable, OSError, HTTPException, ValueError."""
        connection = self._connect()
        try:
            connection.connect()
        except OSError as error:
            raise _Unreachable from error
        try:
            connection.request(verb, target, headers={**headers, "Connection": "close"})
            return connection.getresponse()  # now owns the socket, and closes it
        except BaseException:
            connection.close()
            raise

    async def _pieces(self, response: HTTPResponse) -> AsyncIterator[bytes]:
        try:
            while piece := await self._threads.run(response.read1, _PIECE_BYTES):
                yield piece
        finally:
            response.close()


def by_proxies(proxies: Mapping[str, str]) -> Connect:
    """Return a function that connects to Google, through the configured proxy, if any."""

    def connect() -> HTTPConnection:
        proxy = proxy_for(STORAGE_HOST, proxies)
        trust = ssl.create_default_context()
        if proxy is None:
            return HTTPSConnection(STORAGE_HOST, timeout=_ANSWER_S, context=trust)
        connection = HTTPSConnection(proxy.host, proxy.port, timeout=_ANSWER_S, context=trust)
        connection.set_tunnel(STORAGE_HOST, headers=dict(authorization(proxy)))
        return connection

    return connect


def _target(request: Request) -> str | None:
    """Return the request target at storage.googleapis.com; None if the request needs a token."""
    scope = request.scope
    query = scope["query_string"].decode("latin-1")
    if request.method not in _READ_VERBS or "raw_path" not in scope or f"{SIGNATURE}=" in query:
        return None
    bucket, is_subdomain, _ = authority_of(scope).rpartition(f".{STORAGE_HOST}")
    path: str = scope["raw_path"].decode("latin-1")
    return (f"/{bucket}" if is_subdomain else "") + path + (f"?{query}" if query else "")
