"""Reads the values of flags in the forms that gcloud's have: lists, key=value pairs, booleans.

A comma separates; a value that begins with ``^DELIMITER^`` chooses another separator, as gcloud's
do (``gcloud topic escaping``).
"""

import re
from typing import Any

from trainshed.model.faults import UsageFault

_DELIMITER = re.compile(r"\^([^^]+)\^(.*)", re.DOTALL)
_TRUE = {"true", "yes", "1", "y", "t"}
_FALSE = {"false", "no", "0", "n", "f"}


def words(text: str, delimiter: str = ",") -> list[str]:
    """``a,b`` as ``["a", "b"]``; an empty text has no words."""
    if match := _DELIMITER.fullmatch(text):
        delimiter, text = match.groups()
    return [word.strip() for word in text.split(delimiter)] if text.strip() else []


def pairs(flag: str, text: str) -> dict[str, str]:
    """``a=1,b=2`` as a mapping.  Raises UsageFault for a word with no ``=`` or a key twice."""
    found: dict[str, str] = {}
    for word in words(text):
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageFault(f"{flag} takes KEY=VALUE pairs separated by commas, not {word!r}")
        if key in found:
            raise UsageFault(f"{flag} has {key} twice")
        found[key] = value
    return found


def whole(flag: str, text: str) -> int:
    """A whole number, such as a count.  Raises UsageFault."""
    try:
        return int(text)
    except ValueError:
        raise UsageFault(f"{flag} takes a whole number, not {text!r}") from None


def boolean(flag: str, text: str) -> bool:
    """``true`` or ``false`` in any of the spellings that gcloud takes.  Raises UsageFault."""
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise UsageFault(f"{flag} takes true or false, not {text!r}")
    return word in _TRUE


def choice(text: str) -> str:
    """``standard-1`` as ``STANDARD_1``: gcloud's spelling of an enum's name."""
    return text.strip().upper().replace("-", "_")


def accelerator(flag: str, text: str) -> dict[str, Any]:
    """``count=4,type=nvidia-tesla-t4`` as an acceleratorConfig.  Both keys are required."""
    found = pairs(flag, text)
    if set(found) != {"count", "type"}:
        raise UsageFault(f"{flag} takes count=NUMBER,type=TYPE, not {text!r}")
    return {"count": whole(flag, found["count"]), "type": choice(found["type"])}


def text_of(value: Any) -> str:
    """A flag's value as it would stand on a command line; files may hold numbers and mappings."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ",".join(f"{key}={text_of(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ",".join(text_of(item) for item in value)
    return str(value)
