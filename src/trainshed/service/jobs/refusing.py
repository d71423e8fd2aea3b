"""Refusals as complete sentences, and violations in the caller's words.

Many clients show only the message of a refusal.  It ends without a full stop, because gcloud
appends to it (docs/sources/gcloud.md 8.1).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainshed.model.faults import FieldPath, Violation
from trainshed.model.refusals import Code, Refusal

#: How many violations the message has, and the characters of each.
SHOWN_MAX = 3
SHOWN_LENGTH_MAX = 600


def invalid(violations: Sequence[Violation]) -> Refusal:
    """Refuse a document: the message has the first violations, the details all of them."""
    sentences = [sentence(violation) for violation in violations[:SHOWN_MAX]]
    rest = len(violations) - len(sentences)
    message = "; ".join(sentences) + (f"; and {rest} more" if rest else "")
    return Refusal(Code.INVALID_ARGUMENT, message, violations)


def sentence(violation: Violation) -> str:
    """Format a violation: field, message, accepted values."""
    accepted = f" (accepted: {violation.accepted})" if violation.accepted else ""
    text = f"{violation.field}: {violation.message.rstrip('.')}{accepted}".removeprefix(": ")
    return text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}..."


def not_found(name: str) -> Refusal:
    """Refuse a request for a resource that does not exist."""
    return Refusal(Code.NOT_FOUND, f"{name} does not exist")


#: Returns the caller's name of a field.
Say = Callable[[FieldPath], str]


def in_words(violations: Iterable[Violation], say: Say) -> tuple[Violation, ...]:
    """Return the violations with the caller's names of fields, without duplicates."""
    reworded = (
        v if isinstance(v.field, str) else replace(v, field=say(v.field)) for v in violations
    )
    return tuple(dict.fromkeys(reworded))


def one_a_field(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    """Keep the first violation of each field: groups that share a program break the same rule."""
    first: dict[str, Violation] = {}
    for violation in violations:
        first.setdefault(str(violation.field), violation)
    return tuple(first.values())


def unchanged(wire_path: str) -> str:
    """Return the dotted path itself, the caller's name of a field in a file."""
    return wire_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A document with flags applied; ``words`` turns a dotted wire path into the caller's word.

    ``region`` is the region that a flag gives beside the document, as in Vertex calls.
    """

    content: dict[str, Any]
    words: Callable[[str], str] = unchanged
    region: str | None = None
    region_word: str = "--region"
