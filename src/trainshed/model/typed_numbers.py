"""Reads numbers that a user typed.  Each reader raises ValueError with what it accepts."""

from collections.abc import Callable
from typing import Final

#: The largest count that a flag accepts.
COUNT_MAX: Final = 1_000_000
#: Figures other than 0 must lie between these, in any unit.
FIGURE_MIN, FIGURE_MAX = 1e-9, 1e18
_DIGITS_MAX: Final = 18
#: The powers of ten of the letters after a number of parameters.
_POWERS: Final = {"k": 3, "m": 6, "b": 9, "t": 12}


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
    """Read a number above 0 of a plausible size, in any unit."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError(f"must be a number above 0, got {text!r}")
    if not FIGURE_MIN <= number <= FIGURE_MAX:
        raise ValueError(f"must be from {FIGURE_MIN:g} to {FIGURE_MAX:g}, got {text!r}")
    return number


def parameter_count(text: str) -> float:
    """Read a number of parameters above 0, as models are named: ``25.6e6``, ``25.6M`` or ``7b``."""
    power = _POWERS.get(text[-1:].lower())
    try:
        return above_zero(f"{text[:-1]}e{power}" if power else text)
    except ValueError:
        raise ValueError(
            f"must be a number of parameters, such as 25.6e6, 25.6M or 1.3B, got {text!r}"
        ) from None
