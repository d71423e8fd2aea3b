"""Durations and times as both dialects write them."""

from datetime import UTC, datetime


def seconds(duration: str | None) -> float | None:
    """``"3.5s"`` as 3.5; the text has been checked by the reader."""
    return None if duration is None else float(duration.removesuffix("s"))


def rfc3339(time: datetime | None) -> str | None:
    """An aware datetime as ``2026-11-21T00:02:39Z``; a fraction has 3 or 6 digits."""
    if time is None:
        return None
    utc = time.astimezone(UTC)
    plain = f"{utc:%Y-%m-%dT%H:%M:%S}"
    if utc.microsecond == 0:
        return f"{plain}Z"
    millis, rest = divmod(utc.microsecond, 1000)
    return f"{plain}.{utc.microsecond:06d}Z" if rest else f"{plain}.{millis:03d}Z"
