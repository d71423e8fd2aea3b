"""What proves that a call with the cookie of a sign-in comes from the console's own page.

A browser sends a cookie with each request to this server, whichever page caused it.  So the page
sends a header too, which is computed from the cookie's value: a page of another origin can
neither read the value nor send the header.  A download is a link, which can send no header; its
address has a ticket instead, which is valid for a minute, for one sign-in and one address.
"""

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from trainshed.model.refusals import Code, Refusal

#: Seconds for which a download may begin.
TICKET_S: Final = 60
#: The parameter of an address that has the ticket; it is the last one.
TICKET: Final = "ticket="
#: The addresses for which there are tickets.
NATIVE_PREFIX: Final = "/trainshed/v1/"
TARGET_LENGTH_MAX: Final = 4096
_TARGET: Final = re.compile(r"/trainshed/v1/[A-Za-z0-9._~!$&()*+,;=:@/?%-]+")

NO_HEADER: Final = (
    "The call came with the cookie of a sign-in, but without the header X-Trainshed-Csrf that the "
    "console's page sends; reload the page. Programs send a token instead: Authorization: Bearer "
    "TOKEN."
)
LATE_TICKET: Final = (
    "The link of this download is for another address, for another sign-in, or older than "
    f"{TICKET_S} s; start the download again on the page"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserProof:
    """What a browser sent to prove its sign-in."""

    cookie: str = field(repr=False)
    """The value of the cookie."""
    csrf: str | None = None
    """The value of the header ``X-Trainshed-Csrf``; None: it was not sent."""
    target: str = ""
    """The path of the call, and its query without the ticket."""
    ticket: str | None = None
    """The ticket of a GET; None: there is none."""
    is_proved: bool = False
    """Whether the call needs no further proof: it was checked before, or tells the header."""


def csrf_of(cookie: str) -> str:
    """Return the value of the header that proves a call with this cookie."""
    return _mac(cookie, "header")


def make_ticket(cookie: str, target: str, now_s: float) -> str:
    """Return the address of a download with a ticket.

    ``target`` is a path below ``/trainshed/v1/`` with its query.  Raises Refusal for another one.
    """
    check_target(target)
    until_s = int(now_s) + TICKET_S
    joint = "&" if "?" in target else "?"
    return f"{target}{joint}{TICKET}{until_s}.{_mac(cookie, _ticket_text(target, until_s))}"


def check_target(target: str) -> None:
    """Raise Refusal for an address that is not one of the native API."""
    is_ours = len(target) <= TARGET_LENGTH_MAX and _TARGET.fullmatch(target)
    if not is_ours or "/../" in unquote(target):
        raise Refusal(
            Code.INVALID_ARGUMENT,
            f"path must be a percent-encoded path below {NATIVE_PREFIX} with its query, got "
            f"{target[:100]!r}",
        )


def check_proof(proof: BrowserProof, now_s: float) -> None:
    """Raise Refusal unless the header or the ticket belongs to the cookie."""
    if proof.is_proved:
        return
    if proof.ticket is not None:
        if not _is_valid_ticket(proof, proof.ticket, now_s):
            raise Refusal(Code.PERMISSION_DENIED, LATE_TICKET)
    elif not _equal(proof.csrf or "", csrf_of(proof.cookie)):
        raise Refusal(Code.PERMISSION_DENIED, NO_HEADER)


def _is_valid_ticket(proof: BrowserProof, ticket: str, now_s: float) -> bool:
    until, _, mac = ticket.partition(".")
    if not re.fullmatch(r"[0-9]{1,12}", until):
        return False
    is_in_time = now_s < int(until) <= now_s + TICKET_S
    return is_in_time and _equal(mac, _mac(proof.cookie, _ticket_text(proof.target, int(until))))


def _ticket_text(target: str, until_s: int) -> str:
    # browsers write some characters in another way: compare addresses without their encoding
    return f"ticket\n{until_s}\n{unquote(target, errors='surrogateescape')}"


def _mac(cookie: str, text: str) -> str:
    key, message = (part.encode(errors="surrogateescape") for part in (cookie, text))
    digest = hmac.digest(key, message, hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="surrogateescape"), expected.encode())
