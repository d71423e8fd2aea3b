"""Reads and writes the cookie of a sign-in.

Cookies are not separated by port (RFC 6265 8.5), so the name has the port: two servers of one
machine would overwrite each other's.  Over TLS the prefix ``__Host-`` keeps other hosts and plain
HTTP from setting the cookie.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from trainshed.api.chain import RequestContext
from trainshed.api.guards import is_loopback
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth.browser_proofs import NATIVE_PREFIX, TICKET, BrowserProof

#: The route on which browsers sign in.
SIGN_IN_PATH: Final = f"{NATIVE_PREFIX}signin"
_NAME: Final = "trainshed"
_HOST_PREFIX: Final = "__Host-"
_PORT: Final = re.compile(r":([0-9]{1,5})$")
_HTTP_PORT: Final = "80"
_HTTPS: Final = "https"
_JSON: Final = "application/json"

PLAIN_HTTP: Final = (
    "Browsers cannot sign in here: this page came over plain HTTP, possibly from another machine, "
    "and the sign-in would be sent without encryption. An administrator can set https = true below "
    "[server] in config.toml, or plain_http = true below [console] if a proxy in front of the "
    "server provides TLS. From another machine, ssh -L 8080:127.0.0.1:8080 HOST makes the server's "
    "port 8080 available at http://127.0.0.1:8080/console/."
)
TWO_COOKIES: Final = (
    "The browser sent two sign-ins for this server; delete the cookies of this site, and sign in "
    "again"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserConnection:
    """How a browser is connected to the server."""

    port: str
    """The port in the address of the page; empty for the default port."""
    is_tls: bool
    """Whether this server provides TLS."""
    is_secure: bool
    """Whether the browser uses TLS, provided by this server or a proxy."""
    is_private: bool
    """Whether no other machine can read what is sent to this server."""


def connection_of(context: RequestContext) -> BrowserConnection:
    """Return how the browser of a request is connected."""
    host = context.host or ""
    port = _PORT.search(host)
    name = host[: port.start()] if port else host
    is_tls = context.scheme == _HTTPS
    return BrowserConnection(
        port=port[1] if port else "",
        is_tls=is_tls,
        is_secure=is_tls or (context.origin or "").startswith(f"{_HTTPS}://"),
        is_private=is_tls or (context.loopback and is_loopback(name)),
    )


def check_connection(connection: BrowserConnection, *, plain_http: bool) -> None:
    """Raise Refusal if other machines could read a sign-in; ``plain_http`` accepts that."""
    if not connection.is_private and not plain_http:
        raise Refusal(Code.FAILED_PRECONDITION, PLAIN_HTTP)


def read_proof(context: RequestContext, *, plain_http: bool) -> BrowserProof | None:
    """Return what proves the sign-in of a request's browser; None if it sent no cookie.

    A call with an Authorization header has no proof: its token counts.  Raises Refusal for two
    cookies of one name.
    """
    connection = connection_of(context)
    if context.authorization or not context.cookie:
        return None
    if not connection.is_private and not plain_http:
        return None
    cookie = _choose_cookie(context.cookie, connection)
    if not cookie:
        return None
    if context.path == SIGN_IN_PATH and _is_signing_in(context):
        return None
    query, ticket = _split_query(context)
    return BrowserProof(
        cookie=cookie,
        csrf=context.csrf,
        target=f"{context.path}?{query}" if query else context.path,
        ticket=ticket,
    )


def has_credential(context: RequestContext) -> bool:
    """Return whether a request has a token, or a cookie of a sign-in, valid or not."""
    names = {_plain_name(port := connection_of(context).port), _secure_name(port)}
    is_signed_in = any(name in names and value for name, value in _parse_cookies(context.cookie))
    return context.authorization is not None or is_signed_in


def _is_signing_in(context: RequestContext) -> bool:
    """Whether the call begins a sign-in, or comes from a page that has no header yet."""
    return context.verb == "POST" or (context.verb == "GET" and not context.csrf)


def check_json_body(context: RequestContext, body: bytes) -> None:
    """Raise Refusal for a body of a browser's call that a form of another page could send."""
    is_json = context.content_type.partition(";")[0].strip().lower() == _JSON
    if context.browser is not None and body and not is_json:
        message = f"the body must be JSON with Content-Type: {_JSON}"
        raise Refusal(Code.INVALID_ARGUMENT, message)


def cookie_header(connection: BrowserConnection, value: str, until: datetime) -> str:
    """Return the header ``Set-Cookie`` of a sign-in; an empty value deletes the cookie."""
    left_s = max(0, int((until - datetime.now(UTC)).total_seconds())) if value else 0
    name = _secure_name(connection.port) if connection.is_secure else _plain_name(connection.port)
    path = "/; Secure" if connection.is_secure else NATIVE_PREFIX.rstrip("/")
    return f"{name}={value}; Max-Age={left_s}; HttpOnly; SameSite=Strict; Path={path}"


def _choose_cookie(header: str, connection: BrowserConnection) -> str | None:
    """Return the value of the first name that the browser sent.  Raises Refusal for two values."""
    names = [_secure_name(connection.port)]
    if not connection.is_tls:
        names.insert(0, _plain_name(connection.port))
    cookies = _parse_cookies(header)
    for name in names:
        values = {value for other, value in cookies if other == name and value}
        if len(values) > 1:
            raise Refusal(Code.UNAUTHENTICATED, TWO_COOKIES)
        if values:
            return values.pop()
    return None


def _parse_cookies(header: str | None) -> Sequence[tuple[str, str]]:
    """Return the names and values of the header ``Cookie``."""
    parts = (part.strip().partition("=") for part in (header or "").split(";"))
    return [(name, value) for name, _, value in parts]


def _secure_name(port: str) -> str:
    return f"{_HOST_PREFIX}{_NAME}_{port}" if port else f"{_HOST_PREFIX}{_NAME}"


def _plain_name(port: str) -> str:
    return f"{_NAME}_{port or _HTTP_PORT}"


def _split_query(context: RequestContext) -> tuple[str, str | None]:
    """Return the query without the ticket, and the ticket of a GET."""
    query, mark, ticket = context.query_string.rpartition(TICKET)
    if context.verb != "GET" or not mark or (query and not query.endswith("&")):
        return context.query_string, None
    return query.removesuffix("&"), ticket
