"""The metadata server's routes, for processes of attempts only."""

import json
from typing import Final
from urllib.parse import parse_qsl

from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from trainshed.api.chain import database_away
from trainshed.api.gateway.admission import Admission
from trainshed.api.threads import THREADS
from trainshed.model.refusals import Refusal
from trainshed.service.gateway.attempts import LivingAttempt
from trainshed.service.gateway.metadata import ROOT, Moved, email_of, look_up
from trainshed.service.gateway.tokens import LIFE_S
from trainshed.store.base import StoreFault

#: The header by which a client shows that it means the metadata server; responses have it too.
_FLAVOR: Final = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
_NO_FLAVOR: Final = "Missing required header: Metadata-Flavor: Google\n"
_NO_IDENTITY: Final = (
    "This server has access tokens only: identity tokens must be signed by Google\n"
)
#: Clients request the next token a second before the end.
_MARGIN_S: Final = 1


def app(admission: Admission) -> ASGIApp:
    """Return the ASGI application of the metadata server."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            peer = await THREADS.run(admission.peer, scope)
        except Refusal as refused:
            response: Response = _text(f"{refused.message}\n", refused.code.http)
        except StoreFault as fault:
            away = database_away(fault)
            response = _text(f"{away.message}\n", away.code.http)
        else:
            response = _answer(scope, peer, admission)
        await response(scope, receive, send)

    return answer


def _answer(scope: Scope, peer: LivingAttempt, admission: Admission) -> Response:
    if scope["method"] not in {"GET", "HEAD"}:
        return _text("The metadata server is read-only\n", 405)
    headers = dict(scope["headers"])
    path = scope["path"].strip("/") if scope["path"] == "/" else scope["path"].lstrip("/")
    if path in {"", "computeMetadata", "computeMetadata/"}:
        return _text("computeMetadata/\n" if not path else "v1/\n")
    if headers.get(b"metadata-flavor", b"").lower() != b"google" or b"x-forwarded-for" in headers:
        return _text(_NO_FLAVOR, 403)
    entry_path = path.removeprefix(ROOT)
    if entry_path == path:
        return _text("Not Found\n", 404)
    return _answer_entry(entry_path.removeprefix("/"), scope, peer, admission)


def _answer_entry(path: str, scope: Scope, peer: LivingAttempt, admission: Admission) -> Response:
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    match path.rstrip("/").split("/"):
        case ["instance", "service-accounts", account, "token"] if _is_of(account, peer):
            return _token(peer, admission)
        case ["instance", "service-accounts", account, "identity"] if _is_of(account, peer):
            return _text(_NO_IDENTITY, 404)
    entry = look_up(path, query, peer)
    if entry is None:
        return _text("Not Found\n", 404)
    if isinstance(entry, Moved):
        return RedirectResponse(entry.path, 301, headers=_FLAVOR)
    return Response(entry.text, media_type=entry.content_type, headers=_FLAVOR)


def _is_of(account: str, peer: LivingAttempt) -> bool:
    return account in {"default", email_of(peer)}


def _token(peer: LivingAttempt, admission: Admission) -> Response:
    document = {
        "access_token": admission.tokens.make(peer.key, admission.clock()),
        "expires_in": LIFE_S - _MARGIN_S,
        "token_type": "Bearer",
    }
    return Response(json.dumps(document), media_type="application/json", headers=_FLAVOR)


def _text(text: str, status: int = 200) -> Response:
    return PlainTextResponse(text, status, headers=_FLAVOR)
