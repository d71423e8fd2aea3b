"""Refusals as sentences that stand alone, and violations in the caller's own words.

Many clients show the message of a refusal and nothing else.  It ends without a full stop, because
gcloud goes on behind it (docs/sources/gcloud.md 8.1).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainshed.model.faults import FieldPath, Violation
from trainshed.model.refusals import Code, Refusal

#: How many violations the message itself tells, and how much of each.
SHOWN_MAX = 3
SHOWN_LENGTH_MAX = 600


def invalid(violations: Sequence[Violation]) -> Refusal:
    """The refusal of a document: the first violations in the message, all of them beside it."""
    sentences = [sentence(violation) for violation in violations[:SHOWN_MAX]]
    rest = len(violations) - len(sentences)
    message = "; ".join(sentences) + (f"; and {rest} more" if rest else "")
    return Refusal(Code.INVALID_ARGUMENT, message, violations)


def sentence(violation: Violation) -> str:
    """One violation: where, what, and what would be accepted."""
    accepted = f" (accepted: {violation.accepted})" if violation.accepted else ""
    text = f"{violation.field}: {violation.message.rstrip('.')}{accepted}".removeprefix(": ")
    return text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}..."


def not_found(name: str) -> Refusal:
    """The refusal for a resource that is not there, whether it ever was or not."""
    return Refusal(Code.NOT_FOUND, f"{name} does not exist")


Say = Callable[[FieldPath], str]


def in_words(violations: Iterable[Violation], say: Say) -> tuple[Violation, ...]:
    """Violations with the caller's words for their fields, none of them twice."""
    reworded = (
        v if isinstance(v.field, str) else replace(v, field=say(v.field)) for v in violations
    )
    return tuple(dict.fromkeys(reworded))


def one_a_field(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    """The first violation of each field: groups that inherit one program break one rule alike."""
    first: dict[str, Violation] = {}
    for violation in violations:
        first.setdefault(str(violation.field), violation)
    return tuple(first.values())


def unchanged(wire_path: str) -> str:
    """The caller's word for a field of a file: its dotted path."""
    return wire_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A document with flags applied; ``words`` turns a dotted wire path into the caller's word.

    ``region`` is one that a flag gives beside the document, as Vertex calls have it.
    """

    content: dict[str, Any]
    words: Callable[[str], str] = unchanged
    region: str | None = None
    region_word: str = "--region"
