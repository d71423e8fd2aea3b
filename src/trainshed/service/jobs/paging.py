"""Pages of lists: how large, from where, and the token that leads to the next one.

A token holds no secret and opens nothing: whoever shows it is asked for the same rights as for the
first page.  It is bound to its list, so that it cannot continue another one by mistake.
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

#: As long as Google keeps its own.
TOKEN_S_MAX: Final = 3 * 24 * 3600.0

#: All locations, in a list.
ANY_LOCATION: Final = "-"

_DIGEST_LENGTH: Final = 16
_TOKEN_LENGTH_MAX = 1000
_NUMBER_LIMIT = 1 << 63  # databases have no larger ones

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCall:
    """A call of a list, as its client makes it.  ``kind`` is that of the jobs behind the rows."""

    collection: str
    kind: JobKind
    project: ProjectId
    location: str
    filter_text: str = ""
    page_size: int = 0
    page_token: str = ""

    @property
    def digest(self) -> str:
        """What stands in a token for the list that it continues."""
        return digest_of(self.collection, self.project, self.location, self.filter_text)

    @property
    def size(self) -> int:
        """How many rows a page has.  Raises Refusal for a negative size."""
        if self.page_size < 0:
            message = f"page_size must not be negative, and is {self.page_size}"
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
    """The rows of a page, newest first, and the token of the next; empty where there is none.

    ``key_of`` gives a row's create time and uid.  Raises Refusal (INVALID_ARGUMENT) for a filter
    that means nothing, a negative size and a token that is not of this list.
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
    """The token of the page behind the row of a create time in ns and a uid: ``row_before``."""
    return token_of(digest, *key, int(now.timestamp()))


def token_of(*parts: str | int) -> str:
    """A token that holds these parts."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode("ascii")


def parts_of(token: str) -> list[Any] | None:
    """The parts of a token; None for one that this server cannot have given."""
    try:
        parts = read_json(base64.b64decode(token, altchars=b"-_", validate=True))
    except ValueError:
        return None
    return parts if isinstance(parts, list) else None


def digest_of(*question: str | bool | None) -> str:
    """A short text that stands for a question."""
    return hashlib.sha256(json.dumps(question).encode()).hexdigest()[:_DIGEST_LENGTH]


def row_before(page_token: str, digest: str, now: datetime) -> tuple[int, int]:
    """The create time in ns and the uid of the row before the page of a token.

    Raises Refusal (INVALID_ARGUMENT) for a token that is not of the list of this digest.
    """
    list_digest, *numbers = parts_of(page_token[:_TOKEN_LENGTH_MAX]) or [None]
    if len(numbers) != 3 or not all(map(_is_number, numbers)):  # noqa: PLR2004  # as token_of had
        raise _refusal("is none that this server gives")
    created_ns, uid, issued_s = numbers
    if list_digest != digest:
        raise _refusal("belongs to a list of another project, place or filter")
    if now.timestamp() - issued_s > TOKEN_S_MAX:
        raise _refusal("has expired; list again from the first page")
    return created_ns, uid


def _is_number(part: Any) -> bool:
    return type(part) is int and 0 <= part < _NUMBER_LIMIT


def _refusal(why: str) -> Refusal:
    return Refusal(Code.INVALID_ARGUMENT, f"the page_token {why}")
