"""Pages of lists: size, position, and the token of the next page.

A token holds no secret and grants nothing: every page needs the same rights as the first.  It is
bound to its list, so that it cannot continue another one by mistake.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from trainshed.model.filters import AllOf, Filter
from trainshed.model.json_reader import read_json
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import ProjectId
from trainshed.store.codec import to_ns
from trainshed.store.records.jobs import ML_KINDS, JobKind, JobQuery

#: (default, most) by collection; ml v1's are documented (docs/sources/vertex.md 7).
SIZES: Final[Mapping[JobKind, tuple[int, int]]] = {
    JobKind.ML_JOB: (20, 100),
    JobKind.CUSTOM_JOB: (100, 1000),
    JobKind.TUNING_JOB: (100, 1000),
}

#: The life of a page token in seconds; the same as Google's.
TOKEN_S_MAX: Final = 3 * 24 * 3600.0

#: The location that means all locations in a list call.
ANY_LOCATION: Final = "-"

_DIGEST_LENGTH: Final = 16
_TOKEN_LENGTH_MAX = 1000
_NUMBER_LIMIT = 1 << 63  # integers of databases are smaller

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCall:
    """The parameters of one list call.  ``kind`` is the kind of the jobs."""

    collection: str
    kind: JobKind
    project: ProjectId
    location: str
    filter_text: str = ""
    page_size: int = 0
    page_token: str = ""

    @property
    def digest(self) -> str:
        """Return the part of a token that binds the token to its list."""
        return digest_of(self.collection, self.project, self.location, self.filter_text)

    @property
    def size(self) -> int:
        """Return the number of rows of a page.  Raises Refusal for a negative size."""
        if self.page_size < 0:
            message = f"page_size must be 0 or more, got {self.page_size}"
            raise Refusal(Code.INVALID_ARGUMENT, message)
        default, most = SIZES[self.kind]
        return min(self.page_size or default, most)


def one_page(
    call: ListCall,
    filter_of: Callable[[str], Filter],
    rows_of: Callable[[JobQuery], Sequence[_Row]],
    key_of: Callable[[_Row], tuple[datetime | None, int]],
    now: datetime,
) -> tuple[Sequence[_Row], str]:
    """Return the rows of a page, newest first, and the next token (empty at the end).

    ``key_of`` gives a row's create time and uid.  Raises Refusal (INVALID_ARGUMENT) for an invalid
    filter, a negative size and a token of another list.
    """
    row_filter = filter_of(call.filter_text) if call.filter_text else AllOf()
    size = call.size
    is_anywhere = call.kind in ML_KINDS or call.location == ANY_LOCATION
    query = JobQuery(
        project=call.project,
        kind=call.kind,
        location=None if is_anywhere else call.location,
        filter=row_filter,
        page_size=size + 1,
        after=row_before(call.page_token, call.digest, now) if call.page_token else None,
    )
    rows = rows_of(query)
    if len(rows) <= size:
        return rows, ""
    create_time, uid = key_of(rows[size - 1])
    created_ns = to_ns(create_time) if create_time else 0
    return rows[:size], token_behind((created_ns, uid), call.digest, now)


def token_behind(key: tuple[int, int], digest: str, now: datetime) -> str:
    """Make the token of the page after a row, by its create time in ns and its uid."""
    return token_of(digest, *key, int(now.timestamp()))


def token_of(*parts: str | int) -> str:
    """Encode the parts of a token."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode("ascii")


def parts_of(token: str) -> list[Any] | None:
    """Decode a token; None for a malformed token."""
    try:
        parts = read_json(base64.b64decode(token, altchars=b"-_", validate=True))
    except ValueError:
        return None
    return parts if isinstance(parts, list) else None


def digest_of(*parameters: str | bool | None) -> str:
    """Return a short digest of the parameters of a call."""
    return hashlib.sha256(json.dumps(parameters).encode()).hexdigest()[:_DIGEST_LENGTH]


def row_before(page_token: str, digest: str, now: datetime) -> tuple[int, int]:
    """Return the create time in ns and the uid of the row before a token's page.

    Raises Refusal (INVALID_ARGUMENT) for a token of another list.
    """
    list_digest, *numbers = parts_of(page_token[:_TOKEN_LENGTH_MAX]) or [None]
    if len(numbers) != 3 or not all(map(_is_number, numbers)):  # noqa: PLR2004  # as token_of had
        raise _refusal("is malformed; list again from the first page")
    created_ns, uid, issued_s = numbers
    if list_digest != digest:
        raise _refusal(
            "belongs to another project, location or filter; list again from the first page"
        )
    if now.timestamp() - issued_s > TOKEN_S_MAX:
        raise _refusal("has expired; list again from the first page")
    return created_ns, uid


def _is_number(part: Any) -> bool:
    return type(part) is int and 0 <= part < _NUMBER_LIMIT


def _refusal(why: str) -> Refusal:
    return Refusal(Code.INVALID_ARGUMENT, f"the page_token {why}")
