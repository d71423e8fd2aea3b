"""Checks of values in users' files, with the words for what is accepted."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

#: Values other than 0 must lie between these, in any unit.
LEAST, MOST = 1e-9, 1e18


class ValueCheck(NamedTuple):
    """A check of a value, and what it accepts."""

    accepted: str
    holds: Callable[[Any], bool]


def is_number(value: Any) -> bool:
    """Return whether a value is 0 or a number of a plausible size."""
    is_a_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_a_number and (value == 0 or LEAST <= abs(value) <= MOST)


TEXT: Final = ValueCheck("a text", lambda value: isinstance(value, str))
FLAG: Final = ValueCheck("true or false", lambda value: isinstance(value, bool))
