"""The XML API: translates each request to the JSON API, and the answer to XML.

TensorFlow, gcsfs and gsutil read objects by it (``/BUCKET/OBJECT``), and so do clients of an
object's address.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from trainshed.api.call import RawMethod
from trainshed.api.chain import incident
from trainshed.api.gateway.accepting import authority_of
from trainshed.api.incoming import received_again
from trainshed.model.access import Caller
from trainshed.model.refusals import Refusal
from trainshed.service.auth.signed_addresses import SIGNATURE, AddressRefused
from trainshed.wire.storage_v1 import xml

_HOST: Final = ".storage.googleapis.com"
_BUCKETS: Final = "/storage/v1/b"
_BUCKET: Final = "/storage/v1/b/{bucket}"
_OBJECTS: Final = "/storage/v1/b/{bucket}/o"
_OBJECT: Final = "/storage/v1/b/{bucket}/o/{name:path}"
_DOWNLOAD: Final = f"/download{_OBJECT}"
_UPLOAD: Final = f"/upload{_OBJECTS}"
#: Supported query parameters; others are refused.
_QUERY_NAMES: Final = frozenset(
    {"prefix", "delimiter", "marker", "max-keys", "list-type", "continuation-token", "start-after",
     "encoding-type", "fetch-owner", "generation", "location", "alt", "userProject",
     "response-content-type", "response-content-disposition"}
)  # fmt: skip
#: Parameters of signed addresses of version 2.
_OLD_SIGNATURE: Final = "Signature"
_NOT_SIGNED: Final = (
    "this server does not accept addresses signed by version 2: sign them by version 4"
)
_CONDITIONS: Final = {
    "x-goog-if-generation-match": "ifGenerationMatch",
    "x-goog-if-metageneration-match": "ifMetagenerationMatch",
}
_VERBS: Final = "The verb must be GET, HEAD, PUT or DELETE"
_FIRST_ERROR: Final = 400


class Unreadable(Exception):
    """An unsupported request: status, code and message."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        """``code`` is the code of the XML error."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code or xml.CODES[status]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """The request to the JSON API, and the conversion of its answer."""

    verb: str
    template: str
    written: Callable[[Response], Response]
    bucket: str = ""
    name: bytes = b""
    """The name of the object as in the path, percent-encoded."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """Replaces the request's own."""


#: Answers for a bucket that the caller does not have; None: no answer.
Elsewhere = Callable[[Request], Awaitable[Response | None]]


async def nowhere(request: Request) -> None:
    """Give no answer: there are no other buckets."""
    del request


class XmlStorage:
    """An ASGI application."""

    def __init__(
        self,
        raw: Sequence[RawMethod],
        caller: Callable[[Scope], Awaitable[Caller]],
        denied: Callable[[Request, Caller | None, str], None],
        elsewhere: Elsewhere = nowhere,
    ) -> None:
        """``raw``: the JSON API; ``caller`` raises a Refusal; ``denied`` logs a refused call."""
        self._elsewhere = elsewhere
        self._rows = {(row.verb, row.path): row for row in raw}
        self._caller = caller
        self._denied = denied

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        caller = None
        try:
            meant = meant_by(request)
            caller = await self._caller(request.scope)
            return await self._perform(request, meant, caller)
        except Unreadable as error:
            return _error(error.status, error.code, error.message)
        except Refusal as refused:
            self._denied(request, caller, refused.code.name)
            word = refused.word if isinstance(refused, AddressRefused) else ""
            return _error(refused.code.http, word or xml.CODES[refused.code.http], refused.message)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception:  # noqa: BLE001  # as in the chain: a number for the caller
            unforeseen = incident(f"{request.method} of the XML API")
            code = xml.CODES.get(unforeseen.code.http, "InternalError")
            return _error(unforeseen.code.http, code, unforeseen.message)

    async def _perform(self, request: Request, meant: Meant, caller: Caller) -> Response:
        inner = _inner(request, meant)
        response = await self._rows[meant.verb, meant.template].handle(inner, caller)
        if response.status_code < _FIRST_ERROR:
            return meant.written(response)
        is_denied = getattr(inner.state, "is_denied", False)
        if is_denied and (public_answer := await self._elsewhere(request)):
            return public_answer
        if is_denied:
            self._denied(request, caller, "PERMISSION_DENIED")
        message = json.loads(bytes(response.body))["error"]["message"]
        code = xml.CODES.get(response.status_code, "InvalidArgument")
        if response.status_code == 404 and (is_denied or not meant.name):  # noqa: PLR2004 - HTTP
            code = xml.NO_BUCKET
        if response.status_code == 409 and meant.verb == "DELETE":  # noqa: PLR2004 - HTTP
            code = xml.NOT_EMPTY
        answer = _error(response.status_code, code, message)
        if "content-range" in response.headers:
            answer.headers["Content-Range"] = response.headers["content-range"]
        return answer


