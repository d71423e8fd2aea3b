"""The ``since`` of lists: a time from which on rows are listed."""

from datetime import UTC, datetime
from typing import Final

from trainshed.model.refusals import Code, Refusal

#: Times that a column of nanoseconds can hold, and then some years less.
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(2200, 1, 1, tzinfo=UTC)


def time_since(text: str) -> datetime:
    """The time in UTC, which one without a zone is of; one that no column holds is the nearest.

    Raises Refusal (INVALID_ARGUMENT).
    """
    try:
        time = datetime.fromisoformat(text)
        time = (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
        return min(max(time, _FIRST), _LAST)
    except (ValueError, OverflowError):
        message = f"since: {text[:50]!r} is not a time such as 2026-11-21T15:00:00Z"
        raise Refusal(Code.INVALID_ARGUMENT, message) from None
