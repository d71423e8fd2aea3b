"""The HTTP edge: which path goes where.  What a call may do is decided in ``chain``."""

import logging
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from trainshed.api.answers import refusal_response
from trainshed.api.bodies import Incoming, answer_early, read_whole, received_again
from trainshed.api.call import RawMethod
from trainshed.api.chain import Surroundings
from trainshed.api.google_routes import GoogleRoutes
from trainshed.api.grants import grant_route
from trainshed.api.raw_routes import admit, raw_routes, token_mount
from trainshed.api.transport_refusals import TransportRefusal
from trainshed.model.refusals import Code, Refusal

_log = logging.getLogger(__name__)


def make_app(
    around: Surroundings,
    *,
    raw: Sequence[RawMethod],
    native: ASGIApp | None,
    exchange: Callable[[str], dict[str, Any]],
    is_healthy: Callable[[], bool],
) -> Starlette:
    """The whole application.

    ``native`` is mounted at ``/trainshed/v1`` and finds its caller in ``request.state.caller``.
    ``exchange`` answers JWT grants; ``is_healthy`` says whether the store answers, and may raise.
    """
    google = GoogleRoutes(around)
    routes: list[BaseRoute] = [
        Mount(f"/{version}", app=google) for version in sorted(around.routes.versions)
    ]
    routes += [Route("/healthz", _health(is_healthy)), grant_route(exchange, around)]
    if native is not None:
        routes.append(Mount("/trainshed/v1", app=Recognised(native, around)))
    storage = raw_routes(raw, around)
    routes += [*storage, token_mount(storage)]
    app = _Application(
        routes=routes,
        middleware=_pages_of(around),
        exception_handlers={HTTPException: _not_routed},
    )
    app.router.redirect_slashes = False
    if not around.allowed_origins:  # else the pages' middleware must see every call
        app.direct = dict.fromkeys(around.routes.versions, google)
    return app


class _Application(Starlette):
    """Routes by the first segment alone where that is enough.

    Starlette's own layers are a twentieth of what a submit costs, and have nothing to add here.
    """

    direct: Mapping[str, ASGIApp] = MappingProxyType({})
    """Applications by the first segment of the paths that are theirs."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        segment = scope["path"].split("/", 2)[1:2] if scope["type"] == "http" else ()
        found = self.direct.get(segment[0]) if segment else None
        await (found or super().__call__)(scope, receive, send)


def _pages_of(around: Surroundings) -> list[Middleware]:
    """What lets the pages of allowed origins ask first and read the answers (CORS)."""
    if not around.allowed_origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=[origin.lower().rstrip("/") for origin in around.allowed_origins],
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=["Location", "Range"],
        )
    ]


class Recognised:
    """Lets recognised callers through to an application that is not over the chain."""

    def __init__(self, app: ASGIApp, around: Surroundings) -> None:
        """``app`` decides itself what a caller may do."""
        self._app = app
        self._around = around

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            raise HTTPException(404)
        incoming = Incoming(receive)
        try:
            scope.setdefault("state", {})["caller"] = await admit(scope, self._around)
            body = await read_whole(scope, incoming, self._around.body_bytes_max)
        except Refusal as refusal:
            await answer_early(refusal_response(refusal), scope, incoming, send)
        else:
            await self._app(scope, received_again(body, receive), send)


def _health(is_healthy: Callable[[], bool]) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        del request
        try:
            healthy = await anyio.to_thread.run_sync(is_healthy)
        except Exception:  # noqa: BLE001  # whatever it is, the answer is the same
            _log.warning("the store does not answer", exc_info=True)
            healthy = False
        return PlainTextResponse(
            "ok" if healthy else "the store does not answer", 200 if healthy else 503
        )

    return endpoint


async def _not_routed(request: Request, error: Exception) -> Response:
    """What Starlette's own routing did not find, in the words of all other refusals."""
    if not isinstance(error, HTTPException):
        raise error
    path = request.url.path[:200]
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "")
        message = f"{path} has no verb {request.method[:20]}; it has {allowed}"
        return refusal_response(TransportRefusal(Code.UNIMPLEMENTED, message, 405, allowed))
    return refusal_response(Refusal(Code.NOT_FOUND, f"there is no method at {path}"))
