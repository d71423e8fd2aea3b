"""Compares one value of a LogEntry with the text of a filter, as Cloud Logging documents it."""

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from trainshed.model.log_line import SEVERITIES

ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

#: The text that a filter has for JSON's null.
NULL: Final = "NULL_VALUE"

#: google.logging.type.LogSeverity.
SEVERITY_RANKS: Final[Mapping[str, int]] = {
    "DEFAULT": 0,
    "DEBUG": 100,
    "INFO": 200,
    "NOTICE": 300,
    "WARNING": 400,
    "ERROR": 500,
    "CRITICAL": 600,
    "ALERT": 700,
    "EMERGENCY": 800,
}

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
#: The only non-ASCII characters whose lower case is ASCII.  They are replaced, because a search for
#: an ASCII word in the bytes of a line does not find them.
_NOT_FOLDED: Final = {0x130: "\ufffd", 0x212A: "\ufffd"}
_TOKEN = re.compile(r"[^\s\[\]<>(){}|!;,'\"*&?+/:=@.\-$%\\_`]+")


def fold(text: str) -> str:
    """Return a text in lower case, for comparisons that ignore case."""
    return text.lower() if text.isascii() else text.translate(_NOT_FOLDED).lower()


def number_of(text: str) -> float | None:
    """Parse a number of a filter; None if the text is not a finite number."""
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def tokens_of(text: str) -> list[str]:
    """Return the words of a text in lower case, for SEARCH, which compares whole words."""
    return _TOKEN.findall(fold(text))


def contains(value: Any, folded: str, number: float | None) -> bool:
    """Whether a value contains a text (operator ``:``); numbers and booleans must be equal."""
    if isinstance(value, str):
        return folded in fold(value)
    if isinstance(value, Mapping):
        return any(
            fold(key) == folded or contains(item, folded, number) for key, item in value.items()
        )
    if isinstance(value, list):
        return any(contains(item, folded, number) for item in value)
    return _equals_scalar(value, folded, number)


def equals(value: Any, folded: str, number: float | None) -> bool:
    """Whether a value equals a text, number or boolean of a filter; ignores case."""
    if isinstance(value, str):
        return fold(value) == folded
    return _equals_scalar(value, folded, number)


def _equals_scalar(value: Any, folded: str, number: float | None) -> bool:
    if value is None:
        return folded == fold(NULL)
    if isinstance(value, bool):
        return folded == str(value).lower()
    return isinstance(value, int | float) and number is not None and value == number


def is_ordered(value: Any, sign: str, folded: str, number: float | None) -> bool:
    """Whether ``value sign text`` is true; numbers compare by size, texts by their letters."""
    if isinstance(value, str):
        return ORDERS[sign](fold(value), folded)
    if isinstance(value, bool) or not isinstance(value, int | float) or number is None:
        return False
    return ORDERS[sign](value, number)


def severities_where(sign: str, rank: int) -> frozenset[str]:
    """Return the severities of stored lines that match a comparison with a rank."""
    compare = ORDERS["=" if sign == ":" else sign]
    return frozenset(name for name in SEVERITIES if compare(SEVERITY_RANKS[name], rank))
