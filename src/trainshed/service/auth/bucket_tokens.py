"""Tokens for one bucket: for storage clients that cannot send a header.

Such a client has its token in the path of every address (decision 0037).  Addresses are written
into logs, files and screens, so what stands in them opens one bucket, ends within hours, and ends
with the token or key of whoever made it.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from trainshed.model.access import AccessRole, Caller
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth.tokens import Json, invalid, life_of, new_token, refuse_unknown
from trainshed.storage.buckets import BUCKET_RULE, is_bucket_name
from trainshed.store.opening import Store
from trainshed.store.records import Token

LIFE: Final = timedelta(hours=1)
LIFE_MAX: Final = timedelta(hours=12)
#: Tokens of one holder that have not ended: a shell, a notebook and a script each have their own.
LIVE_MAX: Final = 1000
#: A token that has ended is kept so long, for whoever wonders why it opens nothing.
KEPT: Final = timedelta(days=1)


def create(store: Store, caller: Caller, project: str, document: Mapping[str, Any]) -> Json:
    """``POST /trainshed/v1/projects/{project}/bucketTokens``.

    ``document``: ``bucket``, which need not be there yet; ``readOnly``; ``expires`` (a duration,
    default 1h, at most 12h).  ``project`` is an id that the caller may enter.  Raises Refusal.
    """
    refuse_unknown(document, {"bucket", "readOnly", "expires"})
    bucket = document.get("bucket")
    if not isinstance(bucket, str) or not is_bucket_name(bucket):
        raise invalid(f"bucket: {bucket!r} cannot be a bucket; it has {BUCKET_RULE}")
    most = AccessRole.VIEWER if document.get("readOnly") else AccessRole.SUBMITTER
    text, token = new_token(caller.name, project, min(caller.role, most))
    ends = _end(caller, token.create_time, life_of(document.get("expires"), LIFE_MAX))
    token = replace(token, bucket=bucket, parent=caller.credential, expire_time=ends)
    if not store.add_bucket_token(token, most=LIVE_MAX):
        raise Refusal(
            Code.RESOURCE_EXHAUSTED,
            f"{caller.name} has {LIVE_MAX} tokens for buckets that have not ended; renew one of "
            "them, or wait until they end",
        )
    return {**_shown(token), "token": text}


def renew(store: Store, caller: Caller, token_id: str, document: Mapping[str, Any]) -> Json:
    """``POST .../bucketTokens/{id}:renew``: the same text opens the bucket for longer.

    ``document``: ``expires``.  Raises Refusal where the caller has no such token that lives.
    """
    refuse_unknown(document, {"expires"})
    now = datetime.now(UTC)
    ends = _end(caller, now, life_of(document.get("expires"), LIFE_MAX))
    token = store.extend_token(token_id, caller.credential, now, ends)
    if token is None:
        raise Refusal(
            Code.NOT_FOUND,
            f"there is no token {token_id!r} of {caller.name} for a bucket that has not ended; "
            "`trainshed buckets token NAME` makes another one",
        )
    return _shown(token)


def forget_ended(store: Store) -> int:
    """Forget those that ended long ago; how many."""
    return store.forget_ended_tokens(datetime.now(UTC) - KEPT)


def _end(caller: Caller, now: datetime, life: timedelta | None) -> datetime:
    """No token outlives the one that it was made with."""
    ends = now + (life or LIFE)
    if caller.ends_at_s is None:
        return ends
    return min(ends, datetime.fromtimestamp(caller.ends_at_s, UTC))


def _shown(token: Token) -> Json:
    if token.expire_time is None:
        raise AssertionError("every token for a bucket ends")
    return {
        "id": token.token_id,
        "project": token.project,
        "bucket": token.bucket,
        "readOnly": token.role is AccessRole.VIEWER,
        "expireTime": token.expire_time.isoformat(timespec="microseconds"),
    }
