"""Parses the ``since`` of lists, the earliest time of their rows."""

from datetime import UTC, datetime
from typing import Final

from trainshed.model.refusals import Code, Refusal

#: The range of times that a column of nanoseconds holds, without some years at the ends.
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(2200, 1, 1, tzinfo=UTC)


def time_since(text: str) -> datetime:
    """Parse a time; without a zone it is UTC.  A time out of range becomes the nearest in range.

    Raises Refusal (INVALID_ARGUMENT).
    """
    try:
        time = datetime.fromisoformat(text)
        time = (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
        return min(max(time, _FIRST), _LAST)
    except (ValueError, OverflowError):
        message = f"since must be a time such as 2026-11-21T15:00:00Z, got {text[:50]!r}"
        raise Refusal(Code.INVALID_ARGUMENT, message) from None
