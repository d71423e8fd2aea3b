"""Who calls the gateway: an attempt that lives, by its connection and by its token.

Whoever calls is a process of an attempt, or is refused: the listener has found that out from the
connection.  Google's hosts want the attempt's token besides, for what changes something: data that
is public at Google is read without one, by ``urllib`` and ``keras.utils.get_file``.  At the address
that STORAGE_EMULATOR_HOST names, clients that were made without ``credentials`` send none
(docs/sources/vertex.md 2.4), and the connection is enough: whoever has it may have a token for the
asking.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from starlette.types import Scope

from trainshed.api.connections import CONNECTION
from trainshed.api.gateway.accepting import AWAY, NOT_NOW, STRANGER, authority_of
from trainshed.api.grants import Exchange
from trainshed.api.threads import THREADS
from trainshed.model.access import Caller
from trainshed.model.attempt import AttemptKey
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth.signed_addresses import SIGNATURE, SignedAddress
from trainshed.service.gateway.attempts import FindAttempt, LivingAttempt
from trainshed.service.gateway.places import METADATA_HOSTS
from trainshed.service.gateway.tokens import PREFIX, AttemptTokens

OVER: Final = "The token's attempt has ended, or it was given to another one"
EXPIRED: Final = "The token has expired: the metadata server gives another one"
NO_TOKEN: Final = "Anonymous caller: the request carries no token"  # noqa: S105  # none

#: A public address of Google's is read without a token; whoever has the connection may have one.
_READING: Final = frozenset({"GET", "HEAD"})

OfAddress = Callable[[SignedAddress], Caller]
#: Finds the caller of an Authorization header, given that and who has shown it.
Recognise = Callable[[str, str], Caller]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Who calls, by the connection and the token."""

    tokens: AttemptTokens
    find: FindAttempt
    is_remembered: Callable[[AttemptKey], bool] = lambda _: False
    """Whether ``find`` answers without waiting."""
    recognise: Recognise | None = None
    """Who sent an Authorization header that is not an attempt's; None: nobody else is known."""
    of_address: OfAddress | None = None
    """Who signed the address of a request, where keys are known."""
    exchange: Exchange | None = None
    """Turns a signed assertion into a token, where keys are known."""
    clock: Callable[[], float] = time.time

    async def admit(self, scope: Scope) -> Caller:
        """Who calls storage, in a thread where that may take time.  Raises a Refusal."""
        held = _find_peer(scope)
        is_known = isinstance(held, LivingAttempt) and self.is_remembered(held.key)
        if is_known and (self.recognise is None or _is_ours(scope)):
            return self.caller(scope)
        return await THREADS.run(self.caller, scope)

    def peer(self, scope: Scope) -> LivingAttempt:
        """The attempt at the other end.  Raises a Refusal."""
        peer = _find_peer(scope)
        if peer is NOT_NOW:
            raise Refusal(Code.UNAVAILABLE, AWAY)
        if not isinstance(peer, LivingAttempt) or self.find(peer.key) is None:
            raise Refusal(Code.PERMISSION_DENIED, STRANGER)
        return peer

    def caller(self, scope: Scope) -> Caller:
        """Who calls storage.  Raises a Refusal."""
        peer = self.peer(scope)
        credentials = _list_credentials(scope)
        if not credentials and _is_signed(scope) and self.of_address is not None:
            return self.of_address(_address_of(scope))
        if not credentials and (is_emulator(scope) or _reads(scope)):
            return peer.caller()
        if len(credentials) != 1:
            raise Refusal(Code.UNAUTHENTICATED, NO_TOKEN)
        return self._holder(credentials[0].decode("latin-1"), peer)

    def _holder(self, authorization: str, peer: LivingAttempt) -> Caller:
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
    """Who has the connection, as its listener has found out."""
    held = scope.get("state", {}).get(CONNECTION)
    return held.peer if held is not None else None


def _list_credentials(scope: Scope) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == b"authorization"]


def _is_ours(scope: Scope) -> bool:
    """Whether what is shown is the token of an attempt, or nothing: nobody else is asked then."""
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


def _reads(scope: Scope) -> bool:
    """Whether it is as data is read that is public at Google."""
    return scope["method"] in _READING and not _is_signed(scope)


def is_emulator(scope: Scope) -> bool:
    """Whether a request came by STORAGE_EMULATOR_HOST: in the clear, and for our own address."""
    return scope["scheme"] == "http" and authority_of(scope) not in METADATA_HOSTS
