"""What a document became: the model's spec, what was wrong, and how its author calls its fields."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from trainshed.model.faults import FieldPath, Violation
from trainshed.model.job import JobSpec
from trainshed.wire.spelling import as_written

Words = Callable[[FieldPath], str]


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


def in_own_spelling(words: Words, document: Mapping[str, Any]) -> Words:
    """A dialect's words for the fields of a document, in the key case of that document."""
    return partial(_in_own_spelling, words, document)


def _in_own_spelling(words: Words, document: Mapping[str, Any], path: FieldPath) -> str:
    return as_written(document, words(path))


def compact(value: Any) -> str:
    """JSON without blanks, keys in order: the form in which documents travel in a spec."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def without(found: Iterable[Violation], known: Iterable[Violation]) -> Iterator[Violation]:
    """The violations at fields of which nothing is known yet: one cause is told once."""
    fields = {violation.field for violation in known}
    return (violation for violation in found if violation.field not in fields)
