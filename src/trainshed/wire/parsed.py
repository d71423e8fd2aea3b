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
    """Convert ``workerPoolSpecs`` to ``worker_pool_specs``."""
    return _HUMP.sub("_", name).lower()


#: With at least this share of equal letters, a word counts as a misspelled name.
_ALIKE = 0.8


def nearest_field(word: str, names: Iterable[str]) -> str | None:
    """Return the most similar name, if both share a word or most letters; else None."""
    nearest = nearest_name(word, names)
    if nearest is None or _name_words(word) & _name_words(nearest):
        return nearest
    is_similar = (
        difflib.SequenceMatcher(None, letters_of(word), letters_of(nearest)).ratio() >= _ALIKE
    )
    return nearest if is_similar else None


def _name_words(name: str) -> set[str]:
    return set(re.split(r"[-_\s]", snake(name)))


def hint(word: str, names: Iterable[str]) -> str:
    """Return ``; did you mean X?``, empty without a similar name or a name that contains it."""
    candidates = tuple(names)
    nearest = nearest_name(word, candidates) or _find_containing(word, candidates)
    return did_you_mean(nearest)


_PART_MIN: Final = 3


def _find_containing(word: str, names: Iterable[str]) -> str | None:
    letters = letters_of(word)
    containing = (
        name for name in names if len(letters) >= _PART_MIN and letters in letters_of(name)
    )
    return min(containing, key=len, default=None)


def as_written(document: Any, path: str) -> str:
    """Return a dotted camelCase path with each key in the case that the document has.

    Leaves out the list position of a value that the document has instead of a list.
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
    """Return a key in snake_case if the document has only that form, else unchanged."""
    if isinstance(place, Mapping) and name not in place and snake(name) in place:
        return snake(name)
    return name


Words = Callable[[FieldPath], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note for the user about the field at a dotted path; not a violation."""

    field: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A parsed document.

    ``spec`` is None only if the document is not a job.  Faulty fields are absent from it, so that
    admission can report further violations in the same response.  The fields of violations are
    dotted paths of the caller's document; ``words`` converts a path of the model to such a path.
    """

    spec: JobSpec | None
    violations: tuple[Violation, ...]
    words: Words
    notes: tuple[Note, ...] = ()


def in_own_spelling(words: Words, document: Mapping[str, Any]) -> Words:
    """Return a function like ``words``, whose paths have the key case of the document."""
    return partial(_words_as_written, words, document)


def _words_as_written(words: Words, document: Mapping[str, Any], path: FieldPath) -> str:
    return as_written(document, words(path))


def compact(value: Any) -> str:
    """Return JSON without blanks and with sorted keys, the form of documents in a spec."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def without(violations: Iterable[Violation], reported: Iterable[Violation]) -> Iterator[Violation]:
    """Return the violations at fields without another violation, so that a cause is reported once.

    A list with a faulty element, and an object with an unknown field, get no other violations.
    """
    fields = {place for violation in reported for place in _fields_of(violation)}
    return (violation for violation in violations if violation.field not in fields)


_ELEMENT = re.compile(r"\[\d+\]$")


def _fields_of(violation: Violation) -> Iterator[str]:
    field = str(violation.field)
    yield field
    if violation.rule == "wrong-type":
        yield _ELEMENT.sub("", field)
    elif violation.rule == "unknown-field":
        yield field.rpartition(".")[0]
