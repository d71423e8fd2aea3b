"""Pages of a log: any sizes of pages give the same entries in the same order.

A page token is the place of the last entry, so nothing is kept for a reader and nothing shifts
while lines are added.  It is bound to the question: with another filter it would lead nowhere.
"""

import base64
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from trainshed.model.faults import Violation
from trainshed.model.log_line import LogLine
from trainshed.model.refusals import Code, Refusal
from trainshed.wire.logging_v2.request import EntriesQuery

#: The place of an entry: its stamp in ns, and its insertId among those of one stamp.
Place = tuple[int, str]

#: A page ends early when its texts are longer than this in all.
TEXT_LENGTH_MAX: Final = 4 << 20

_DIGEST_LENGTH: Final = 16
_STAMP_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Entries as JSON values; the token is empty when these were the last."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    next_page_token: str = ""

    def document(self) -> dict[str, Any]:
        """The answer of entries:list; what is empty is left out."""
        found: dict[str, Any] = {"entries": self.entries, "nextPageToken": self.next_page_token}
        return {name: value for name, value in found.items() if value}


def first_of(
    found: Iterable[tuple[Place, LogLine]], size: int
) -> tuple[list[tuple[Place, LogLine]], bool]:
    """The entries of one page, at least one of those there are, and whether there are more."""
    chosen: list[tuple[Place, LogLine]] = []
    length = 0
    for place, line in found:
        length += len(line.text)
        if chosen and (len(chosen) == size or length > TEXT_LENGTH_MAX):
            return chosen, True
        chosen.append((place, line))
    return chosen, False


def token_of(place: Place, project: str, query: EntriesQuery) -> str:
    """The token that asks for what comes behind a place."""
    text = json.dumps([_digest(project, query), *place])
    return base64.urlsafe_b64encode(text.encode()).decode("ascii")


def place_of(project: str, query: EntriesQuery) -> Place | None:
    """The place that the query's token names; None for a first page.

    Raises Refusal (INVALID_ARGUMENT) for a token that was not given for this question.
    """
    if not query.page_token:
        return None
    parts = _parts(query.page_token)
    if parts is None:
        raise _refusal("it is malformed")
    digest, stamp_ns, insert_id = parts
    if digest != _digest(project, query):
        raise _refusal("it belongs to another filter, project or order")
    return stamp_ns, insert_id


def _parts(token: str) -> tuple[str, int, str] | None:
    try:
        data = base64.b64decode(token, altchars=b"-_", validate=True)
        digest, stamp_ns, insert_id = json.loads(data)
    except (ValueError, TypeError, RecursionError):
        return None
    is_stamp = type(stamp_ns) is int and 0 <= stamp_ns <= _STAMP_MAX
    is_place = is_stamp and isinstance(digest, str) and isinstance(insert_id, str)
    return (digest, stamp_ns, insert_id) if is_place else None


def _digest(project: str, query: EntriesQuery) -> str:
    question = json.dumps([project, query.filter, query.descending])
    return hashlib.sha256(question.encode()).hexdigest()[:_DIGEST_LENGTH]


def _refusal(why: str) -> Refusal:
    accepted = "the nextPageToken of the answer before, with the same filter and orderBy"
    violation = Violation(field="pageToken", rule="wrong-type", message=why, accepted=accepted)
    message = f"pageToken: {why}. Accepted: {accepted}."
    return Refusal(Code.INVALID_ARGUMENT, message, (violation,))
