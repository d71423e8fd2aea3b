"""Signs browsers in: a token or a code becomes a cookie, and a cookie identifies a caller.

A page's script must not have a token: whatever injects a script could read it.  A browser gets two
secrets, a cookie that no script can read and a header that no other origin can read, and needs both
for a call; the store has only their digests.  Each call reads the sign-in and its token from the
store, so a revoked token ends its sign-ins at once, on all servers.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from trainshed.model.access import Caller
from trainshed.model.bounded import BoundedDict
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth.access import (
    EXPIRED,
    UNKNOWN,
    Access,
    caller_with,
    digest_of,
    looks_signed,
)
from trainshed.service.auth.browser_proofs import BrowserProof, check_proof, make_ticket
from trainshed.store.opening import Store
from trainshed.store.records.access import SignIn, SignInCode, Token

LIFE: Final = timedelta(hours=12)
#: How long a sign-in may be unused.
IDLE: Final = timedelta(hours=2)
CODE_LIFE: Final = timedelta(seconds=60)
#: The most browsers that are signed in with one token; the oldest sign-in ends first.
LIVE_MAX: Final = 100
#: The most unused codes of one token.
CODES_MAX: Final = 20
#: The most sign-ins whose use waits to be stored.
USED_MAX: Final = 10_000
#: Random bytes of the cookie, and of the header.
SECRET_BYTES: Final = 32
CODE_BYTES: Final = 24

ENDED: Final = (
    "The sign-in has ended: it lasts 12 hours, or 2 hours without use, and ends with its token and "
    "by signing out. Sign in again at /console/signin."
)
USED_CODE: Final = (
    "The code is not valid: it works once, within 60 seconds. Run trainshed console again, or "
    "sign in with a token."
)
NO_CODE: Final = (
    "Only a token of this server makes a code; tokens that a service account signs, and calls "
    "without a token, do not. trainshed tokens create makes a token."
)
SIGNED: Final = (
    "A token that a service account signed cannot sign a browser in; use a token of this server: "
    "trainshed tokens create makes one"
)
OF_BUCKETS: Final = "This token is for buckets and their objects only; use another token"


class CountSignIn(Protocol):
    """Counts browsers that signed in or were refused; callable from any thread."""

    def __call__(self, *, is_refused: bool) -> None:
        """Count one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSignIn:
    """A browser's sign-in.  ``until`` is the time of its end, if it is used until then."""

    cookie: str = field(repr=False)
    csrf: str | None = field(repr=False)
    """The value of the header; None if the call had a ticket instead."""
    caller: Caller
    until: datetime


