"""The XML API: translates each request to the JSON API, and the answer to XML.

TensorFlow, gcsfs and gsutil read objects by this API (``/BUCKET/OBJECT``), and so do clients that
have the address of an object.
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
    "this server does not accept addresses with a signature of version 2: sign with version 4"
)
_CONDITIONS: Final = {
    "x-goog-if-generation-match": "ifGenerationMatch",
    "x-goog-if-metageneration-match": "ifMetagenerationMatch",
}
_VERBS: Final = "The verb must be GET, HEAD, PUT or DELETE"
_FIRST_ERROR: Final = 400


class XmlRefused(Exception):
    """The request is refused: HTTP status, code of the XML error, and message."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        """``code`` is the code of the XML error."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code or xml.CODES[status]


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRequest:
    """A request to the JSON API, and the function that converts its response to XML."""

    verb: str
    template: str
    convert: Callable[[Response], Response]
    bucket: str = ""
    name: bytes = b""
    """The name of the object as in the path, percent-encoded."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """The body to send; None: the body of the request."""


#: Answers a read of a bucket that the caller does not have; None: there is no public data.
ReadPublic = Callable[[Request], Awaitable[Response | None]]


async def read_nothing(request: Request) -> None:
    """Return no answer: public data is not read."""
    del request


class XmlStorage:
    """The ASGI application of the XML API."""

    def __init__(
        self,
        raw: Sequence[RawMethod],
        identify: Callable[[Scope], Awaitable[Caller]],
        log_denied: Callable[[Request, Caller | None, str], None],
        read_public: ReadPublic = read_nothing,
    ) -> None:
        """``raw`` is the JSON API; ``identify`` returns the caller or raises a Refusal."""
        self._read_public = read_public
        self._rows = {(row.verb, row.path): row for row in raw}
        self._identify = identify
        self._log_denied = log_denied

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        caller = None
        try:
            json_request = translate(request)
            caller = await self._identify(request.scope)
            return await self._perform(request, json_request, caller)
        except XmlRefused as error:
            return _error(error.status, error.code, error.message)
        except Refusal as refused:
            self._log_denied(request, caller, refused.code.name)
            xml_code = refused.word if isinstance(refused, AddressRefused) else ""
            return _error(
                refused.code.http, xml_code or xml.CODES[refused.code.http], refused.message
            )
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception:  # noqa: BLE001  # as in the chain: a number for the caller
            unforeseen = incident(f"{request.method} of the XML API")
            code = xml.CODES.get(unforeseen.code.http, "InternalError")
            return _error(unforeseen.code.http, code, unforeseen.message)

    async def _perform(
        self, request: Request, json_request: JsonRequest, caller: Caller
    ) -> Response:
        inner = _inner(request, json_request)
        response = await self._rows[json_request.verb, json_request.template].handle(inner, caller)
        if response.status_code < _FIRST_ERROR:
            return json_request.convert(response)
        is_denied = getattr(inner.state, "is_denied", False)
        if is_denied and (public_answer := await self._read_public(request)):
            return public_answer
        if is_denied:
            self._log_denied(request, caller, "PERMISSION_DENIED")
        message = json.loads(bytes(response.body))["error"]["message"]
        code = xml.CODES.get(response.status_code, "InvalidArgument")
        if response.status_code == 404 and (is_denied or not json_request.name):  # noqa: PLR2004 - HTTP
            code = xml.NO_BUCKET
        if response.status_code == 409 and json_request.verb == "DELETE":  # noqa: PLR2004 - HTTP
            code = xml.NOT_EMPTY
        answer = _error(response.status_code, code, message)
        if "content-range" in response.headers:
            answer.headers["Content-Range"] = response.headers["content-range"]
        return answer


def translate(request: Request) -> JsonRequest:
    """Translate a request of the XML API.  Raises XmlRefused."""
    bucket, name = _bucket_and_name(request)
    query = _query(request)
    if name:
        return _object_request(request, bucket, name, query)
    if bucket:
        return _bucket_request(request, bucket, query)
    if request.method in {"GET", "HEAD"}:
        return JsonRequest(verb="GET", template=_BUCKETS, query=_project(request), convert=_buckets)
    raise XmlRefused(501, _VERBS)


def _object_request(
    request: Request, bucket: str, name: bytes, query: Mapping[str, str]
) -> JsonRequest:
    conditions = _conditions(request, query)
    convert = _set_requested_headers(query)
    if request.method in {"GET", "HEAD"}:
        verb, template = "GET", _DOWNLOAD
    elif request.method == "DELETE":
        verb, template = "DELETE", _OBJECT
    elif request.method == "PUT":
        return _upload(request, bucket, name, conditions)
    else:
        raise XmlRefused(501, _VERBS)
    return JsonRequest(
        verb=verb,
        template=template,
        bucket=bucket,
        name=name,
        query=conditions,
        convert=convert,
    )


def _set_requested_headers(query: Mapping[str, str]) -> Callable[[Response], Response]:
    """Return a conversion that sets the headers which the address requests."""

    def convert(response: Response) -> Response:
        for name in ("content-type", "content-disposition"):
            text = query.get(f"response-{name}", "")
            if text and text.isascii() and text.isprintable():
                response.headers[name] = text
        return response

    return convert


def _bucket_request(request: Request, bucket: str, query: Mapping[str, str]) -> JsonRequest:
    if request.method == "GET":
        return _list(bucket, query)
    if request.method == "HEAD":
        return JsonRequest(verb="GET", template=_BUCKET, bucket=bucket, convert=_empty)
    if request.method == "DELETE":
        return JsonRequest(verb="DELETE", template=_BUCKET, bucket=bucket, convert=_unchanged)
    if request.method != "PUT":
        raise XmlRefused(501, _VERBS)
    body = json.dumps({"name": bucket}).encode()
    return JsonRequest(
        verb="POST", template=_BUCKETS, query=_project(request), body=body, convert=_empty
    )


def _project(request: Request) -> dict[str, str]:
    return {"project": request.headers.get("x-goog-project-id", "")}


def _bucket_and_name(request: Request) -> tuple[str, bytes]:
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
        raise XmlRefused(400, "The bucket's name is not UTF-8") from None


def _query(request: Request) -> dict[str, str]:
    text = request.scope["query_string"].decode("latin-1")
    try:
        query = dict(parse_qsl(text, keep_blank_values=True, errors="strict"))
    except ValueError:
        raise XmlRefused(400, "Invalid query: it is not UTF-8") from None
    if _OLD_SIGNATURE in query:
        raise XmlRefused(403, _NOT_SIGNED, "SignatureDoesNotMatch")
    if SIGNATURE in query:
        query = {name: text for name, text in query.items() if not name.startswith("X-Goog-")}
    if unknown := sorted(set(query) - _QUERY_NAMES):
        raise XmlRefused(501, f"query parameter {unknown[0][:100]} is not supported")
    return query


def _upload(
    request: Request, bucket: str, name: bytes, conditions: Mapping[str, str]
) -> JsonRequest:
    if source := request.headers.get("x-goog-copy-source"):
        return _copy(source, bucket, name, conditions)
    if request.headers.get("x-goog-resumable"):
        raise XmlRefused(501, "Resumable uploads must begin with the JSON API")
    named = {"uploadType": "media", "name": _text(name)}
    return JsonRequest(
        verb="POST",
        template=_UPLOAD,
        bucket=bucket,
        query={**named, **conditions},
        convert=_render_stored,
    )


def _copy(source: str, bucket: str, name: bytes, conditions: Mapping[str, str]) -> JsonRequest:
    from_bucket, _, from_name = source.lstrip("/").partition("/")
    to = f"/copyTo/b/{quote(bucket, safe='')}/o/".encode()
    encoded = quote(unquote_to_bytes(from_name), safe="").encode()
    target = quote(unquote_to_bytes(name), safe="").encode()
    return JsonRequest(
        verb="POST",
        template=_OBJECT,
        bucket=from_bucket,
        name=encoded + to + target,
        query=conditions,
        body=b"",
        convert=_render_copy,
    )


def _list(bucket: str, query: Mapping[str, str]) -> JsonRequest:
    if "location" in query:
        return JsonRequest(verb="GET", template=_BUCKET, bucket=bucket, convert=_render_location)
    json_query = {name: query[name] for name in ("prefix", "delimiter") if query.get(name)}
    if last_name := query.get("start-after" if query.get("list-type") == "2" else "marker"):
        json_query["startOffset"] = _name_after(last_name, query.get("delimiter", ""))
    if token := query.get("continuation-token"):
        json_query["pageToken"] = token
    if "max-keys" in query:
        json_query["maxResults"] = query["max-keys"]

    def convert(response: Response) -> Response:
        return _xml(xml.objects_xml(bucket, query, json.loads(bytes(response.body))))

    return JsonRequest(
        verb="GET", template=_OBJECTS, bucket=bucket, query=json_query, convert=convert
    )


def _name_after(name: str, delimiter: str) -> str:
    """Return the first name after another; after a folder: after all names in the folder."""
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
        raise XmlRefused(400, "The object's name is not UTF-8") from None


def _inner(request: Request, json_request: JsonRequest) -> Request:
    """Return the request as the JSON API's handler reads it."""
    path = json_request.template.replace("{bucket}", quote(json_request.bucket, safe="")).encode()
    scope = dict(request.scope)
    scope["raw_path"] = path.replace(b"{name:path}", json_request.name)
    scope["path_params"] = {"bucket": json_request.bucket}
    scope["query_string"] = urlencode(json_request.query).encode()
    scope["state"] = dict(request.scope.get("state", {}))
    scope["headers"] = [*scope["headers"], *_md5(request)]
    receive = request.receive
    if json_request.body is not None:
        receive = received_again(json_request.body, receive)
    return Request(scope, receive)


def _md5(request: Request) -> list[tuple[bytes, bytes]]:
    """Return Content-MD5 as a header of the JSON API."""
    md5 = request.headers.get("content-md5")
    return [(b"x-goog-hash", f"md5={md5}".encode("latin-1"))] if md5 else []


def _unchanged(response: Response) -> Response:
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
