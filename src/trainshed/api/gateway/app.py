"""Routes the gateway's requests by host and path: metadata server, tokens, storage."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from trainshed.api.call import RawMethod
from trainshed.api.chain import GIVEN_TWICE, incident
from trainshed.api.documents import refusal_response
from trainshed.api.gateway import batch, metadata, oauth2
from trainshed.api.gateway.accepting import authority_of
from trainshed.api.gateway.admission import Admission, is_emulator
from trainshed.api.gateway.denials import Denials
from trainshed.api.gateway.xml import ReadPublic, XmlStorage, read_nothing
from trainshed.api.storage_call import refusal
from trainshed.model.access import Caller
from trainshed.model.refusals import Code, Refusal
from trainshed.service.gateway.attempts import is_attempt

#: Hosts of the storage API: the JSON API, and the XML API for other paths.
STORAGE_HOST: Final = "storage.googleapis.com"
_STORAGE: Final = frozenset(
    {STORAGE_HOST, "www.googleapis.com", "commondatastorage.googleapis.com"}
)
_OAUTH2: Final = frozenset({"oauth2.googleapis.com", "accounts.google.com"})

NOT_SERVED: Final = (
    "this server does not answer for {host}: its jobs can use Google's storage API and metadata "
    "server, and can write logs and metrics; an administrator can let other requests through with "
    'other_apis = "pass" under [gateway]'
)

#: Jobs use the buckets of their project, and make none (decision 0039).
NOT_FOR_JOBS: Final = frozenset({("POST", "/storage/v1/b"), ("DELETE", "/storage/v1/b/{bucket}")})
NO_BUCKETS: Final = (
    "Permission denied: jobs cannot make or remove buckets; run: trainshed buckets create NAME"
)


#: Refused as by the API: of two Host headers, programs may use the first or the last.
_TWO_HOSTS: Final = Refusal(Code.INVALID_ARGUMENT, f"the header host {GIVEN_TWICE}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The ASGI application of the gateway."""

    admission: Admission
    storage: Router
    other_hosts: Mapping[str, ASGIApp] = field(default_factory=dict)
    """Applications for more of Google's hosts, by host; only attempts may call them."""

    def serves(self, host: str) -> bool:
        """Return whether the gateway answers for a host of Google's with more than a refusal."""
        return (
            host in _STORAGE
            or host in _OAUTH2
            or host in self.other_hosts
            or host.endswith(f".{STORAGE_HOST}")
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        app = self._app(scope)
        await app(scope, receive, send)

    def _app(self, scope: Scope) -> ASGIApp:
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            return refusal_response(_TWO_HOSTS)
        host, path = authority_of(scope), scope["path"]
        if scope["scheme"] == "http" and (path == "/" or path.startswith("/computeMetadata")):
            return metadata.app(self.admission)
        if host in self.other_hosts:
            return self._for_attempts(self.other_hosts[host])
        if host in _OAUTH2 or path in oauth2.PATHS:
            return oauth2.app(self.admission)
        if self.serves(host) or is_emulator(scope):
            return self.storage
        return _not_served(host)

    def _for_attempts(self, app: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                self.admission.peer(scope)
            except Refusal as refused:
                await refusal_response(refused)(scope, receive, send)
            else:
                await app(scope, receive, send)

        return answer


def refuse_jobs(raw: Sequence[RawMethod]) -> Sequence[RawMethod]:
    """Return the rows; those that make and remove buckets now refuse jobs."""
    return [_refuse_jobs(row) if (row.verb, row.path) in NOT_FOR_JOBS else row for row in raw]


def storage_router(
    rows: Sequence[RawMethod],
    admission: Admission,
    denials: Denials,
    read_public: ReadPublic = read_nothing,
) -> Router:
    """Return the routes of the JSON API, followed by the XML API.

    ``read_public`` answers reads of buckets that the caller does not have, or returns None.
    """

    def admitted(row: RawMethod) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return await _answer(request, row, admission, denials, read_public)

        return endpoint

    routes = [Route(row.path, admitted(row), methods=[row.verb]) for row in rows]
    xml = XmlStorage(rows, admission.admit, denials.note, read_public)
    single = Router(routes, redirect_slashes=False)
    many = [Route(path, batch.batched(single), methods=["POST"]) for path in batch.PATHS]
    return Router([*many, *routes], redirect_slashes=False, default=xml)


def _refuse_jobs(row: RawMethod) -> RawMethod:
    """Return a row that refuses attempts, and accepts callers with another token."""

    async def handle(request: Request, caller: Caller) -> Response:
        if is_attempt(caller):
            return refusal(Code.PERMISSION_DENIED.http, NO_BUCKETS)
        return await row.handle(request, caller)

    return replace(row, handle=handle)


async def _answer(
    request: Request,
    row: RawMethod,
    admission: Admission,
    denials: Denials,
    read_public: ReadPublic,
) -> Response:
    try:
        caller = await admission.admit(request.scope)
        response = await row.handle(request, caller)
    except Refusal as refused:
        denials.note(request, None, refused.code.name)
        return refusal(refused.code.http, refused.message)
    except ClientDisconnect:
        return Response(status_code=499)
    except Exception:  # noqa: BLE001  # as in the chain: a number for the caller
        return refusal_response(incident(f"{row.verb} {row.path}"))
    is_unknown = getattr(request.state, "is_denied", False)
    if is_unknown and (public_answer := await read_public(request)):
        return public_answer
    if is_unknown or response.status_code == Code.PERMISSION_DENIED.http:
        denials.note(request, caller, Code.PERMISSION_DENIED.name)
    return response


def _not_served(host: str) -> ASGIApp:
    """Return a refusal that Google's clients do not retry."""
    refused = Refusal(Code.PERMISSION_DENIED, NOT_SERVED.format(host=host[:100] or "the host"))
    return refusal_response(refused)
