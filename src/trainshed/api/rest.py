"""The HTTP application: Google's routes, storage, the native API, health and grants.

Google's routes are not Starlette's, for speed: a call is one look-up in the table, one hop to a
thread (handlers are synchronous), one answer.

A storage client that uses STORAGE_EMULATOR_HOST sends no Authorization header unless it was made
with ``credentials`` (docs/sources/vertex.md 2.4).  Such a client uses addresses that begin with
``/as/TOKEN/``; the token must be a token for buckets (decision 0071).
"""

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trainshed.api.audited import incident_response, note_call, note_response
from trainshed.api.call import RawMethod
from trainshed.api.chain import (
    ADMISSION,
    CHAIN,
    CLIENT_GONE,
    ChainServices,
    RequestContext,
    RequestWatch,
    perform,
)
from trainshed.api.connections import CONNECTION
from trainshed.api.console.browsers import SIGN_IN_PATH, check_json_body, read_proof
from trainshed.api.console.bundle import ConsoleBundle
from trainshed.api.console.pages import console_routes
from trainshed.api.documents import (
    TransportRefusal,
    check_json,
    json_bytes_response,
    refusal_response,
)
from trainshed.api.front_page import front_page_route
from trainshed.api.grants import grant_route
from trainshed.api.incoming import (
    Incoming,
    answer_early,
    read_whole,
    received_again,
    request_context,
    watched,
)
from trainshed.api.measured import Answered, count_refusal, measure
from trainshed.api.probes import Probes, list_probe_routes
from trainshed.api.table import LOG_PATH
from trainshed.api.threads import LOG_THREADS, THREADS
from trainshed.api.watched import note_context, watch_request
from trainshed.model.access import Caller
from trainshed.model.json_reader import VALUES_MAX
from trainshed.model.refusals import Code, Refusal
from trainshed.model.study_start import GIVEN_VALUES_MAX

#: nginx's status for a client that disconnected; for the log only.
GONE_STATUS = 499


def raw_routes(methods: Sequence[RawMethod], services: ChainServices) -> list[Route]:
    """Return one Starlette route for each row."""
    return [
        Route(row.path, _endpoint(row, services), methods=[row.verb], include_in_schema=False)
        for row in methods
    ]


def token_mount(routes: Sequence[Route]) -> Mount:
    """Return the routes again, with the prefix ``/as/{token}``."""
    return Mount("/as/{token}", app=TokenInPath(Router(routes, redirect_slashes=False)))


@dataclass(frozen=True, slots=True)
class TokenInPath:
    """Moves the token from the path to the Authorization header, so that no log contains it.

    The prefix stays in ``root_path``, for URLs in the response.
    """

    app: ASGIApp
    """Gets requests without the prefix."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request.  Changes the scope in place, because the access log reads it too."""
        token = scope["path_params"].pop("token")
        _, _, rest = scope["path"].removeprefix("/as/").partition("/")
        raw = (scope.get("raw_path") or scope["path"].encode()).removeprefix(b"/as/")
        scope["path"] = f"/{rest}"
        scope["raw_path"] = b"/" + raw.partition(b"/")[2]
        scope["root_path"] = f"/as/{quote(token, safe='')}"
        scope.setdefault("state", {})["token_in_path"] = True
        headers = [pair for pair in scope["headers"] if pair[0] != b"authorization"]
        bearer = f"Bearer {token}".encode("utf-8", "surrogateescape")
        scope["headers"] = [*headers, (b"authorization", bearer)]
        await self.app(scope, receive, send)


async def admit(scope: Scope, context: RequestContext, services: ChainServices) -> Caller:
    """Check Host and Origin, and return the caller.  Raises a Refusal."""
    await _admit(scope, services, context)
    if context.caller is None:
        raise AssertionError("the admission must end with a caller or a refusal")
    return context.caller


async def _admit(scope: Scope, services: ChainServices, context: RequestContext) -> None:
    """Run the admission steps, and note on the connection whether there is a caller."""
    try:
        await THREADS.run(perform, ADMISSION, services, context)
    finally:
        _note_caller(scope, context)