def meant_by(request: Request) -> Meant:
    """Translate a request of the XML API.  Raises Unreadable."""
    bucket, name = _place(request)
    query = _query(request)
    if name:
        return _of_object(request, bucket, name, query)
    if bucket:
        return _of_bucket(request, bucket, query)
    if request.method in {"GET", "HEAD"}:
        return Meant(verb="GET", template=_BUCKETS, query=_project(request), written=_buckets)
    raise Unreadable(501, _VERBS)


def _of_object(request: Request, bucket: str, name: bytes, query: Mapping[str, str]) -> Meant:
    conditions = _conditions(request, query)
    written = _describe(query)
    if request.method in {"GET", "HEAD"}:
        verb, template = "GET", _DOWNLOAD
    elif request.method == "DELETE":
        verb, template = "DELETE", _OBJECT
    elif request.method == "PUT":
        return _upload(request, bucket, name, conditions)
    else:
        raise Unreadable(501, _VERBS)
    return Meant(
        verb=verb,
        template=template,
        bucket=bucket,
        name=name,
        query=conditions,
        written=written,
    )


def _describe(query: Mapping[str, str]) -> Callable[[Response], Response]:
    """Return a conversion that sets the headers which the address requests."""

    def written(response: Response) -> Response:
        for name in ("content-type", "content-disposition"):
            text = query.get(f"response-{name}", "")
            if text and text.isascii() and text.isprintable():
                response.headers[name] = text
        return response

    return written


def _of_bucket(request: Request, bucket: str, query: Mapping[str, str]) -> Meant:
    if request.method == "GET":
        return _list(bucket, query)
    if request.method == "HEAD":
        return Meant(verb="GET", template=_BUCKET, bucket=bucket, written=_empty)
    if request.method == "DELETE":
        return Meant(verb="DELETE", template=_BUCKET, bucket=bucket, written=_as_it_is)
    if request.method != "PUT":
        raise Unreadable(501, _VERBS)
    body = json.dumps({"name": bucket}).encode()
    return Meant(verb="POST", template=_BUCKETS, query=_project(request), body=body, written=_empty)


def _project(request: Request) -> dict[str, str]:
    return {"project": request.headers.get("x-goog-project-id", "")}


def _place(request: Request) -> tuple[str, bytes]:
    """Return the bucket, from the path or the host, and the encoded object name."""
    scope = request.scope
    raw: bytes = scope["raw_path"].removeprefix(b"/")
    host = authority_of(scope)
    if host.endswith(_HOST):
        return host.removesuffix(_HOST), raw
    bucket, _, name = raw.partition(b"/")
    try:
        return unquote_to_bytes(bucket).decode(), name
    except UnicodeDecodeError:
        raise Unreadable(400, "The bucket's name is not UTF-8") from None


def _query(request: Request) -> dict[str, str]:
    text = request.scope["query_string"].decode("latin-1")
    try:
        query = dict(parse_qsl(text, keep_blank_values=True, errors="strict"))
    except ValueError:
        raise Unreadable(400, "Invalid query: it is not UTF-8") from None
    if _OLD_SIGNATURE in query:
        raise Unreadable(403, _NOT_SIGNED, "SignatureDoesNotMatch")
    if SIGNATURE in query:
        query = {name: text for name, text in query.items() if not name.startswith("X-Goog-")}
    if unknown := sorted(set(query) - _QUERY_NAMES):
        raise Unreadable(501, f"?{unknown[0][:100]} is not supported: a bucket is a folder")
    return query


