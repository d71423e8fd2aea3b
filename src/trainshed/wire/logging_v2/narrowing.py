"""Finds what a reader of files may skip for a filter: jobs, trials, times, lines by their bytes.

Every condition here passes at least what the filter passes: an entry that was not skipped is still
compared as a whole.  Without this, a search of a million lines would parse a million lines.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trainshed.model.log_line import SEVERITIES
from trainshed.wire.filter_text import (
    Comparison,
    Conjunction,
    Disjunction,
    FunctionCall,
    Phrase,
    Tree,
)
from trainshed.wire.logging_v2.comparing import NULL, fold, number_of, severities_where, tokens_of
from trainshed.wire.logging_v2.log_entry import RESOURCE_TYPE, TRIAL_LABEL, log_name_prefix
from trainshed.wire.logging_v2.log_fields import FieldKind, find_field
from trainshed.wire.logging_v2.log_filter import is_existence, severity_rank, time_of

#: Each of the clauses must have one of its texts among the line's bytes, in small letters.
ByteClauses = tuple[tuple[bytes, ...], ...]

#: In a structured line JSON may hide a letter behind this; it is escaped once more in the file.
_ESCAPE: Final = b"\\\\u"
#: How the text of a structured line begins in the file.
_OBJECT: Final = b'"{'
#: Characters that stand in a stored line, and in a logName, as they are.
_PLAIN = re.compile(r"[ !#$&-.0-\[\]-~]+")


@dataclass(frozen=True, slots=True)
class Range:
    """Stamps in ns from ``from_ns`` on and below ``before_ns``; None is without end."""

    from_ns: int = 0
    before_ns: int | None = None


def time_range(tree: Tree) -> Range:
    """The stamps of all entries that may pass."""
    match tree:
        case Conjunction(items=items) if items:
            ranges = [time_range(item) for item in items]
            ends = [r.before_ns for r in ranges if r.before_ns is not None]
            return Range(max(r.from_ns for r in ranges), min(ends, default=None))
        case Disjunction(items=items):
            ranges = [time_range(item) for item in items]
            ends = [r.before_ns for r in ranges if r.before_ns is not None]
            end = max(ends) if len(ends) == len(ranges) else None
            return Range(min(r.from_ns for r in ranges), end)
        case Comparison() if _kind(tree) is FieldKind.TIME and not is_existence(tree):
            return _compared_range(tree.operator, time_of(tree.value))
    return Range()


def _compared_range(operator: str, stamp_ns: int) -> Range:
    match operator:
        case "=" | ":":
            return Range(max(0, stamp_ns), stamp_ns + 1)
        case ">=":
            return Range(max(0, stamp_ns))
        case ">":
            return Range(max(0, stamp_ns + 1))
        case "<":
            return Range(0, stamp_ns)
        case "<=":
            return Range(0, stamp_ns + 1)
    return Range()


def job_ids(tree: Tree) -> frozenset[str] | None:
    """The jobs whose entries may pass; None where the filter does not say."""
    return _names(tree, ("resource", "labels", "job_id"))


def task_names(tree: Tree) -> frozenset[str] | None:
    """The tasks, in small letters, whose entries may pass; None where the filter does not say."""
    return _names(tree, ("resource", "labels", "task_name"))


def trial_numbers(tree: Tree) -> frozenset[str] | None:
    """The trials whose entries may pass; None where the filter does not say."""
    return _names(tree, ("labels", TRIAL_LABEL))


def _names(tree: Tree, path: tuple[str, ...]) -> frozenset[str] | None:
    match tree:
        case Conjunction(items=items):
            sets = [names for names in (_names(item, path) for item in items) if names is not None]
            return frozenset.intersection(*sets) if sets else None
        case Disjunction(items=items):
            sets = [names for names in (_names(item, path) for item in items) if names is not None]
            return frozenset.union(*sets) if len(sets) == len(items) else None
        case Comparison(operator="=") if tree.path == path:
            is_name = _kind(tree) is FieldKind.NAME
            return frozenset({tree.value.text if is_name else fold(tree.value.text)})
    return None


def byte_clauses(tree: Tree, *, project: str, job_id: str, trial: str) -> ByteClauses:
    """Return the texts that a stored line must hold for its entry to pass.

    A word may also stand in what all entries of a job have in common, so that is named.
    """
    common = fold("\n".join((log_name_prefix(project), project, job_id, trial, RESOURCE_TYPE)))
    return _clauses(tree, lambda needle: needle in common)


def _clauses(tree: Tree, is_common: Callable[[str], bool]) -> ByteClauses:
    match tree:
        case Conjunction(items=items):
            return tuple(clause for item in items for clause in _clauses(item, is_common))
        case Disjunction(items=items):
            return _join_clauses([_clauses(item, is_common) for item in items])
        case Phrase(value=value):
            return _text_clause(value.text, is_common)
        case FunctionCall(name=name, arguments=arguments) if name.lower() == "search" and arguments:
            words = tokens_of(arguments[-1].text)
            return tuple(clause for word in words for clause in _text_clause(word, is_common))
        case Comparison() if tree.operator not in ("=~", "!~") and not is_existence(tree):
            return _comparison_clause(tree)
    return ()


def _join_clauses(parts: list[ByteClauses]) -> ByteClauses:
    """Return one clause that is true if any part is; none if a part has no clause."""
    if not parts or not all(parts):
        return ()
    best = (max(clauses, key=_shortest) for clauses in parts)
    return (tuple(dict.fromkeys(text for clause in best for text in clause)),)


def _shortest(clause: tuple[bytes, ...]) -> float:
    """Return the length of a clause's shortest text: longer ones skip more.  No text skips all."""
    return min(map(len, clause), default=math.inf)


def _comparison_clause(written: Comparison) -> ByteClauses:
    field = find_field(written.path)
    if field is not None and field.kind is FieldKind.SEVERITY:
        return _severity_clause(written)
    if field is None or not field.in_line or written.operator not in (":", "="):
        return ()
    is_null = fold(written.value.text) == fold(NULL)
    return () if is_null else _text_clause(written.value.text, lambda _: False)


def _severity_clause(written: Comparison) -> ByteClauses:
    rank = severity_rank(written.value)
    names = severities_where(written.operator, rank) if rank is not None else frozenset(SEVERITIES)
    return () if len(names) == len(SEVERITIES) else (_severity_texts(names),)


def _severity_texts(names: frozenset[str]) -> tuple[bytes, ...]:
    return tuple(f'", "{name.lower()}", "'.encode() for name in SEVERITIES if name in names)


def _text_clause(text: str, is_common: Callable[[str], bool]) -> ByteClauses:
    """The longest plain part of a text: it is among the bytes of every line with the text."""
    needle = max(_PLAIN.findall(fold(text)), key=len, default="")
    if not needle or is_common(needle):
        return ()
    structured = (_OBJECT,) if number_of(text) is not None else ()
    return ((needle.encode(), _ESCAPE, *structured),)


def _kind(written: Comparison) -> FieldKind | None:
    field = find_field(written.path)
    return None if field is None else field.kind
