"""Suggests the accepted form of a value of the wrong type, for refusals."""

import json
from collections.abc import Mapping
from typing import Any, Final

from trainshed.model.durations import duration_of, seconds_of
from trainshed.model.spelling import letters_of
from trainshed.wire.fields import FieldInfo
from trainshed.wire.scalars import WANTED
from trainshed.wire.synonyms import ALONE, NAMED

#: The words that YAML 1.1 reads as true or false.
YAML_WORDS: Final = {True: "y, yes, on and true", False: "n, no, off and false"}

#: The most characters of a caller's text that an example repeats.
_SHOWN_MAX: Final = 80


def accepted_value(kind: str, item: Any) -> str:
    """Describe the values that a kind of field accepts, if possible with the intended value."""
    if kind == "string" and isinstance(item, bool):
        return f'a string, in quotes, such as "{"y" if item else "n"}"'
    if kind == "string" and isinstance(item, int | float):
        return f"a string; a number needs quotes: {_quote(item)}"
    if kind == "duration" and (seconds := _seconds(item)):
        return f'seconds with the letter s: "{duration_of(seconds)}"'
    return WANTED[kind][1]


def _quote(item: float) -> str:
    """Return a number in quotes; YAML drops the zero of a version such as 2.10."""
    text = repr(item)
    if isinstance(item, float) and text.partition(".")[2] == "1":
        return f'"{text}", or "{text}0", which YAML reads as {text} without quotes'
    return f'"{text}"'


def _seconds(item: Any) -> float:
    if isinstance(item, Mapping):
        item = item.get("seconds")
    if isinstance(item, bool) or not isinstance(item, str | int | float):
        return 0.0
    try:
        return seconds_of(str(item).replace(" ", ""))
    except ValueError:
        return 0.0


def list_of_named(message: str, item: Mapping[Any, Any]) -> str:
    """Return an example of a list for named elements that were written as one object.

    Empty if the object is a single element of such a list.
    """
    name_field, value_field = NAMED.get(message, ("", ""))
    if not name_field or not item or letters_of(name_field) in map(letters_of, map(str, item)):
        return ""
    name, value = next(iter(item.items()))
    if value_field and not isinstance(value, Mapping | list):
        example = value.upper() if value_field == "goal" and isinstance(value, str) else value
        return f"a list, such as [{{{name_field}: {name}, {value_field}: {_text_of(example)}}}]"
    return f"a list, such as [{{{name_field}: {name}, ...}}]" if isinstance(value, Mapping) else ""


#: Messages whose list users sometimes write as an object with a key for each element.
_NUMBERED: Final = frozenset({"WorkerPoolSpec"})


def are_elements(message: str, item: Mapping[Any, Any]) -> bool:
    """Whether an object's values are elements of a list: ``{chief: {...}, worker: {...}}``."""
    if message not in _NUMBERED or not all(isinstance(value, Mapping) for value in item.values()):
        return False
    return bool(item) and not any("spec" in str(key).lower() for key in item)


#: Messages that gcloud's flags write as ``count=1,type=T``.
_FLAGS: Final = frozenset({"AcceleratorConfig"})


def object_of(field: FieldInfo, item: Any) -> str:
    """Return an example of the object that a string or list was meant as; empty if unknown."""
    if pair := _object_of_pair(field.type, item):
        return pair
    if isinstance(item, str) and (field.kind == "map" or field.type in _FLAGS):
        pairs = [part.partition("=") for part in item[:_SHOWN_MAX].split(",") if "=" in part]
        if pairs:
            return f"{{{', '.join(f'{name}: {value}' for name, _, value in pairs)}}}"
    key = ALONE.get(field.type, "")
    if not key or isinstance(item, list) is not (key == "values"):
        return ""
    example = json.dumps(item, default=str)[:_SHOWN_MAX] if isinstance(item, list) else item
    return f"{{{key}: {example}}}"


def _object_of_pair(message: str, item: Any) -> str:
    """Return the object for an element that was written as ``NAME=VALUE``; empty for others."""
    name_field, value_field = NAMED.get(message, ("", ""))
    if not value_field or not isinstance(item, str) or "=" not in item:
        return ""
    name, _, value = item[:_SHOWN_MAX].partition("=")
    return f"{{{name_field}: {name}, {value_field}: {_text_of(value)}}}"


def _text_of(value: Any) -> str:
    return json.dumps(value if isinstance(value, str) else str(value))


def list_of_words(text: str, *, is_number: bool) -> str:
    """Return an example of the list that was written as one string with commas."""
    words = [word.strip() for word in text[:_SHOWN_MAX].split(",") if word.strip()]
    elements = words if is_number else [json.dumps(word) for word in words]
    return f"a list, such as [{', '.join(elements)}]"
