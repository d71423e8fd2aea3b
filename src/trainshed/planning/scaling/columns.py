"""Checks of values in users' files, with the words for what is accepted."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from trainshed.model.typed_numbers import FIGURE_MAX, FIGURE_MIN


class ValueCheck(NamedTuple):
    """A check of a value, and what it accepts."""

    accepted: str
    holds: Callable[[Any], bool]


def is_number(value: Any) -> bool:
    """Return whether a value is 0 or a number of a plausible size."""
    is_a_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_a_number and (value == 0 or FIGURE_MIN <= abs(value) <= FIGURE_MAX)


TEXT: Final = ValueCheck("a text", lambda value: isinstance(value, str))
FLAG: Final = ValueCheck("true or false", lambda value: isinstance(value, bool))
