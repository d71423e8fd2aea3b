"""The result of parsing a document: spec, violations, and the spelling of its keys."""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from trainshed.model.faults import FieldPath, Violation
from trainshed.model.job import JobSpec
from trainshed.model.spelling import did_you_mean, letters_of, nearest_name

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def snake(name: str) -> str:
    """``workerPoolSpecs`` as ``worker_pool_specs``."""
    return _HUMP.sub("_", name).lower()


#: From this share of equal letters on, a name is taken for a misspelled one whatever its words.
_ALIKE = 0.8


def nearest_field(word: str, names: Iterable[str]) -> str | None:
    """The nearest name, if both have a word in common or nearly all of their letters."""
    near = nearest_name(word, names)
    if near is None or _name_words(word) & _name_words(near):
        return near
    alike = difflib.SequenceMatcher(None, letters_of(word), letters_of(near)).ratio() >= _ALIKE
    return near if alike else None


def _name_words(name: str) -> set[str]:
    return set(re.split(r"[-_\s]", snake(name)))


def hint(word: str, names: Iterable[str]) -> str:
    """``; did you mean X?``, or nothing.  A part of a name stands for the shortest that has it."""
    candidates = tuple(names)
    near = nearest_name(word, candidates) or _having(word, candidates)
    return did_you_mean(near)


_PART_MIN: Final = 3


def _having(word: str, names: Iterable[str]) -> str | None:
    part = letters_of(word)
    having = (name for name in names if len(part) >= _PART_MIN and part in letters_of(name))
    return min(having, key=len, default=None)


def as_written(document: Any, path: str) -> str:
    """A dotted camelCase path, each key spelled as the document spells it where it has it.

    What stands alone where a list belongs has no position.
    """
    place, words = document, []
    for step in path.split("."):
        name, bracket, index = step.partition("[")
        key = _key(place, name)
        place = place.get(key) if isinstance(place, Mapping) else None
        is_alone = bracket and not isinstance(place, list) and place is not None
        words.append(key if is_alone else f"{key}{bracket}{index}")
        if bracket and not is_alone:
            position = int(index.rstrip("]"))
            place = place[position] if place is not None and position < len(place) else None
    return ".".join(words)


def _key(place: Any, name: str) -> str:
    """Snake case is chosen only where the document has that key and not the other."""
    if isinstance(place, Mapping) and name not in place and snake(name) in place:
        return snake(name)
    return name


Words = Callable[[FieldPath], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note for the user at a dotted wire path, not a fault."""

    field: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A document read.

    ``spec`` is None only for what is no job at all.  Faulty fields are absent from it, so that
    admission can report what else is wrong in the same answer.  The violations' fields are the
    caller's own dotted paths; ``words`` says the same of a path of the model.
    """

    spec: JobSpec | None
    violations: tuple[Violation, ...]
    words: Words
    notes: tuple[Note, ...] = ()


def in_own_spelling(words: Words, document: Mapping[str, Any]) -> Words:
    """A dialect's words for the fields of a document, in the key case of that document."""
    return partial(_in_own_spelling, words, document)


def _in_own_spelling(words: Words, document: Mapping[str, Any], path: FieldPath) -> str:
    return as_written(document, words(path))


def compact(value: Any) -> str:
    """JSON without blanks, keys in order: the form in which documents travel in a spec."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def without(violations: Iterable[Violation], reported: Iterable[Violation]) -> Iterator[Violation]:
    """Return the violations at fields without another violation, so that a cause is reported once.

    A list that has an element which cannot be read, and an object that has an unknown field, are
    not judged besides.
    """
    fields = {place for violation in reported for place in _places_of(violation)}
    return (violation for violation in violations if violation.field not in fields)


_ELEMENT = re.compile(r"\[\d+\]$")


def _places_of(violation: Violation) -> Iterator[str]:
    field = str(violation.field)
    yield field
    if violation.rule == "wrong-type":
        yield _ELEMENT.sub("", field)
    elif violation.rule == "unknown-field":
        yield field.rpartition(".")[0]
