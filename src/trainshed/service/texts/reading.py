"""Reads the text of one job, and finds the lines of violations in it.

The text is untrusted: it may be no YAML, several documents, or have aliases without end.  Every
fault of it is a violation with a line and a column, as far as they are known.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from trainshed.model.faults import FieldPath, UsageFault, Violation
from trainshed.model.json_reader import BadJson, check_document
from trainshed.service.jobs.merging import FLAGS_KEY, merge_any
from trainshed.service.jobs.refusing import Merged
from trainshed.service.jobs.submission import LOCATION
from trainshed.service.texts.answers import TextViolation
from trainshed.wire.detect import DocumentKind, kind_of
from trainshed.wire.documents import JobDocument, read_documents
from trainshed.wire.text_nodes import DocumentFault, Lines, TextNode, TextSpan, locate

#: What messages call the text.
SOURCE: Final = "the text"
#: What some editors write at the beginning of a text; it is not part of the document.
BYTE_ORDER_MARK: Final = "\ufeff"
#: The most characters of a text: a job has a few thousand.
TEXT_LENGTH_MAX: Final = 1 << 20

#: Rules about a field's name, not its value.
_OF_NAMES: Final = frozenset({"unknown-field", "duplicate-field", "not-a-job"})


class Unreadable(Exception):
    """A text that cannot be read as one job, with its only violation."""

    def __init__(self, violation: TextViolation) -> None:
        """Keep the violation."""
        super().__init__(violation.message)
        self.violation = violation


@dataclass(frozen=True)
class TextJob:
    """The text of one job, its kind and its document with its own flags applied.

    ``location`` is the region that was given beside the text.
    """

    kind: DocumentKind
    merged: Merged
    document: JobDocument
    location: str | None

    @cached_property
    def root(self) -> TextNode:
        """The ranges of the document's values in the text."""
        return self.document.make_node()

    @cached_property
    def lines(self) -> Lines:
        """The lines of the text."""
        return Lines(self.document.text)

    def locate_violations(self, violations: Iterable[Violation]) -> Sequence[TextViolation]:
        """Return the violations with their ranges in the text."""
        return [self._locate(violation) for violation in violations]

    def _locate(self, violation: Violation) -> TextViolation:
        field = violation.field
        name = field.field.value if isinstance(field, FieldPath) else field
        if name == LOCATION:
            return text_violation(violation, name)
        span = find_span(self.root, name, violation.rule)
        return _at_span(text_violation(violation, name), self.lines, span)


def _at_span(violation: TextViolation, lines: Lines, span: TextSpan) -> TextViolation:
    begin, end = lines.position(span.start), lines.position(span.end)
    return replace(
        violation,
        line=begin.line,
        column=begin.column,
        end_line=end.line,
        end_column=end.column,
    )


def find_span(root: TextNode, name: str, rule: str) -> TextSpan:
    """Return what to mark for a violation: the value, or the key of a large or missing one."""
    located = locate(root, _path_of(name))
    entry = located.entry
    if entry is None:
        first = next(iter(root.members()), None)
        return (first.key_span if first else None) or root.span
    value = entry.value
    is_plain = value.entries is None and value.span.end > value.span.start
    if is_plain and not located.rest and rule not in _OF_NAMES:
        return value.span
    first = next(iter(value.members()), None)
    return entry.key_span or (first.key_span if first else None) or value.span


def _path_of(name: str) -> str:
    """Return the path of a field; a flag is below the key of the file's own flags."""
    return f"{FLAGS_KEY}.{name.lstrip('-')}" if name.startswith("--") else name


def read_job_text(text: str, location: str | None) -> TextJob:
    """Read the text of one job; ``location`` is the region of a Vertex job, if one is given.

    Raises Unreadable.
    """
    document = _read_one(text)
    kind = kind_of(document.content)
    if isinstance(kind, Violation):
        raise Unreadable(_locate_alone(document, kind))
    try:
        merged = merge_any(document.content, {}, source=SOURCE)
    except UsageFault as fault:
        violation = Violation(field=FLAGS_KEY, rule="unreadable", message=str(fault))
        raise Unreadable(_locate_alone(document, violation)) from None
    if kind is not DocumentKind.ML_JOB and location:
        merged = replace(merged, region=location, region_word=LOCATION)
    return TextJob(kind, merged, document, location)


def _locate_alone(document: JobDocument, violation: Violation) -> TextViolation:
    name = str(violation.field)
    span = find_span(document.make_node(), name, violation.rule)
    return _at_span(text_violation(violation, name), Lines(document.text), span)


def _read_one(text: str) -> JobDocument:
    if len(text) > TEXT_LENGTH_MAX:
        raise Unreadable(unreadable(f"{SOURCE} must have at most {TEXT_LENGTH_MAX} characters"))
    try:
        first, *others = read_documents(text.removeprefix(BYTE_ORDER_MARK), SOURCE)
        check_document(first.content)
    except DocumentFault as fault:
        raise Unreadable(_at_fault(fault)) from None
    except BadJson as fault:
        raise Unreadable(unreadable(f"cannot read {SOURCE}: {fault}")) from None
    if others:
        message = f"{SOURCE} must have one document, got {len(others) + 1}; check each by itself"
        violation = Violation(field="", rule="unreadable", message=message)
        raise Unreadable(_locate_alone(others[0], violation))
    return first


def _at_fault(fault: DocumentFault) -> TextViolation:
    violation = unreadable(str(fault))
    if fault.position is None:
        return violation
    line, column = fault.position
    return replace(violation, line=line, column=column, end_line=line, end_column=column + 1)


def unreadable(message: str) -> TextViolation:
    """Return the violation of a text that cannot be read."""
    return TextViolation(field="", rule="unreadable", message=message)


def text_violation(violation: Violation, name: str) -> TextViolation:
    """Return a violation without a range."""
    return TextViolation(
        field=name,
        rule=violation.rule,
        message=violation.message,
        accepted=violation.accepted or None,
    )
