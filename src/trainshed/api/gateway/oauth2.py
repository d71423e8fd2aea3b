"""Google's token endpoint, for the tokens of this server.

A client with a key file of this server exchanges an assertion here.  Tokens of a Google login
cannot be renewed at this endpoint.  Errors have OAuth's form, which clients read
(docs/sources/vertex.md 2.4).
"""

from typing import Final
from urllib.parse import parse_qsl

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from trainshed.api.chain import incident
from trainshed.api.documents import json_response, refusal_response
from trainshed.api.gateway.admission import Admission
from trainshed.api.grants import GRANT_BYTES_MAX, GRANT_TYPE
from trainshed.api.incoming import read_body
from trainshed.api.threads import THREADS
from trainshed.model.refusals import Refusal
from trainshed.service.gateway.metadata import SCOPES, email_of

PATHS: Final = frozenset(
    {"/token", "/tokeninfo", "/o/oauth2/token", "/oauth2/v4/token"}
    | {f"/oauth2/{version}/tokeninfo" for version in ("v1", "v2", "v3")}
)
_NOT_GRANTED: Final = (
    "this server accepts only assertions of its own keys; programs of jobs get their tokens from "
    "the metadata server"
)


def app(admission: Admission) -> ASGIApp:
    """Return the ASGI application of the token endpoint."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await read_body(receive, b"", GRANT_BYTES_MAX)
            response = await THREADS.run(_answer, scope, body, admission)
        except Refusal as refused:
            response = refusal_response(refused)
        except Exception:  # noqa: BLE001  # as in the chain: a number for the caller
            response = refusal_response(incident("the token endpoint"))
        await response(scope, receive, send)

    return answer


def _answer(scope: Scope, body: bytes, admission: Admission) -> Response:
    peer = admission.peer(scope)
    text = scope["query_string"].decode("latin-1") + "&" + body.decode("latin-1")
    fields = dict(parse_qsl(text))
    if not scope["path"].endswith("/tokeninfo"):
        return _grant_token(fields, admission, scope)
    grant = admission.tokens.read(fields.get("access_token", ""))
    if grant is None or grant.key != peer.key or grant.ends_at_s <= admission.clock():
        return _error("invalid_token", "Invalid Value")
    seconds_left = str(int(grant.ends_at_s - admission.clock()))
    return json_response(
        {
            "azp": str(peer.key.uid),
            "aud": str(peer.key.uid),
            "scope": " ".join(SCOPES),
            "exp": str(grant.ends_at_s),
            "expires_in": seconds_left,
            "email": email_of(peer),
            "email_verified": "true",
            "access_type": "online",
        }
    )


def _grant_token(fields: dict[str, str], admission: Admission, scope: Scope) -> Response:
    if admission.exchange is None or fields.get("grant_type") != GRANT_TYPE:
        return _error("invalid_grant", _NOT_GRANTED)
    try:
        return json_response(admission.exchange(fields.get("assertion", ""), _address(scope)))
    except Refusal as refused:
        return _error("invalid_grant", refused.message)


def _address(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else ""


def _error(code: str, description: str) -> Response:
    return json_response({"error": code, "error_description": description}, 400)
