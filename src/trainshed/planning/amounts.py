"""Formats numbers, durations and money for sentences.

They are apart from the words of plans, because a server that makes no plans needs them too.
"""

import math
from typing import Final

#: The least seconds that are written in a unit, the seconds of the unit, and its name.
DURATION_UNITS: Final = (
    (2 * 86_400.0, 86_400.0, "days"),
    (5_400.0, 3_600.0, "h"),
    (90.0, 60.0, "min"),
)
#: Prices below this have cents.
_CENTS_BELOW = 10.0
_CENTS = 0.1
_LARGE = 100.0


def figure(value: float) -> str:
    """Format a number with three digits and without an exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def lasting(seconds: float) -> str:
    """Format a duration: ``4.1 h``."""
    for least, unit, name in DURATION_UNITS:
        if seconds >= least:
            return f"{figure2(seconds / unit)} {name}"
    return f"{figure2(seconds)} s"


def figure2(value: float) -> str:
    """Format a number with at least two digits and without an exponent."""
    return f"{value:,.0f}" if value >= _LARGE else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def money(amount: float, currency: str) -> str:
    """Format an amount of money: ``212 USD``."""
    return f"{amount_words(amount)} {currency}"


def amount_words(amount: float) -> str:
    """Format an amount of money without its currency: ``212``, ``4.12`` or ``0.0041``."""
    if 0 < abs(amount) < _CENTS:
        return figure2(amount)
    return f"{amount:,.2f}" if abs(amount) < _CENTS_BELOW else f"{amount:,.0f}"
