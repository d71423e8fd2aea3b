"""Parses and formats durations and times of both dialects."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final


def seconds(duration: str | None) -> float | None:
    """Convert ``"3.5s"`` to 3.5; None stays None.  The text must be a valid duration."""
    return None if duration is None else float(duration.removesuffix("s"))


def rfc3339(time: datetime | None) -> str | None:
    """Format a datetime as ``2026-11-21T00:02:39Z``; a fraction has 3 or 6 digits."""
    if time is None:
        return None
    utc = time.astimezone(UTC).replace(tzinfo=None)
    is_fine = utc.microsecond % 1000
    parts = "microseconds" if is_fine else "milliseconds" if utc.microsecond else "seconds"
    return f"{utc.isoformat(timespec=parts)}Z"


_SECOND_NS: Final = 1_000_000_000
_WHOLE: Final = len("2026-11-21T00:05:59")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = r"\d{4}-\d\d-\d\d"
_CLOCK: Final = r"\d\d:\d\d(?::\d\d)?"
#: RFC 3339, and forms of ISO 8601: a day alone, no seconds, no zone, ``+0000``.
_TIMESTAMP: Final = re.compile(
    rf"({_DAY})(?:[Tt ]({_CLOCK})(?:\.(\d{{1,9}}))?(?:([Zz])|([+-]\d\d):?(\d\d))?)?"
)


def timestamp(stamp_ns: int) -> str:
    seconds, rest = divmod(stamp_ns, _SECOND_NS)
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def utc_text(stamp_ns: int) -> str:
    """Format a stamp in ns with microseconds; faster than ``timestamp``, for long lists."""
    seconds, rest = divmod(stamp_ns, _SECOND_NS)
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:_WHOLE]}.{rest // 1000:06d}Z"


def nanoseconds(text: str) -> int:
    """Parse a time to nanoseconds since 1970; a time without a zone is in UTC.

    Accepts RFC 3339, and the forms of ISO 8601 that Google's clients write: a day alone, no
    seconds, ``+0000``.  Raises ValueError for other texts.
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time such as 2026-11-21T14:00:00Z")
    day, clock, fraction, _, hours, minutes = match.groups()
    zone = f"{hours}:{minutes}" if hours else "+00:00"
    try:
        time = datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone}")
    except ValueError:
        raise ValueError(f"{text!r} is not an RFC 3339 time such as 2026-11-21T14:00:00Z") from None
    seconds = (time - _EPOCH) // timedelta(seconds=1)
    return seconds * _SECOND_NS + int((fraction or "").ljust(9, "0"))


def time_of(stamp: str | None) -> datetime | None:
    """Parse a time of the API, cut to microseconds; None for None or an empty text."""
    return datetime.fromisoformat(stamp) if stamp else None
