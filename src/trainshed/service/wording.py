"""Turns paths of the model into the caller's words, so that a violation names what was written."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from trainshed.model.faults import FieldPath, Violation

Say = Callable[[FieldPath], str]


def in_words(found: Iterable[Violation], say: Say) -> tuple[Violation, ...]:
    """Violations with the caller's words for their fields, none of them twice."""
    told = (v if isinstance(v.field, str) else replace(v, field=say(v.field)) for v in found)
    return tuple(dict.fromkeys(told))


def one_a_field(found: Iterable[Violation]) -> tuple[Violation, ...]:
    """The first violation of each field: groups that inherit one program break one rule alike."""
    first: dict[str, Violation] = {}
    for violation in found:
        first.setdefault(str(violation.field), violation)
    return tuple(first.values())
