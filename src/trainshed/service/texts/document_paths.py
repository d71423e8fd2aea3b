"""Reads and sets values of a document by dotted paths, such as ``workerPoolSpecs[0].replicaCount``.

A name that has dots itself, as a label may, cannot be a path.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d{1,9})\]")
_MISSING: Final = object()


def steps_of(path: str) -> Sequence[str | int]:
    """Split ``a.b[0].c`` into ``a``, ``b``, 0, ``c``."""
    return [name or int(index) for name, index in _STEP.findall(path)]


def value_at(document: Any, path: str) -> Any:
    """Return the value at a path; None if there is none."""
    value = _look_up(document, steps_of(path))
    return None if value is _MISSING else value


def has_value(document: Any, path: str) -> bool:
    """Return whether a document has a value at a path, also if it is null."""
    return _look_up(document, steps_of(path)) is not _MISSING


def _look_up(value: Any, steps: Sequence[str | int]) -> Any:
    for step in steps:
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                return _MISSING
        elif not isinstance(value, Mapping) or step not in value:
            return _MISSING
        value = value[step]
    return value


def with_value(document: Mapping[str, Any], path: str, value: Any) -> dict[str, Any] | None:
    """Return a copy with a value at a path, and missing mappings on the way.

    A number becomes a text where the document has a text, as 64-bit numbers in JSON are.
    None if the path leads through a value that is no mapping, or a list without that element.
    """
    changed: dict[str, Any] = dict(document)
    *parents, last = steps_of(path)
    target: Any = changed
    for step in parents:
        if isinstance(step, str) and isinstance(target, dict) and target.get(step) is None:
            target[step] = {}
        inner = copy.copy(_look_up(target, [step]))  # aliases of YAML share it with other fields
        if inner is _MISSING:
            return None
        target[step] = inner
        target = inner
    if isinstance(last, int) or not isinstance(target, dict):
        return None
    target[last] = like(target.get(last), value)
    return changed


def like(old: Any, value: Any) -> Any:
    """Return a value as a text if the old value is one, and a text of digits else as a number."""
    if isinstance(old, str):
        return str(value)
    return int(value) if isinstance(value, str) and value.isdecimal() else value
