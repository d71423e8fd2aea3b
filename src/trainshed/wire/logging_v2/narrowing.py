"""Derives from a filter the jobs, trials, times and lines that the reader of log files may skip.

No function skips an entry that matches the filter; the other entries are still compared as a whole.
Without these functions a search in a million lines would parse all of them.
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

#: For each clause the bytes of a line, in lower case, must contain at least one of its texts.
ByteClauses = tuple[tuple[bytes, ...], ...]

#: The start of a JSON escape in a structured line, which may stand for any letter; the file
#: escapes its backslash once more.
_ESCAPE: Final = b"\\\\u"
#: The start of the text of a structured line in the file.
_OBJECT: Final = b'"{'
#: Characters that are not escaped in a stored line or in a logName.
_PLAIN = re.compile(r"[ !#$&-.0-\[\]-~]+")


@dataclass(frozen=True, slots=True)
class Range:
    """Stamps in ns from ``from_ns`` until before ``before_ns``; None for no end."""

    from_ns: int = 0
    before_ns: int | None = None


def time_range(tree: Tree) -> Range:
    """Return a range with the stamps of all entries that may match."""
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
    """Return the stamps that match a comparison with one stamp."""
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
    """Return the ids of the jobs whose entries may match; None for all jobs."""
    return _names(tree, ("resource", "labels", "job_id"))


def task_names(tree: Tree) -> frozenset[str] | None:
    """Return the tasks, in lower case, whose entries may match; None for all tasks."""
    return _names(tree, ("resource", "labels", "task_name"))


def trial_numbers(tree: Tree) -> frozenset[str] | None:
    """Return the trials whose entries may match; None for all trials."""
    return _names(tree, ("labels", TRIAL_LABEL))


def _names(tree: Tree, path: tuple[str, ...]) -> frozenset[str] | None:
    """Return the values with which a field may match; None if any value may."""
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
    """Return the texts that a stored line must contain for its entry to match.

    Leaves out words of the project, job and trial, which match without being in the line.
    """
    common = fold("\n".join((log_name_prefix(project), project, job_id, trial, RESOURCE_TYPE)))
    return _clauses(tree, lambda needle: needle in common)


def _clauses(tree: Tree, is_common: Callable[[str], bool]) -> ByteClauses:
    """Return the byte clauses of a tree; empty if it has none."""
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
    """Return one clause that is true if any part is true; none if a part has no clause."""
    if not parts or not all(parts):
        return ()
    best = (max(clauses, key=_shortest) for clauses in parts)
    return (tuple(dict.fromkeys(text for clause in best for text in clause)),)


def _shortest(clause: tuple[bytes, ...]) -> float:
    """Return the length of a clause's shortest text; longer texts skip more lines."""
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
    """Return the clause of a text: its longest unescaped part, which all matching lines contain."""
    needle = max(_PLAIN.findall(fold(text)), key=len, default="")
    if not needle or is_common(needle):
        return ()
    structured = (_OBJECT,) if number_of(text) is not None else ()
    return ((needle.encode(), _ESCAPE, *structured),)


def _kind(written: Comparison) -> FieldKind | None:
    field = find_field(written.path)
    return None if field is None else field.kind
