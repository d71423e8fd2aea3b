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
from trainshed.api.incoming import passage_of, read_body
from trainshed.model.refusals import Refusal, Throttled

#: Turns an assertion, and its sender's address, into the answer.
Exchange = Callable[[str, str], dict[str, Any]]

#: A signed assertion is about one kilobyte.
GRANT_BYTES_MAX: Final = 64 << 10
GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
#: The grant of ``authorized_user`` credentials, whose refresh token is a token of this server.
REFRESH: Final = "refresh_token"
_SHOWN_IN: Final = {GRANT_TYPE: "assertion", REFRESH: "refresh_token"}


def grant_route(exchange: Exchange, around: ChainServices) -> Route:
    """Return the route; ``exchange`` turns an assertion into the answer, or raises a Refusal."""

    async def endpoint(request: Request) -> Response:
        passage = passage_of(request.scope)
        try:
            guard(around, passage)
            body = await read_body(request.receive, b"", GRANT_BYTES_MAX)
        except Refusal as refusal:
            _note(around, passage, refusal)
            return refusal_response(refusal)
        return await anyio.to_thread.run_sync(_grant_token, exchange, around, passage, body)

    return Route("/token", endpoint, methods=["POST"])


def _note(around: ChainServices, passage: RequestContext, refusal: Refusal) -> None:
    fields = {"method": "POST /token", "resource": "/token", "project": ""}
    note(around, passage, **fields, status=refusal.code.name)


def _grant_token(
    exchange: Exchange, around: ChainServices, passage: RequestContext, body: bytes
) -> Response:
    try:
        fields = dict(parse_qsl(body.decode("latin-1")))
        field = _SHOWN_IN.get(fields.get("grant_type", ""))
        if field is None:
            accepted = f"grant_type must be {GRANT_TYPE} or {REFRESH}"
            return _error("unsupported_grant_type", accepted)
        if not fields.get(field):
            return _error("invalid_request", f"the grant has no {field}")
        return json_response(exchange(fields[field], passage.address))
    except Refusal as refusal:
        _note(around, passage, refusal)
        if isinstance(refusal, Throttled):
            return refusal_response(refusal)
        return _error("invalid_grant", refusal.message)
    except Exception:  # noqa: BLE001  # as in the chain: a number for the caller
        return refusal_response(incident("POST /token"))


def _error(word: str, description: str) -> Response:
    return json_response({"error": word, "error_description": description}, 400)