class SignIns:
    """The sign-ins of browsers.  Thread-safe.  ``clock`` gives seconds since the epoch."""

    def __init__(
        self,
        store: Store,
        access: Access,
        clock: Callable[[], float],
        count: CountSignIn | None = None,
    ) -> None:
        """``count`` is called for each browser that signed in or was refused."""
        self._store = store
        self._count = count
        self._access = access
        self._clock = clock
        self._used = BoundedDict[str, datetime](USED_MAX)

    def begin_with_token(self, token: str, address: str) -> BrowserSignIn:
        """Sign a browser in with a token.  Raises Refusal."""
        with self._counted():
            return self._begin(self._caller_with_token(token.strip(), address), address)

    def begin_with_code(self, code: str, address: str) -> BrowserSignIn:
        """Sign a browser in with a code, which is then used up.  Raises Refusal."""
        with self._counted():
            return self._begin(self._caller_with_code(code.strip(), address), address)

    def make_code(self, caller: Caller) -> tuple[str, datetime]:
        """Return a new code of the caller's token, and when it ends.  Raises Refusal."""
        if self._store.token_by_id(caller.credential) is None:
            raise Refusal(Code.FAILED_PRECONDITION, NO_CODE)
        code, now = secrets.token_urlsafe(CODE_BYTES), self._now()
        entry = SignInCode(digest=digest_of(code), credential=caller.credential, create_time=now)
        self._store.add_sign_in_code(entry, most=CODES_MAX)
        return code, now + CODE_LIFE

    def recognise(self, proof: BrowserProof) -> Caller:
        """Return the caller of a browser's call.  Raises Refusal without a valid proof."""
        return self.current(proof).caller

    def current(self, proof: BrowserProof) -> BrowserSignIn:
        """Return the sign-in of a browser's call, and note its use.

        Raises Refusal if the sign-in has ended or the call has no valid proof.
        """
        digest, now = digest_of(proof.cookie), self._now()
        row = self._store.sign_in(digest)
        if row is None or not self._is_live(row[0], now):
            raise Refusal(Code.UNAUTHENTICATED, ENDED)
        sign_in, token = row
        check_proof(proof, sign_in.page_digest, self._clock())
        caller = self._check(token)
        self._used[digest] = now
        self._access.note_token(caller.credential)
        until = _compute_end(sign_in.create_time, caller)
        return BrowserSignIn(cookie=proof.cookie, csrf=proof.csrf, caller=caller, until=until)

    def make_ticket(self, proof: BrowserProof, target: str) -> str:
        """Return the address of a download with a ticket for a browser.  Raises Refusal."""
        return make_ticket(digest_of(proof.csrf or ""), target, self._clock())

    def end(self, cookie: str) -> None:
        """End a sign-in, if it has not ended."""
        self._store.remove_sign_in(digest_of(cookie))

    def end_everywhere(self, caller: Caller) -> None:
        """End all sign-ins with the caller's token."""
        self._store.remove_sign_ins(caller.credential)

    def tidy(self) -> None:
        """Store when sign-ins were last used, and delete ended ones; called at intervals."""
        times = self._used.copy()
        self._store.note_sign_in_use(times)
        for digest, time in times.items():
            if self._used.get(digest) == time:
                self._used.pop(digest, None)
        now = self._now()
        self._store.forget_sign_ins(begun_before=now - LIFE, used_before=now - IDLE)
        self._store.forget_sign_in_codes(now - CODE_LIFE)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        try:
            yield
        except Refusal:
            if self._count is not None:
                self._count(is_refused=True)
            raise
        if self._count is not None:
            self._count(is_refused=False)

    def _caller_with_token(self, text: str, address: str) -> Caller:
        if looks_signed(text):
            raise Refusal(Code.INVALID_ARGUMENT, SIGNED)
        caller = self._access.caller(f"Bearer {text}", loopback=False, address=address)
        if caller.bucket is not None:
            raise Refusal(Code.PERMISSION_DENIED, OF_BUCKETS)
        return caller

    def _caller_with_code(self, code: str, address: str) -> Caller:
        entry = self._store.take_sign_in_code(digest_of(code))
        if entry is None or not _is_current(entry.create_time, CODE_LIFE, self._now()):
            self._access.count_failure(address)
            raise Refusal(Code.UNAUTHENTICATED, USED_CODE)
        return self._check(self._store.token_by_id(entry.credential))

    def _begin(self, caller: Caller, address: str) -> BrowserSignIn:
        cookie, csrf = (secrets.token_urlsafe(SECRET_BYTES) for _ in range(2))
        now = self._now()
        sign_in = SignIn(
            digest=digest_of(cookie),
            page_digest=digest_of(csrf),
            credential=caller.credential,
            address=address,
            create_time=now,
            last_use_time=now,
        )
        self._store.add_sign_in(sign_in, most=LIVE_MAX)
        return BrowserSignIn(
            cookie=cookie, csrf=csrf, caller=caller, until=_compute_end(now, caller)
        )

    def _is_live(self, sign_in: SignIn, now: datetime) -> bool:
        noted = self._used.get(sign_in.digest)
        used = max(sign_in.last_use_time, noted) if noted else sign_in.last_use_time
        return _is_current(sign_in.create_time, LIFE, now) and _is_current(used, IDLE, now)

    def _check(self, token: Token | None) -> Caller:
        """Return the caller of a token.  Raises Refusal if it was revoked or has expired."""
        if token is None or token.revoked:
            raise Refusal(Code.UNAUTHENTICATED, UNKNOWN)
        caller = caller_with(token)
        if caller.ends_at_s is not None and not self._clock() < caller.ends_at_s:
            raise Refusal(Code.UNAUTHENTICATED, EXPIRED)
        return caller

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


def _is_current(begun: datetime, span: timedelta, now: datetime) -> bool:
    """Whether less than ``span`` has passed; False also if the clock was set back by as much."""
    return abs(now - begun) < span


def _compute_end(begun: datetime, caller: Caller) -> datetime:
    end = begun + LIFE
    if caller.ends_at_s is None:
        return end
    return min(end, datetime.fromtimestamp(caller.ends_at_s, UTC))