def _note_caller(scope: Scope, context: RequestContext) -> None:
    """Note on the connection whether its caller has a valid token (``api.connections``)."""
    connection = scope.get("state", {}).get(CONNECTION)
    if connection is not None:
        connection.recognise(authenticated=context.caller is not None)


def _endpoint(row: RawMethod, services: ChainServices) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        context = request_context(request.scope)
        note_context(request.scope, context)
        context.of_storage = True
        response = await respond(request, context)
        note_response(services, context, row.path, response.status_code, request)
        return response

    async def respond(request: Request, context: RequestContext) -> Response:
        try:
            return await row.handle(request, await admit(request.scope, context, services))
        except Refusal as refusal:
            return refusal_response(refusal)
        except ClientDisconnect:
            return Response(status_code=GONE_STATUS)
        except Exception:  # noqa: BLE001  # as in the chain: the caller gets an incident number
            return incident_response(request, f"{row.verb} {row.path}")

    return endpoint


class LazyApp:
    """Makes a slow application at its first request."""

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        """``make`` is called once, in a thread."""
        self._make = make
        self._making = threading.Lock()
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; the first one may have to wait."""
        app = await anyio.to_thread.run_sync(self.made) if self._app is None else self._app
        await app(scope, receive, send)

    def made(self) -> ASGIApp:
        """Return the application, made now if needed."""
        with self._making:
            if self._app is None:
                self._app = self._make()
            return self._app


@dataclass(frozen=True, slots=True)
class GoogleRoutes:
    """Answers all calls of Google's routes, and refuses unknown paths."""

    services: ChainServices

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        context, incoming = request_context(scope), Incoming(receive)
        note_context(scope, context)
        try:
            await self._read(context, scope, incoming)
        except Refusal as refusal:
            note_call(self.services, context, refusal)
            await answer_early(refusal_response(refusal), scope, incoming, send)
        else:
            with watched(incoming, context):
                threads = LOG_THREADS if scope["path"] == LOG_PATH else THREADS
                response = await threads.run(answer, self.services, context)
            _note_caller(scope, context)
            await response(scope, receive, send)

    async def _read(self, context: RequestContext, scope: Scope, incoming: Incoming) -> None:
        """Read the body.  If it has more than one packet, identify the caller first."""
        first = await incoming()
        context.body = first.get("body", b"")
        if first["type"] == "http.disconnect":
            raise Refusal(Code.CANCELLED, CLIENT_GONE)
        if incoming.more:
            await _admit(scope, self.services, context)
            bytes_max = self.services.body_bytes_max
            context.body = await read_whole(scope, incoming, bytes_max, begun=context.body)


def answer(services: ChainServices, context: RequestContext) -> Response:
    """Run the chain, and return its response."""
    try:
        perform(CHAIN, services, context)
    except Refusal as refusal:
        note_call(services, context, refusal)
        count_refusal(services.refused, context.method, refusal)
        return refusal_response(refusal)
    note_call(services, context, None)
    return json_bytes_response(context.reply)


def make_app(  # noqa: PLR0913 - the parts of the application
    services: ChainServices,
    *,
    raw: Sequence[RawMethod],
    native: ASGIApp | None,
    exchange: Callable[[str, str], dict[str, Any]],
    probes: Probes,
    console: ConsoleBundle | None = None,
    more: Sequence[BaseRoute] = (),
) -> Starlette:
    """Return the whole application.

    ``native`` is mounted at ``/trainshed/v1`` and reads its caller from ``request.state.caller``.
    ``exchange`` turns a grant and its sender's address into a token document.  ``console`` is the
    web console; None: it is switched off.  ``more`` are further routes, which admit callers
    themselves.
    """
    google = GoogleRoutes(services)
    routes: list[BaseRoute] = [
        Mount(f"/{version}", app=google) for version in sorted(services.routes.versions)
    ]
    has_console = console is not None
    routes += [front_page_route(services, has_console=has_console), *list_probe_routes(probes)]
    routes += [grant_route(exchange, services), *more]
    if console is not None:
        routes += console_routes(services, console)
    if native is not None:
        routes.append(Mount("/trainshed/v1", app=Recognised(native, services)))
    storage = raw_routes(raw, services)
    routes += [*storage, token_mount(storage)]
    app = _Application(
        routes=routes,
        middleware=_cors_middleware(services),
        exception_handlers={HTTPException: _not_routed},
    )
    app.router.redirect_slashes = False
    app.watch = services.watch
    app.answered = services.answered
    if not services.allowed_origins:  # otherwise the CORS middleware must see every call
        app.direct = dict.fromkeys(services.routes.versions, google)
    return app


