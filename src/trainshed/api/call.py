"""One call of the API, over HTTP or gRPC, and the rows of the route table.

Google's paths alternate: ``/v1/projects/P/locations/L/customJobs/J:cancel`` is a version, then
pairs of a collection and an id, then optionally a custom verb after a colon.  The version, the
collections, the length and the verb are the key, so a row is found in one look-up.
"""

import hashlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from trainshed.api.documents import TransportRefusal
from trainshed.model.access import AccessRole, Caller
from trainshed.model.refusals import Code, Refusal

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that passed the chain: the caller is allowed, and the document is valid JSON.

    ``params`` are the parts of the resource name (``project`` is an id, never a number;
    ``location``, ``job``, ...).  ``query`` holds query parameters in camelCase.  ``retry_key`` is
    set if a repetition by the client can be recognised (docs/sources/gcloud.md 8.3).
    """

    caller: Caller
    params: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    document: Any = None
    retry_key: str | None = None


def make_retry_key(parts: Iterable[str], body: bytes) -> str:
    """Return the key of a create, which a repetition with the same parts and body has too."""
    name = "\0".join(parts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(name + b"\0" + body).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One row of the table of Google's routes: REST and gRPC names of one handler.

    ``path`` is a template such as ``/v1/projects/{project}/jobs/{job}:cancel``.  ``rpc`` is the
    full gRPC name, ``Service/Method`` without the leading slash; empty where there is none (ml v1).
    ``request`` and ``response`` are full protobuf names; ``body`` is the request's field that the
    HTTP body fills (``*``: the whole request; empty: there is none).  ``query`` lists the
    accepted query parameters, in camelCase; others are refused.
    """

    verb: str
    path: str
    role: AccessRole
    handle: Callable[[Call], Json]
    rpc: str = ""
    request: str = ""
    response: str = ""
    body: str = ""
    query: tuple[str, ...] = ()

    @property
    def is_create(self) -> bool:
        """Return whether repeating the call would create a second resource."""
        return self.verb == "POST" and ":" not in self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class RawMethod:
    """A route that reads and writes bytes itself (storage).  The handler checks permissions.

    ``path`` is Starlette's (``/storage/v1/b/{bucket}/o/{name:path}``).
    """

    verb: str
    path: str
    handle: Callable[[Request, Caller], Awaitable[Response]]


class _Shape(NamedTuple):
    version: str
    collections: tuple[str, ...]
    length: int
    action: str


class Routes:
    """All rows, by the shape of their path and their HTTP verb."""

    def __init__(
        self,
        methods: Iterable[Method],
        sentence_of: Callable[[Iterable[str]], str] = lambda _collections: "",
    ) -> None:
        """Index the rows.  Raises AssertionError for two rows of one verb and shape.

        ``sentence_of`` returns why a path's collections are not supported; empty: no reason.
        """
        self._sentence_of = sentence_of
        self._rows: dict[_Shape, dict[str, Method]] = {}
        for method in methods:
            shape, parts = _split_path(method.path)
            if not all(part.startswith("{") for part in parts):
                raise AssertionError(f"{method.path} does not alternate collections and ids")
            rows = self._rows.setdefault(shape, {})
            if method.verb in rows:
                raise AssertionError(f"{method.verb} {method.path} is in the table twice")
            rows[method.verb] = method

    @property
    def versions(self) -> Collection[str]:
        """Return the first segments of all paths."""
        return {shape.version for shape in self._rows}

    def find(self, verb: str, path: str) -> tuple[Method, dict[str, str]]:
        """Return the row of a raw (percent-encoded) path, and the parts of the name.

        Raises a Refusal: 404 for an unknown path, 405 for an unknown verb, 400 for an invalid id.
        """
        shape, parts = _split_path(path)
        rows = self._rows.get(shape)
        if rows is None and (sentence := self._sentence_of(shape.collections)):
            raise Refusal(Code.UNIMPLEMENTED, sentence)
        if rows is None or not all(parts):
            raise Refusal(Code.NOT_FOUND, f"there is no method at {path[:200]}")
        method = rows.get(verb)
        if method is None:
            allowed = ", ".join(sorted(rows))
            message = f"{path[:200]} has no verb {verb[:20]}; it has {allowed}"
            raise TransportRefusal(Code.UNIMPLEMENTED, message, 405, allowed)
        return method, dict(
            zip(parameter_names(method.path), map(_decode_part, parts), strict=True)
        )


def parameter_names(template: str) -> list[str]:
    """Return the names in a template's braces, in order."""
    return [part[1:-1] for part in _split_path(template)[1]]


def _split_path(path: str) -> tuple[_Shape, list[str]]:
    version, *segments = path.removeprefix("/").split("/")
    action = ""
    if segments and ":" in segments[-1]:
        segments[-1], _, action = segments[-1].rpartition(":")
    shape = _Shape(version, tuple(segments[0::2]), len(segments), action)
    return shape, segments[1::2]


def _decode_part(part: str) -> str:
    try:
        text = unquote(part, errors="strict") if "%" in part else part
    except UnicodeDecodeError:
        raise Refusal(Code.INVALID_ARGUMENT, f"{part[:100]} is not UTF-8") from None
    if "/" in text or not text.isprintable():
        message = f"{text[:100]!r} cannot be an id: an id has no slash and no control character"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    return text