def _upload(request: Request, bucket: str, name: bytes, conditions: Mapping[str, str]) -> Meant:
    if source := request.headers.get("x-goog-copy-source"):
        return _copy(source, bucket, name, conditions)
    if request.headers.get("x-goog-resumable"):
        raise Unreadable(501, "Resumable uploads must begin with the JSON API")
    named = {"uploadType": "media", "name": _text(name)}
    return Meant(
        verb="POST",
        template=_UPLOAD,
        bucket=bucket,
        query={**named, **conditions},
        written=_render_stored,
    )


def _copy(source: str, bucket: str, name: bytes, conditions: Mapping[str, str]) -> Meant:
    from_bucket, _, from_name = source.lstrip("/").partition("/")
    to = f"/copyTo/b/{quote(bucket, safe='')}/o/".encode()
    encoded = quote(unquote_to_bytes(from_name), safe="").encode()
    target = quote(unquote_to_bytes(name), safe="").encode()
    return Meant(
        verb="POST",
        template=_OBJECT,
        bucket=from_bucket,
        name=encoded + to + target,
        query=conditions,
        body=b"",
        written=_render_copy,
    )


def _list(bucket: str, query: Mapping[str, str]) -> Meant:
    if "location" in query:
        return Meant(verb="GET", template=_BUCKET, bucket=bucket, written=_render_location)
    json_query = {name: query[name] for name in ("prefix", "delimiter") if query.get(name)}
    if behind := query.get("start-after" if query.get("list-type") == "2" else "marker"):
        json_query["startOffset"] = _behind(behind, query.get("delimiter", ""))
    if token := query.get("continuation-token"):
        json_query["pageToken"] = token
    if "max-keys" in query:
        json_query["maxResults"] = query["max-keys"]

    def written(response: Response) -> Response:
        return _xml(xml.objects_xml(bucket, query, json.loads(bytes(response.body))))

    return Meant(verb="GET", template=_OBJECTS, bucket=bucket, query=json_query, written=written)


def _behind(name: str, delimiter: str) -> str:
    """Return the first name after another; a folder stands for all that is in it."""
    if delimiter and name.endswith(delimiter):
        return name[:-1] + chr(ord(name[-1]) + 1)
    return f"{name}\0"


def _conditions(request: Request, query: Mapping[str, str]) -> dict[str, str]:
    conditions = {word: request.headers.get(name) for name, word in _CONDITIONS.items()}
    conditions["generation"] = query.get("generation")
    return {word: text for word, text in conditions.items() if text is not None}


def _text(name: bytes) -> str:
    try:
        return unquote_to_bytes(name).decode()
    except UnicodeDecodeError:
        raise Unreadable(400, "The object's name is not UTF-8") from None


def _inner(request: Request, meant: Meant) -> Request:
    """Return the request as the JSON API's handler reads it."""
    place = meant.template.replace("{bucket}", quote(meant.bucket, safe="")).encode()
    scope = dict(request.scope)
    scope["raw_path"] = place.replace(b"{name:path}", meant.name)
    scope["path_params"] = {"bucket": meant.bucket}
    scope["query_string"] = urlencode(meant.query).encode()
    scope["state"] = dict(request.scope.get("state", {}))
    scope["headers"] = [*scope["headers"], *_md5(request)]
    receive = request.receive
    if meant.body is not None:
        receive = received_again(meant.body, receive)
    return Request(scope, receive)


def _md5(request: Request) -> list[tuple[bytes, bytes]]:
    """Return Content-MD5 as a header of the JSON API."""
    md5 = request.headers.get("content-md5")
    return [(b"x-goog-hash", f"md5={md5}".encode("latin-1"))] if md5 else []


def _as_it_is(response: Response) -> Response:
    return response


def _empty(response: Response) -> Response:
    del response
    return Response()


def _render_stored(response: Response) -> Response:
    return Response(headers=xml.stored_headers(json.loads(bytes(response.body))))


def _render_copy(response: Response) -> Response:
    return _xml(xml.copied_xml(json.loads(bytes(response.body))))


def _buckets(response: Response) -> Response:
    return _xml(xml.buckets_xml(json.loads(bytes(response.body)).get("items", ())))


def _render_location(response: Response) -> Response:
    return _xml(xml.location_xml(json.loads(bytes(response.body))["location"]))


def _xml(text: str, status: int = 200) -> Response:
    return Response(text, status, media_type="application/xml")


def _error(status: int, code: str, message: str) -> Response:
    return _xml(xml.error_xml(code, message), status)
