"""Reads numbers that a user typed.  Each reader raises ValueError with what it accepts."""

from collections.abc import Callable
from typing import Final

#: The largest count that a flag accepts.
COUNT_MAX: Final = 1_000_000
_DIGITS_MAX: Final = 18


def whole_number(least: int, most: int = COUNT_MAX) -> Callable[[str], int]:
    """Return a reader of whole numbers within bounds."""

    def read(text: str) -> int:
        is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
        number = int(text) if is_number else -1
        if not least <= number <= most:
            raise ValueError(f"must be a whole number from {least} to {most}, got {text!r}")
        return number

    return read


def above_zero(text: str) -> float:
    """Read a finite number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError(f"must be a number above 0, got {text!r}")
    return number
