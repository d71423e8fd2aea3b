"""Who calls: bearer tokens of our own, tokens that a service account signed, or nobody.

Google's clients send one header and never log in, so everything is decided from it alone.  What a
recognised caller may do is ``Caller.may``.

A token is looked up by its SHA-256, so neither the store nor the time of a look-up says anything
about tokens that exist.  Answers are remembered for ``REMEMBERED_S`` only: a token that is revoked
on one server is worthless on all of them after that time.
"""

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from trainshed.model.access import ALL_PROJECTS, AccessRole, Caller
from trainshed.model.refusals import Code, Refusal
from trainshed.store.opening import Store
from trainshed.store.records import SigningKey

#: How long a token that was revoked elsewhere may still be accepted, in seconds.
REMEMBERED_S = 2.0
#: More callers than this are not remembered at once.
REMEMBERED_MAX = 4096

ANONYMOUS = Caller(name="anonymous", project=ALL_PROJECTS, role=AccessRole.SUBMITTER)

#: Answered with 403: Google's clients hide the message of a 401 from callers without credentials.
NOBODY = (
    "The call carries no credentials. Run `trainshed env` where the server runs: it prints the "
    "settings that point gcloud and the SDKs here, with a token."
)
#: The same for tokens that never were and tokens that were revoked.
UNKNOWN = (
    "The token is not known here. It may have been revoked; `trainshed tokens create` makes "
    "another one."
)
NOT_BEARER = "Only `Authorization: Bearer TOKEN` is understood here."


_Value = TypeVar("_Value")


def digest_of(token: str) -> str:
    """What the store keeps of a token."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


class Access:
    """Recognises callers.  Thread-safe.  ``clock`` gives seconds since the epoch."""

    def __init__(self, store: Store, *, anonymous: bool, clock: Callable[[], float]) -> None:
        """Begin with nobody remembered.  ``anonymous`` admits callers without credentials."""
        self._store = store
        self._anonymous = anonymous
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: dict[str, tuple[float, Caller]] = {}
        self._keys: dict[str, tuple[float, Sequence[SigningKey]]] = {}

    def caller(self, authorization: str | None, *, loopback: bool) -> Caller:
        """Who sent this Authorization header; ``loopback`` says whether from this machine.

        Raises Refusal.  A bad token is refused also where nobody needs one: a client that sends
        one means to be somebody.
        """
        if not authorization or not authorization.strip():
            if self._anonymous and loopback:
                return ANONYMOUS
            raise Refusal(Code.PERMISSION_DENIED, NOBODY)
        scheme, _, text = authorization.strip().partition(" ")
        if scheme.lower() != "bearer":
            raise Refusal(Code.UNAUTHENTICATED, NOT_BEARER)
        return self._signer(text.strip())[0] if looks_signed(text) else self._holder(text.strip())

    def exchange(self, assertion: str) -> dict[str, Any]:
        """The answer to a JWT grant, ``POST /token`` (contracts/vertex-sdk.md 2.4).

        The assertion itself is the token that is handed out: there is nothing to keep, and it
        ends when it would have ended.  Raises Refusal.
        """
        if not looks_signed(assertion):
            raise Refusal(Code.UNAUTHENTICATED, "The assertion is no signed token.")
        _, ends_at_s = self._signer(assertion.strip())
        return {
            "access_token": assertion.strip(),
            "expires_in": max(0, int(ends_at_s - self._clock())),
            "token_type": "Bearer",
        }

    def _holder(self, text: str) -> Caller:
        digest = digest_of(text)
        now = self._clock()
        known = _fresh(self._tokens.get(digest), now)
        if known is not None:
            return known
        token = self._store.token(digest)
        if token is None or token.revoked:
            with self._lock:
                self._tokens.pop(digest, None)
            raise Refusal(Code.UNAUTHENTICATED, UNKNOWN)
        caller = Caller(name=token.name, project=token.project, role=token.role)
        self._remember(self._tokens, digest, caller, now)
        return caller

    def _signer(self, text: str) -> tuple[Caller, float]:
        # few callers sign their own tokens, and PyJWT is a twentieth of the server's start
        from trainshed.service.auth.signed_tokens import verified  # noqa: PLC0415

        signed = verified(text, self._keys_of, now_s=self._clock())
        key = signed.key
        role = min(key.role, AccessRole.VIEWER) if signed.read_only else key.role
        return Caller(name=key.email, project=key.project, role=role), signed.ends_at_s

    def _keys_of(self, email: str) -> Sequence[SigningKey]:
        now = self._clock()
        known = _fresh(self._keys.get(email), now)
        if known is not None:
            return known
        keys = self._store.keys(email)
        if keys:  # strangers are not worth the memory
            self._remember(self._keys, email, keys, now)
        return keys

    def _remember(
        self, memory: dict[str, tuple[float, _Value]], name: str, value: _Value, now: float
    ) -> None:
        with self._lock:
            if len(memory) >= REMEMBERED_MAX:
                memory.clear()
            memory[name] = (now + REMEMBERED_S, value)


def looks_signed(text: str) -> bool:
    """Whether a bearer token is a JWT; ours have no dots."""
    return text.count(".") == 2  # noqa: PLR2004  # header.claims.signature


def _fresh(found: tuple[float, _Value] | None, now: float) -> _Value | None:
    """What is remembered, unless its time is over or the clock was set back since."""
    if found is None or not now < found[0] <= now + REMEMBERED_S:
        return None
    return found[1]
