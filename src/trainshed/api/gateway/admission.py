"""Identifies the attempt that calls the gateway, by its connection and by its token.

The listener has identified the attempt from the connection; any other caller is refused.  Changes
at Google's hosts also need the attempt's token.  Reads do not, because ``urllib`` and
``keras.utils.get_file`` read Google's public data without a token.  At the address in
STORAGE_EMULATOR_HOST, clients made without ``credentials`` send no token (docs/sources/vertex.md
2.4), and the connection is enough: its process could get a token from the metadata server anyway.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from starlette.types import Scope

from trainshed.api.connections import CONNECTION
from trainshed.api.gateway.accepting import AWAY, STRANGER, UNIDENTIFIED, authority_of
from trainshed.api.grants import Exchange
from trainshed.api.threads import THREADS
from trainshed.model.access import Caller
from trainshed.model.attempt import AttemptKey
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth.signed_addresses import SIGNATURE, SignedAddress
from trainshed.service.gateway.attempts import FindAttempt, LivingAttempt
from trainshed.service.gateway.places import METADATA_HOSTS
from trainshed.service.gateway.tokens import PREFIX, AttemptTokens

OVER: Final = "The token's attempt has ended, or the token belongs to another attempt"
EXPIRED: Final = "The token has expired: get another one from the metadata server"
NO_TOKEN: Final = "Anonymous caller: the request carries no token"  # noqa: S105  # none

#: The verbs of requests that are allowed without a token: reads of public data, as at Google.
_READING: Final = frozenset({"GET", "HEAD"})

OfAddress = Callable[[SignedAddress], Caller]
#: Identifies the caller of an Authorization header, given the header and the attempt.
Recognise = Callable[[str, str], Caller]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Identifies callers by the connection and the token."""

    tokens: AttemptTokens
    find: FindAttempt
    is_remembered: Callable[[AttemptKey], bool] = lambda _: False
    """Returns whether ``find`` answers without waiting."""
    recognise: Recognise | None = None
    """Identifies the sender of any other Authorization header; None: such headers are refused."""
    of_address: OfAddress | None = None
    """Identifies the signer of a request's address, where keys are registered."""
    exchange: Exchange | None = None
    """Turns a signed assertion into a token, where keys are registered."""
    clock: Callable[[], float] = time.time

    async def admit(self, scope: Scope) -> Caller:
        """Return the caller of a storage request; look it up in a thread if that may block."""
        peer = _find_peer(scope)
        is_known = isinstance(peer, LivingAttempt) and self.is_remembered(peer.key)
        if is_known and (self.recognise is None or _has_attempt_token(scope)):
            return self.caller(scope)
        return await THREADS.run(self.caller, scope)

    def peer(self, scope: Scope) -> LivingAttempt:
        """Return the attempt whose process sent a request.  Raises a Refusal."""
        peer = _find_peer(scope)
        if peer is UNIDENTIFIED:
            raise Refusal(Code.UNAVAILABLE, AWAY)
        if not isinstance(peer, LivingAttempt) or self.find(peer.key) is None:
            raise Refusal(Code.PERMISSION_DENIED, STRANGER)
        return peer

    def caller(self, scope: Scope) -> Caller:
        """Return the caller of a storage request.  Raises a Refusal."""
        peer = self.peer(scope)
        credentials = _list_credentials(scope)
        if not credentials and _is_signed(scope) and self.of_address is not None:
            return self.of_address(_address_of(scope))
        if not credentials and (is_emulator(scope) or _may_be_public(scope)):
            return peer.caller()
        if len(credentials) != 1:
            raise Refusal(Code.UNAUTHENTICATED, NO_TOKEN)
        return self._caller_of_token(credentials[0].decode("latin-1"), peer)

    def _caller_of_token(self, authorization: str, peer: LivingAttempt) -> Caller:
        text = authorization.partition(" ")[2].strip()
        grant = self.tokens.read(text)
        if grant is None:
            if self.recognise is None:
                raise Refusal(Code.UNAUTHENTICATED, "The token is not known here")
            return self.recognise(authorization, f"attempt {peer.key}")
        if grant.key != peer.key:
            raise Refusal(Code.UNAUTHENTICATED, OVER)
        if grant.ends_at_s <= self.clock():
            raise Refusal(Code.UNAUTHENTICATED, EXPIRED)
        return peer.caller(float(grant.ends_at_s))


def _find_peer(scope: Scope) -> object:
    """Return the process behind the connection, as its listener identified it."""
    connection = scope.get("state", {}).get(CONNECTION)
    return connection.peer if connection is not None else None


def _list_credentials(scope: Scope) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == b"authorization"]


def _has_attempt_token(scope: Scope) -> bool:
    """Return whether only attempts' tokens are given, or none; others need ``recognise``."""
    return not _is_signed(scope) and all(
        PREFIX.encode() in header for header in _list_credentials(scope)
    )


def _is_signed(scope: Scope) -> bool:
    return f"{SIGNATURE}=".encode() in scope["query_string"]


def _address_of(scope: Scope) -> SignedAddress:
    return SignedAddress(
        verb=scope["method"],
        path=scope["raw_path"].decode("latin-1"),
        query=dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)),
        headers={name.decode("latin-1"): value.decode("latin-1")
                 for name, value in scope["headers"]},
    )  # fmt: skip


def _may_be_public(scope: Scope) -> bool:
    """Return whether a request may be a read of public data: a read without a signature."""
    return scope["method"] in _READING and not _is_signed(scope)


def is_emulator(scope: Scope) -> bool:
    """Return whether a request came by STORAGE_EMULATOR_HOST: plain HTTP to our own address."""
    return scope["scheme"] == "http" and authority_of(scope) not in METADATA_HOSTS
