"""Reads JSON from outside: request bodies, metadata of uploads, notes, page tokens.

Python's own reader accepts documents that no client sends and that are expensive: a million empty
lists in two megabytes, unpaired surrogates that no response can contain, duplicate keys, numbers
that become infinite.  This reader counts values before it makes any, so the bytes and
``VALUES_MAX`` limit its memory.  Google's discovery documents give no limits; these are far above
each recorded request (docs/sources/vertex.md).
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, NoReturn

#: The deepest nesting, as in protobuf's own readers; deeper documents are refused.
DEPTH_MAX: Final = 100
#: The number of values: objects, lists and their members.
VALUES_MAX: Final = 20_000
#: The most characters of a name in an object.
NAME_LENGTH_MAX: Final = 1024
#: The most characters of a number; a whole number of this length is still finite as a float.
NUMBER_LENGTH_MAX: Final = 300

#: The number of characters of a caller's text that a message repeats.
_SHOWN_MAX: Final = 100

#: A text, or the beginning of another value.  It does not backtrack and takes linear time.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[,\[{]', re.DOTALL)
_UNUSABLE: Final = re.compile("[\\x00\ud800-\udfff]")


class BadJson(ValueError):
    """The text is not JSON or exceeds a limit; the message is for its author."""


class TooManyValues(BadJson):
    """The text has too many values; the caller can split it into several requests."""


def read_json(data: bytes, values_max: int = VALUES_MAX) -> Any:
    """Return the value of a JSON text in UTF-8.  Raises BadJson and no other error."""
    openings = data.count(b"[") + data.count(b"{")
    if openings + data.count(b",") > values_max:
        _count(data, values_max)
    document = _parsed(data)
    if b"\\u" in data:
        check_document(document)
    elif openings > DEPTH_MAX:
        _check_depth(document)
    return document


def read_object(data: bytes) -> dict[str, Any]:
    """Return the object of a JSON text; blanks give an empty one.  Raises BadJson."""
    document = read_json(data) if data.strip() else {}
    if not isinstance(document, dict):
        raise BadJson("The body must be an object, in braces")
    return document


def check_document(document: Any) -> None:
    """Check a document from another reader: its depth, and every text.

    No database can store unpaired surrogates and U+0000.  Raises BadJson.
    """
    for level in _levels(document):
        for value in level:
            if isinstance(value, str):
                _check_characters(value)
            elif isinstance(value, dict):
                _check_characters("".join(value))


def _check_depth(document: Any) -> None:
    for _ in _levels(document):
        pass


def _levels(document: Any) -> Iterator[list[Any]]:
    """Yield the values of a document, level by level.

    Raises BadJson below the deepest allowed level.
    """
    level = [document]
    for _ in range(DEPTH_MAX + 1):
        yield level
        nested = [item for item in level if isinstance(item, (dict, list))]
        if not nested:
            return
        level = [child for item in nested for child in _items(item)]
    raise BadJson(f"The JSON is nested more than {DEPTH_MAX} deep")


def _items(item: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return item.values() if isinstance(item, dict) else item


def _check_characters(text: str) -> None:
    match = _UNUSABLE.search(text)
    if match and match[0] == "\0":
        raise BadJson("A text must not contain the character U+0000")
    if match:
        raise BadJson("A text has an unpaired surrogate, which is not a character")


def _count(data: bytes, values_max: int) -> None:
    """Count values.

    Texts may contain commas and brackets, so they are skipped.  A value adds one comma or bracket
    and at most two texts: itself and its name.
    """
    tokens = _TOKEN.finditer(data)
    values = sum(data[token.start()] != _QUOTE for token in islice(tokens, 3 * values_max))
    if values > values_max or next(tokens, None):
        raise TooManyValues(f"The JSON has more than {values_max} values")


_QUOTE: Final = ord('"')


def _parsed(data: bytes) -> Any:
    try:
        return _DECODER.decode(data.decode("utf-8-sig"))
    except BadJson:
        raise
    except json.JSONDecodeError as error:
        message = f"{error.msg} at line {error.lineno} column {error.colno}"
    except UnicodeDecodeError as error:
        message = f"The body is not UTF-8 at byte {error.start}"
    except RecursionError:
        message = f"The JSON is nested more than {DEPTH_MAX} deep"
    raise BadJson(message) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise BadJson(
            f"{_find_duplicate(name for name, _ in pairs)!r} is given twice in one object"
        )
    if max(map(len, members), default=0) > NAME_LENGTH_MAX:
        name = max(members, key=len)[:_SHOWN_MAX]
        message = f"The name that begins with {name!r} has more than {NAME_LENGTH_MAX} characters"
        raise BadJson(message)
    return members


def _find_duplicate(names: Iterable[str]) -> str:
    previous: set[str] = set()
    return next(name for name in names if name in previous or previous.add(name))[:_SHOWN_MAX]  # type: ignore[func-returns-value]  # add returns None


def _whole(text: str) -> int:
    return int(_short(text))


def _fraction(text: str) -> float:
    number = float(_short(text))
    if not math.isfinite(number):
        raise BadJson(f"{text} is too large for a number")
    return number


def _short(text: str) -> str:
    if len(text) > NUMBER_LENGTH_MAX:
        message = f"The number that begins with {text[:20]} has over {NUMBER_LENGTH_MAX} digits"
        raise BadJson(message)
    return text


def _no_number(text: str) -> NoReturn:
    raise BadJson(f"{text} is not a JSON number")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_float=_fraction, parse_constant=_no_number
)