class _Application(Starlette):
    """Routes by the first segment of the path if an application serves all paths below it.

    Starlette's own layers would take a twentieth of the time of a submission.
    """

    direct: Mapping[str, ASGIApp] = MappingProxyType({})
    """Applications that skip Starlette's layers, by the first segment of the path."""
    watch: RequestWatch | None = None
    answered: Answered
    """Counts an answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        segment = scope["path"].split("/", 2)[1:2]
        app = (self.direct.get(segment[0]) if segment else None) or super().__call__
        if self.watch is not None:
            app = partial(watch_request, app, self.watch)
        await measure(app, scope, receive, send, self.answered)


def _cors_middleware(services: ChainServices) -> list[Middleware]:
    """Return the middleware that allows pages of allowed origins (CORS)."""
    if not services.allowed_origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=[origin.lower().rstrip("/") for origin in services.allowed_origins],
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=["Location", "Range"],
        )
    ]


#: The ends of the paths whose requests have the known results of a study.
_RESULT_PATHS: Final = ("/jobs:createStudy", "/jobs:dryRun")


def _values_max(path: str) -> int:
    """Return how many JSON values a request of the native API may have."""
    return GIVEN_VALUES_MAX if path.endswith(_RESULT_PATHS) else VALUES_MAX


@dataclass(frozen=True, slots=True)
class Recognised:
    """Admits callers to an application outside the chain."""

    app: ASGIApp
    """The application; it checks the permissions of the caller itself."""
    services: ChainServices

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            raise HTTPException(404)
        incoming, context, request = Incoming(receive), request_context(scope), Request(scope)
        note_context(scope, context)
        context.allows_stranger = context.path == SIGN_IN_PATH
        try:
            if (browsers := self.services.browsers) is not None:
                context.browser = read_proof(context, plain_http=browsers.plain_http)
            await _admit(scope, self.services, context)
            request.state.caller = context.caller
            request.state.admit_again = partial(admit, scope, context, self.services)
            body = await read_whole(scope, incoming, self.services.body_bytes_max)
            check_json_body(context, body)
            content_type = request_context(scope).content_type
            await THREADS.run(check_json, body, content_type, _values_max(context.path))
        except Refusal as refusal:
            response = refusal_response(refusal)
            note_response(self.services, context, context.path, response.status_code, request)
            await answer_early(response, scope, incoming, send)
        else:
            logged_send = self._log_outcome(context, request, send)
            await self.app(scope, received_again(body, receive), logged_send)

    def _log_outcome(self, context: RequestContext, request: Request, send: Send) -> Send:
        """Return a ``send`` that logs the outcome when it is known."""

        async def logged_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                route_path = getattr(request.scope.get("route"), "path", "")
                path = f"/trainshed/v1{route_path}" if route_path else context.path
                note_response(self.services, context, path, message["status"], request)
            await send(message)

        return logged_send


async def _not_routed(request: Request, error: Exception) -> Response:
    """Refuse a path that Starlette did not find, in the wording of other refusals."""
    if not isinstance(error, HTTPException):
        raise error
    path = request.url.path[:200]
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "")
        message = f"{path} has no verb {request.method[:20]}; it has {allowed}"
        return refusal_response(TransportRefusal(Code.UNIMPLEMENTED, message, 405, allowed))
    return refusal_response(Refusal(Code.NOT_FOUND, f"there is no method at {path}"))
