"""Tokens for buckets: for storage clients that cannot send a header.

Such a client has its token in the path of every address (decision 0071).  Addresses are written
into logs, files and screens, so a token in an address opens the storage API and no other, never
as an administrator, ends within hours, and ends with the token or key that it was made with.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from trainshed.model.access import ALL_BUCKETS, AccessRole, Caller
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth.tokens import Json, invalid, life_of, new_token, refuse_unknown
from trainshed.storage.buckets import BUCKET_RULE, is_bucket_name
from trainshed.store.opening import Store
from trainshed.store.records.access import Token

LIFE: Final = timedelta(hours=1)
LIFE_MAX: Final = timedelta(hours=12)
#: Tokens of one holder that have not ended: a shell, a notebook and a script each have their own.
LIVE_MAX: Final = 1000
#: How long an expired token is kept, so that its caller reads that it has expired.
KEPT: Final = timedelta(days=1)


def create(store: Store, caller: Caller, project: str, document: Mapping[str, Any]) -> Json:
    """``POST /trainshed/v1/projects/{project}/bucketTokens``.

    ``document``: ``bucket``, which need not be there yet, or ``*`` for every bucket that the caller
    may use; ``readOnly``; ``expires`` (a duration, default 1h, at most 12h).  ``project`` is an id
    that the caller may enter; a token for one bucket is for buckets of this project, and one for
    every bucket is for all projects of its caller.  Raises Refusal.
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
            f"{caller.name} has {LIVE_MAX} tokens for buckets that have not ended; renew one of "
            "them, or wait until they end",
        )
    return {**_render_token(token), "token": text}


def renew(store: Store, caller: Caller, token_id: str, document: Mapping[str, Any]) -> Json:
    """``POST .../bucketTokens/{id}:renew``: the same text opens the same buckets for longer.

    ``document``: ``expires``.  Raises Refusal where the caller has no such token that lives.
    """
    refuse_unknown(document, {"expires"})
    now = datetime.now(UTC)
    ends = _end(caller, now, life_of(document.get("expires"), LIFE_MAX))
    token = store.extend_token(token_id, caller.credential, now, ends)
    if token is None:
        raise Refusal(
            Code.NOT_FOUND,
            f"there is no token {token_id!r} of {caller.name} for buckets that has not ended; "
            "`trainshed buckets token` makes another one",
        )
    return _render_token(token)


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
    """Return when the token ends: not after the one that it was made with."""
    ends = now + (life or LIFE)
    if caller.ends_at_s is None:
        return ends
    return min(ends, datetime.fromtimestamp(caller.ends_at_s, UTC))


def _render_token(token: Token) -> Json:
    if token.expire_time is None:
        raise AssertionError("every token for buckets ends")
    return {
        "id": token.token_id,
        "project": token.project,
        "bucket": token.bucket,
        "readOnly": token.role is AccessRole.VIEWER,
        "expireTime": token.expire_time.isoformat(timespec="microseconds"),
    }
