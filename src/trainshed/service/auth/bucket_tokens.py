"""Tokens for buckets: for storage clients that cannot send a header.

Such a client has its token in the path of every address (decision 0071).  Addresses appear in logs,
files and screens.  So a bucket token is valid for the storage API only, gives no administrator's
rights, and expires within hours, never later than the token or key that made it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from trainshed.model.access import ALL_BUCKETS, AccessRole, Caller
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth.tokens import invalid, life_of, new_token, refuse_unknown
from trainshed.storage.buckets import BUCKET_RULE, is_bucket_name
from trainshed.store.opening import Store
from trainshed.store.records.access import Token
from trainshed.wire.native_v1 import Answer, answer_of

LIFE: Final = timedelta(hours=1)
LIFE_MAX: Final = timedelta(hours=12)
#: The most unexpired tokens of one caller: each shell, notebook and script has one.
LIVE_MAX: Final = 1000
#: How long an expired token is stored, so that the server can answer that it has expired.
KEPT: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketToken(Answer):
    """A token for buckets; it expires no later than the token that made it."""

    id: str
    project: str
    bucket: str
    read_only: bool
    expire_time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeBucketToken(BucketToken):
    """A new token; only this response has its text."""

    token: str


_B = TypeVar("_B", bound=BucketToken)


def create(
    store: Store, caller: Caller, project: str, document: Mapping[str, Any]
) -> MadeBucketToken:
    """``POST /trainshed/v1/projects/{project}/bucketTokens``.

    ``document``: ``bucket``, which need not exist yet, or ``*`` for every bucket that the caller
    may use; ``readOnly``; ``expires`` (a duration, default 1h, at most 12h).  ``project`` is the
    id of a project of the caller.  A token for one bucket is for this project; a token for every
    bucket is for all projects of the caller.  Raises Refusal.
    """
    refuse_unknown(document, {"bucket", "readOnly", "expires"})
    bucket = _bucket(document.get("bucket"))
    most = AccessRole.VIEWER if document.get("readOnly") else AccessRole.SUBMITTER
    granted = caller.project if bucket == ALL_BUCKETS else project
    text, token = new_token(caller.name, granted, min(caller.role, most))
    ends = _end(caller, token.create_time, life_of(document.get("expires"), LIFE_MAX))
    token = replace(token, bucket=bucket, parent=caller.credential, expire_time=ends)
    if not store.add_bucket_token(token, most=LIVE_MAX):
        raise Refusal(
            Code.RESOURCE_EXHAUSTED,
            f"{caller.name} already has {LIVE_MAX} unexpired bucket tokens; renew one of them, or "
            "wait until one expires",
        )
    return _answer(MadeBucketToken, token, token=text)


def renew(store: Store, caller: Caller, token_id: str, document: Mapping[str, Any]) -> BucketToken:
    """``POST .../bucketTokens/{id}:renew``: extend a token; its text and its buckets stay the same.

    ``document``: ``expires``.  Raises Refusal if the caller has no such unexpired token.
    """
    refuse_unknown(document, {"expires"})
    now = datetime.now(UTC)
    ends = _end(caller, now, life_of(document.get("expires"), LIFE_MAX))
    token = store.extend_token(token_id, caller.credential, now, ends)
    if token is None:
        raise Refusal(
            Code.NOT_FOUND,
            f"{caller.name} has no unexpired bucket token {token_id!r}; "
            "`trainshed buckets token` makes another one",
        )
    return _answer(BucketToken, token)


def forget_ended(store: Store) -> int:
    """Delete tokens that expired long ago; return how many."""
    return store.forget_ended_tokens(datetime.now(UTC) - KEPT)


def _bucket(bucket: object) -> str:
    """Return the bucket of a request.  Raises Refusal for an invalid name."""
    if isinstance(bucket, str) and (bucket == ALL_BUCKETS or is_bucket_name(bucket)):
        return bucket
    raise invalid(
        f"bucket must be the name of a bucket, or {ALL_BUCKETS} for every bucket that the caller "
        f"may use, got {bucket!r}; a name has {BUCKET_RULE}"
    )


def _end(caller: Caller, now: datetime, life: timedelta | None) -> datetime:
    """Return when the token ends: never later than the token that makes it."""
    ends = now + (life or LIFE)
    if caller.ends_at_s is None:
        return ends
    return min(ends, datetime.fromtimestamp(caller.ends_at_s, UTC))


def _answer(kind: type[_B], token: Token, /, **fields: str) -> _B:
    if token.expire_time is None:
        raise AssertionError("every token for buckets ends")
    return answer_of(
        kind,
        token,
        id=token.token_id,
        read_only=token.role is AccessRole.VIEWER,
        expire_time=token.expire_time.isoformat(timespec="microseconds"),
        **fields,
    )
