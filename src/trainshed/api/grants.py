"""``POST /token``: the grants that Google's clients request for a service account or a user.

The client reads OAuth's form of an error, not Google's (docs/sources/vertex.md 2.4).
"""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trainshed.api.audited import note
from trainshed.api.chain import ChainServices, RequestContext, guard, incident
from trainshed.api.documents import json_response, refusal_response
from trainshed.api.incoming import read_body, request_context
from trainshed.model.refusals import Refusal, Throttled

#: Turns an assertion, and its sender's address, into the token document.  Raises a Refusal.
Exchange = Callable[[str, str], dict[str, Any]]

#: A signed assertion is about one kilobyte.
GRANT_BYTES_MAX: Final = 64 << 10
GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
#: The grant of ``authorized_user`` credentials: their refresh token is a token of this server.
REFRESH: Final = "refresh_token"
_FIELD_OF_GRANT: Final = {GRANT_TYPE: "assertion", REFRESH: "refresh_token"}


def grant_route(exchange: Exchange, services: ChainServices) -> Route:
    """Return the route; ``exchange`` turns an assertion into the answer, or raises a Refusal."""

    async def endpoint(request: Request) -> Response:
        context = request_context(request.scope)
        try:
            guard(services, context)
            body = await read_body(request.receive, b"", GRANT_BYTES_MAX)
        except Refusal as refusal:
            _note(services, context, refusal)
            return refusal_response(refusal)
        return await anyio.to_thread.run_sync(_grant_token, exchange, services, context, body)

    return Route("/token", endpoint, methods=["POST"])


def _note(services: ChainServices, context: RequestContext, refusal: Refusal) -> None:
    fields = {"method": "POST /token", "resource": "/token", "project": ""}
    note(services, context, **fields, status=refusal.code.name)


def _grant_token(
    exchange: Exchange, services: ChainServices, context: RequestContext, body: bytes
) -> Response:
    try:
        fields = dict(parse_qsl(body.decode("latin-1")))
        field = _FIELD_OF_GRANT.get(fields.get("grant_type", ""))
        if field is None:
            accepted = f"grant_type must be {GRANT_TYPE} or {REFRESH}"
            return _error("unsupported_grant_type", accepted)
        if not fields.get(field):
            return _error("invalid_request", f"{field} must be given for this grant_type")
        return json_response(exchange(fields[field], context.address))
    except Refusal as refusal:
        _note(services, context, refusal)
        if isinstance(refusal, Throttled):
            return refusal_response(refusal)
        return _error("invalid_grant", refusal.message)
    except Exception:  # noqa: BLE001  # as in the chain: a number for the caller
        return refusal_response(incident("POST /token"))


def _error(code: str, description: str) -> Response:
    return json_response({"error": code, "error_description": description}, 400)
