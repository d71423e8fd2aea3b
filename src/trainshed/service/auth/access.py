"""Authenticates callers by tokens of this server and by tokens that service accounts signed.

Google's clients never log in, so the server identifies a caller by the Authorization header alone.
``Caller.may`` decides what an authenticated caller may do.

A token is looked up by its SHA-256, so neither the store nor the time of a look-up says anything
about tokens that exist.  The cache keeps a caller for ``REMEMBERED_S`` only.  The server that
revokes a token also clears its cache; other servers of the database accept the token until then.
"""

import hashlib
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from trainshed.model.access import ALL_PROJECTS, AccessRole, Caller
from trainshed.model.bounded import BoundedDict
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth.signed_addresses import SignedAddress, signer_of
from trainshed.service.auth.throttle import Throttle
from trainshed.store.opening import Store
from trainshed.store.records.access import SigningKey, Token

#: How long a token that another server revoked may still be accepted, in seconds.
REMEMBERED_S = 0.25
#: Seconds after which clients request an access token again; the same as Google's.
GRANTED_S = 3600
#: The most callers in the cache.
REMEMBERED_MAX = 4096

ANONYMOUS = Caller(
    name="anonymous", project=ALL_PROJECTS, role=AccessRole.SUBMITTER, credential="anonymous"
)

#: The message of a 403: without credentials, Google's clients hide the message of a 401.
NOBODY = (
    "The call carries no credentials. Run `trainshed env` where the server runs: it prints the "
    "settings that point gcloud and the SDKs to this server, with a token."
)
#: The same message for tokens that never existed and for revoked tokens.
UNKNOWN = (
    "This server does not know the token. It may have been revoked; `trainshed tokens create` "
    "makes another one."
)
EXPIRED = "The token has expired; `trainshed tokens create` makes another one."
BUCKET_EXPIRED = (
    "The token in the storage address has expired. Run `trainshed env` again, or "
    "`trainshed buckets token`: both print an address with a new one."
)
NOT_BEARER = "The Authorization header must be `Bearer TOKEN`."


_Value = TypeVar("_Value")


