"""Parses single values of each kind of field into their normal form.

In the normal form 64-bit numbers are strings and 32-bit numbers are numbers, as in protobuf's JSON
(docs/sources/vertex.md 9.3); durations and times are unchanged.  A parser returns ``WRONG`` for a
value that it does not accept.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

#: The result of a parser for a value that the field does not accept.
WRONG: Final = object()

WHOLE = re.compile(r"[+-]?\d{1,20}(?:\.0*)?")
DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
DURATION = re.compile(r"-?\d{1,12}(?:\.\d{1,9})?s")
TIMESTAMP = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.IGNORECASE
)
NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_INTEGRAL_FLOAT_MAX = 2**53


def text(value: Any) -> Any:
    """Accept strings only: the number 2.10 would lose its zero."""
    return value if isinstance(value, str) else WRONG


def loose_text(value: Any) -> Any:
    """Accept strings, numbers and booleans, which become strings: 3.0 is ``3``, 0.5 is ``0.5``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value)
    return str(value) if isinstance(value, int) else text(value)


def number_text(value: float) -> str:
    """Convert a number to a string; whole numbers have no decimal point."""
    if value.is_integer() and abs(value) < _INTEGRAL_FLOAT_MAX:
        return str(int(value))
    return repr(value)


def boolean(value: Any) -> Any:
    """Accept booleans, but not the strings ``true`` and ``false``."""
    return value if isinstance(value, bool) else WRONG


def whole(value: Any, *, bits: int) -> Any:
    """Accept a whole number of ``bits`` bits: an integer, a string, or a double such as 4.0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    elif isinstance(value, str) and WHOLE.fullmatch(value):
        value = int(value.partition(".")[0])
    if not isinstance(value, int) or isinstance(value, bool):
        return WRONG
    limit = 1 << (bits - 1)
    return value if -limit <= value < limit else WRONG


def int32(value: Any) -> Any:
    """Accept a whole number of 32 bits."""
    return whole(value, bits=32)


def int64(value: Any) -> Any:
    """Accept a whole number of 64 bits; return it as a string."""
    number = whole(value, bits=64)
    return WRONG if number is WRONG else str(number)


def double(value: Any) -> Any:
    """Accept a number or its string, also ``NaN``, ``Infinity`` and ``-Infinity``."""
    if isinstance(value, str):
        if value in NOT_FINITE:
            return value
        number = float(value) if DECIMAL.fullmatch(value) else math.inf
        return number if math.isfinite(number) else WRONG
    if isinstance(value, bool) or not isinstance(value, int | float):
        return WRONG
    try:
        return value if math.isfinite(value) else _not_finite(value)
    except OverflowError:  # a whole number that no double can represent; protobuf refuses it too
        return WRONG


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def duration(value: Any) -> Any:
    """Accept seconds with the letter s, such as ``3600s``."""
    return value if isinstance(value, str) and DURATION.fullmatch(value) else WRONG


def timestamp(value: Any) -> Any:
    """Accept a time of RFC 3339."""
    return value if isinstance(value, str) and TIMESTAMP.fullmatch(value) else WRONG


def mapping(value: Any) -> Any:
    """Accept any object, unchanged."""
    return value if isinstance(value, dict) else WRONG


def sequence(value: Any) -> Any:
    """Accept any list, unchanged."""
    return value if isinstance(value, list) else WRONG


def anything(value: Any) -> Any:
    """Accept any JSON value, unchanged."""
    return value


READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "string": text,
    "loose text": loose_text,
    "bytes": text,
    "bool": boolean,
    "int32": int32,
    "int64": int64,
    "double": double,
    "float": double,
    "duration": duration,
    "timestamp": timestamp,
    "struct": mapping,
    "list": sequence,
    "value": anything,
}

#: By kind of field: a noun for messages, and a description of accepted values.
WANTED: Final[Mapping[str, tuple[str, str]]] = {
    "string": ("a string", 'a string; a number needs quotes, such as "2.11"'),
    "loose text": ("a string", 'a string, such as "--epochs=3"'),
    "bytes": ("a string", "bytes as base64"),
    "bool": ("true or false", "true or false, without quotes"),
    "int32": ("a whole number", "a whole number of 32 bits, such as 4"),
    "int64": ("a whole number", "a whole number of 64 bits, such as 4"),
    "double": ("a number", "a number, such as 0.5"),
    "float": ("a number", "a number, such as 0.5"),
    "duration": ("a duration", 'seconds with the letter s, such as "3600s"'),
    "timestamp": ("a time", "a time of RFC 3339, such as 2026-11-21T00:02:39Z"),
    "struct": ("an object", "an object of fields"),
    "list": ("a list", "a list of values"),
    "value": ("any value", "any value"),
    "message": ("an object", "an object of fields"),
    "map": ("an object", "an object of names and values"),
    "enum": ("one of its names", "one of its names, as a string"),
    "open enum": ("one of its names", "one of its names, as a string"),
}
