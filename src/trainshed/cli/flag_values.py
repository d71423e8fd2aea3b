"""Parses the values of flags, for ``type`` of argparse; refusals are sentences."""

import argparse
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Final, TypeVar

from trainshed.model import typed_numbers
from trainshed.model.typed_numbers import COUNT_MAX

V = TypeVar("V")


def reading(read: Callable[[str], V]) -> Callable[[str], V]:
    """Return a ``type`` for flags: its refusals are the sentences of ``read``."""

    def convert(text: str) -> V:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def whole_number(least: int, most: int = COUNT_MAX) -> Callable[[str], int]:
    """Return a ``type`` for flags: a whole number within bounds."""
    return reading(typed_numbers.whole_number(least, most))


above_zero: Final = reading(typed_numbers.above_zero)


def time_since(text: str) -> str:
    """Parse a duration ago, a local day or a local time; return an RFC 3339 time."""
    from trainshed.model.durations import seconds_of

    now = datetime.now(tz=UTC)
    try:
        return (now - timedelta(seconds=seconds_of(text))).isoformat()
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        accepted = "a duration such as 24h, a day such as 2026-11-21 or a time such as"
        message = f"must be {accepted} 2026-11-21T15:00:00Z, got {text!r}"
        raise argparse.ArgumentTypeError(message) from None


def day(text: str) -> date:
    """Parse a day in the form YYYY-MM-DD."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a day in the form YYYY-MM-DD, got {text!r}"
        ) from None