def digest_of(token: str) -> str:
    """Return the SHA-256 of a token in hexadecimal, which the store keeps instead of the token."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


class Access:
    """Authenticates callers.  Thread-safe.  ``clock`` gives seconds since the epoch."""

    def __init__(
        self,
        store: Store,
        *,
        anonymous: bool,
        clock: Callable[[], float],
        failures_a_minute: int = 0,
    ) -> None:
        """``anonymous`` admits callers without credentials.

        ``failures_a_minute`` limits failed sign-ins of an address (``throttle``).
        """
        self._store = store
        self._anonymous = anonymous
        self._clock = clock
        self._throttle = Throttle(failures_a_minute, clock)
        self._lock = threading.Lock()
        self._tokens = BoundedDict[str, tuple[float, Caller]](REMEMBERED_MAX)
        self._keys = BoundedDict[str, tuple[float, Sequence[SigningKey]]](REMEMBERED_MAX)
        self._used: dict[str, float] = {}
        self._revocations = 0

    def caller(self, authorization: str | None, *, loopback: bool, address: str = "") -> Caller:
        """Return the caller of a request by its Authorization header.

        ``loopback``: the request comes from this machine.  Raises Refusal, for an
        invalid token even if callers without credentials are admitted.
        """
        if not authorization or not authorization.strip():
            if self._anonymous and loopback:
                return ANONYMOUS
            raise Refusal(Code.PERMISSION_DENIED, NOBODY)
        scheme, _, text = authorization.strip().partition(" ")
        try:
            return self._authenticate(scheme, text.strip())
        except Refusal as refusal:
            if refusal.code is Code.UNAUTHENTICATED:
                self._throttle.count(address, text.strip())
            raise

    def count_failure(self, address: str) -> None:
        """Count a failed sign-in of a browser.  Raises Throttled after too many."""
        self._throttle.count(address, "")

    def note_token(self, token_id: str) -> None:
        """Note that a browser that is signed in with a token was used."""
        self._used[token_id] = self._clock()

    def forget(self) -> None:
        """Drop the remembered callers, because a token or a key was just revoked."""
        with self._lock:
            self._revocations += 1
            self._tokens.clear()
            self._keys.clear()

    def note_use(self) -> None:
        """Store when tokens were last used; called at intervals, not by requests."""
        with self._lock:
            used, self._used = self._used, {}
        times = used.copy()  # a call that is under way may still add to it
        self._store.note_use({name: datetime.fromtimestamp(at, UTC) for name, at in times.items()})

    def _authenticate(self, scheme: str, text: str) -> Caller:
        if scheme.lower() != "bearer":
            raise Refusal(Code.UNAUTHENTICATED, NOT_BEARER)
        return self._signer(text)[0] if looks_signed(text) else self._holder(text)

    def exchange(self, assertion: str, address: str = "") -> dict[str, Any]:
        """Return the response to a grant, ``POST /token`` (docs/sources/vertex.md 2.4).

        The access token is the assertion itself, or the token to be refreshed, with the same
        expiry.  Raises Refusal.
        """
        text = assertion.strip()
        try:
            ends_at_s = self._end_of(text)
        except Refusal:
            self._throttle.count(address, "")
            raise
        left_s = GRANTED_S if ends_at_s is None else int(ends_at_s - self._clock())
        return {
            "access_token": text,
            "expires_in": max(0, min(left_s, GRANTED_S)),
            "token_type": "Bearer",
        }

    def _end_of(self, text: str) -> float | None:
        """Return when a token ends, in seconds since the epoch; None if never.  Raises Refusal."""
        return self._signer(text)[1] if looks_signed(text) else self._holder(text).ends_at_s

    def of_address(self, address: SignedAddress) -> Caller:
        """Return the caller that signed the address of a request.  Raises AddressRefused."""
        key = signer_of(address, self._keys_of, now_s=self._clock())
        return Caller(name=key.email, project=key.project, role=key.role, credential=key.key_id)

    def _holder(self, text: str) -> Caller:
        digest = digest_of(text)
        now = self._clock()
        caller = _fresh(self._tokens.get(digest), now) or self._look_up(digest, now)
        if caller.ends_at_s is not None and not now < caller.ends_at_s:
            raise Refusal(Code.UNAUTHENTICATED, BUCKET_EXPIRED if caller.bucket else EXPIRED)
        self._used[caller.credential] = now
        return caller

    def _look_up(self, digest: str, now: float) -> Caller:
        revocations = self._revocations
        token = self._store.token(digest)
        if token is None or token.revoked:
            with self._lock:
                self._tokens.pop(digest, None)
            raise Refusal(Code.UNAUTHENTICATED, UNKNOWN)
        caller = caller_with(token)
        self._remember(self._tokens, digest, caller, now, revocations)
        return caller

    def _signer(self, text: str) -> tuple[Caller, float]:
        # few callers sign their own tokens, and importing PyJWT takes 5 % of the server's start
        from trainshed.service.auth.signed_tokens import verified  # noqa: PLC0415

        signed = verified(text, self._keys_of, now_s=self._clock())
        key = signed.key
        role = min(key.role, AccessRole.VIEWER) if signed.read_only else key.role
        caller = Caller(name=key.email, project=key.project, role=role, credential=key.key_id)
        return caller, signed.ends_at_s

    def _keys_of(self, email: str) -> Sequence[SigningKey]:
        now = self._clock()
        cached_keys = _fresh(self._keys.get(email), now)
        if cached_keys is not None:
            return cached_keys
        revocations = self._revocations
        keys = self._store.keys(email)
        if keys:  # callers without a registered key are not remembered
            self._remember(self._keys, email, keys, now, revocations)
        return keys

    def _remember(
        self,
        memory: dict[str, tuple[float, _Value]],
        key: str,
        value: _Value,
        now: float,
        revocations: int,
    ) -> None:
        """Remember a value, unless a token or a key was revoked since it was read.

        ``revocations``: their count before the value was read.
        """
        with self._lock:
            if revocations != self._revocations:
                return
            memory[key] = (now + REMEMBERED_S, value)


def caller_with(token: Token) -> Caller:
    """Return the caller of a token."""
    return Caller(
        name=token.name,
        project=token.project,
        role=token.role,
        bucket=token.bucket,
        credential=token.token_id,
        ends_at_s=token.expire_time.timestamp() if token.expire_time else None,
    )


def looks_signed(text: str) -> bool:
    """Whether a bearer token is a JWT; tokens of this server have no dots."""
    return text.count(".") == 2  # noqa: PLR2004  # header.claims.signature


def _fresh(entry: tuple[float, _Value] | None, now: float) -> _Value | None:
    """Return the remembered value, unless it is expired or the clock was set back."""
    if entry is None or not now < entry[0] <= now + REMEMBERED_S:
        return None
    return entry[1]
