"""Pages of lists: how large, from where, and the token that leads to the next one.

A token holds no secret and opens nothing: whoever shows it is asked for the same rights as for the
first page.  It is bound to its list, so that it cannot continue another one by mistake.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trainshed.model.refusals import Code, Refusal
from trainshed.service.resource_names import stamp_ns
from trainshed.store.records import Kind

#: (default, most) by collection; ml v1's are documented (contracts/vertex-sdk.md 7).
SIZES: Final[Mapping[Kind, tuple[int, int]]] = {
    Kind.ML_JOB: (20, 100),
    Kind.CUSTOM_JOB: (100, 1000),
    Kind.TUNING_JOB: (100, 1000),
}

#: As long as Google keeps its own.
TOKEN_S_MAX: Final = 3 * 24 * 3600.0

_TOKEN_LENGTH_MAX = 1000
_NUMBER_LIMIT = 1 << 63  # databases have no larger ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which part of a list is wanted.  ``after`` is (create time in ns, uid) of the row before."""

    size: int
    after: tuple[int, int] | None
    scope: str

    def next_token(self, create_time: datetime | None, uid: int, now: datetime) -> str:
        """The token of the page that begins behind a row."""
        created_ns = stamp_ns(create_time) if create_time else 0
        content = json.dumps([self.scope, created_ns, uid, int(now.timestamp())])
        return base64.urlsafe_b64encode(content.encode()).decode("ascii")


def page_of(kind: Kind, scope: Sequence[str], size: int, token: str, now: datetime) -> Page:
    """The page that a call asks for.  ``scope`` is what makes the list: project, filter, ...

    Raises Refusal (INVALID_ARGUMENT) for a negative size and a token that is not of this list.
    """
    if size < 0:
        raise Refusal(Code.INVALID_ARGUMENT, f"page_size must not be negative, and is {size}")
    default, most = SIZES[kind]
    digest = hashlib.sha256(json.dumps([*scope]).encode()).hexdigest()[:16]
    after = _after(token, digest, now) if token else None
    return Page(size=min(size or default, most), after=after, scope=digest)


def next_page(page: Page, keys: Sequence[tuple[datetime | None, int]], now: datetime) -> str:
    """The token behind a page, from the keys of its rows and of one more; empty for the last."""
    if len(keys) <= page.size:
        return ""
    create_time, uid = keys[page.size - 1]
    return page.next_token(create_time, uid, now)


def _after(token: str, scope: str, now: datetime) -> tuple[int, int]:
    of, created_ns, uid, issued_s = _content(token)
    if of != scope:
        raise _refused("belongs to a list of another project, place or filter")
    if now.timestamp() - issued_s > TOKEN_S_MAX:
        raise _refused("has expired; list again from the first page")
    return created_ns, uid


def _content(token: str) -> tuple[str, int, int, int]:
    try:
        raw = base64.b64decode(token[:_TOKEN_LENGTH_MAX], altchars=b"-_", validate=True)
        of, created_ns, uid, issued_s = json.loads(raw)
    except (ValueError, TypeError, RecursionError):
        raise _refused("is none that this server gives") from None
    numbers = (created_ns, uid, issued_s)
    if not all(type(number) is int and 0 <= number < _NUMBER_LIMIT for number in numbers):
        raise _refused("is none that this server gives")
    return (str(of), *numbers)


def _refused(why: str) -> Refusal:
    return Refusal(Code.INVALID_ARGUMENT, f"the page_token {why}")
