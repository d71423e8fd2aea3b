"""What proves that a call with the cookie of a sign-in comes from the console's own page.

A browser sends a cookie with each request to this host, whichever page caused it, and also to
servers on other ports: a job's program could listen there.  So the page sends a header too, a
second secret, which only the answer to the sign-in has and which browsers give to pages of this
origin alone.  A download is a link, which can send no header; its address has a ticket instead,
which is valid for a minute, for one sign-in and one address.
"""

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth.access import digest_of

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
OTHER_HEADER: Final = (
    "The sign-in has ended: the header X-Trainshed-Csrf does not belong to the cookie. Sign in "
    "again at /console/signin."
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
    csrf: str | None = field(default=None, repr=False)
    """The value of the header ``X-Trainshed-Csrf``; None: it was not sent."""
    target: str = ""
    """The path of the call, and its query without the ticket."""
    ticket: str | None = None
    """The ticket of a GET; None: there is none."""
    is_proved: bool = False
    """Whether the header or the ticket was checked before, at the beginning of a stream."""


def make_ticket(page_digest: str, target: str, now_s: float) -> str:
    """Return the address of a download with a ticket.

    ``page_digest`` is the digest of the header's value, as the store has it.  ``target`` is a path
    below ``/trainshed/v1/`` with its query.  Raises Refusal for another one.
    """
    check_target(target)
    until_s = int(now_s) + TICKET_S
    joint = "&" if "?" in target else "?"
    return f"{target}{joint}{TICKET}{until_s}.{_sign(page_digest, target, until_s)}"


def check_target(target: str) -> None:
    """Raise Refusal for an address that is not one of the native API."""
    is_ours = len(target) <= TARGET_LENGTH_MAX and _TARGET.fullmatch(target)
    if not is_ours or "/../" in unquote(target):
        raise Refusal(
            Code.INVALID_ARGUMENT,
            f"path must be a percent-encoded path below {NATIVE_PREFIX} with its query, got "
            f"{target[:100]!r}",
        )


def check_proof(proof: BrowserProof, page_digest: str, now_s: float) -> None:
    """Raise Refusal unless the header or the ticket belongs to the sign-in with this digest."""
    if proof.is_proved:
        return
    if proof.ticket is not None:
        if not _is_valid_ticket(proof.target, proof.ticket, page_digest, now_s):
            raise Refusal(Code.PERMISSION_DENIED, LATE_TICKET)
    elif not proof.csrf:
        raise Refusal(Code.PERMISSION_DENIED, NO_HEADER)
    elif not hmac.compare_digest(digest_of(proof.csrf), page_digest):
        raise Refusal(Code.UNAUTHENTICATED, OTHER_HEADER)


def _is_valid_ticket(target: str, ticket: str, page_digest: str, now_s: float) -> bool:
    until, _, signature = ticket.partition(".")
    if not re.fullmatch(r"[0-9]{1,12}", until):
        return False
    is_in_time = now_s < int(until) <= now_s + TICKET_S
    expected = _sign(page_digest, target, int(until))
    return is_in_time and hmac.compare_digest(
        signature.encode(errors="surrogateescape"), expected.encode()
    )


def _sign(page_digest: str, target: str, until_s: int) -> str:
    # browsers write some characters in another way: compare addresses without their encoding
    text = f"{until_s}\n{unquote(target, errors='surrogateescape')}"
    message = text.encode(errors="surrogateescape")
    signature = hmac.digest(page_digest.encode(), message, hashlib.sha256)
    return base64.urlsafe_b64encode(signature).decode().rstrip("=")
