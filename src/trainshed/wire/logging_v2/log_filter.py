"""Compiles the filter of ``entries:list``, in Google's Logging query language.

A filter is parsed once and compiled to one function of an entry.  ``narrowing`` derives from the
same tree the jobs, tasks, times and bytes with which the reader of log files skips most lines.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from trainshed.wire.filter_text import (
    Comparison,
    Conjunction,
    Disjunction,
    FunctionCall,
    Negation,
    Phrase,
    Tree,
    Value,
    read_filter_text,
    refusal_at,
)
from trainshed.wire.logging_v2.comparing import (
    ORDERS,
    SEVERITY_RANKS,
    contains,
    equals,
    fold,
    is_ordered,
    number_of,
    severities_where,
    tokens_of,
)
from trainshed.wire.logging_v2.log_entry import LogEntry
from trainshed.wire.logging_v2.log_fields import FIELD_NAMES, FieldKind, LogField, find_field
from trainshed.wire.logging_v2.regular_expressions import BadExpression, compile_expression
from trainshed.wire.times import nanoseconds

#: The length limit of Google.
LENGTH_MAX: Final = 20_000
EXPRESSIONS_MAX: Final = 20

Matches = Callable[[LogEntry], bool]

_FUNCTIONS: Final = 'log_id("TASK"), SEARCH("WORDS"), SEARCH(FIELD, "WORDS"), sample(insertId, 0.1)'
_FRACTION_SPAN: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class LogFilter:
    """A parsed filter: its tree, and the function that says whether an entry matches."""

    tree: Tree
    matches: Matches


def read_log_filter(text: str) -> LogFilter:
    """Parse a filter; a blank filter matches all entries.

    Raises Refusal (INVALID_ARGUMENT) with the position and the text that is accepted at it.
    """
    tree = read_filter_text(text, LENGTH_MAX)
    return LogFilter(tree, _Compiler(text).compile(tree))


def time_of(value: Value) -> int:
    """Parse a time of a filter to ns since 1970.  Raises ValueError."""
    return nanoseconds(value.text)


def severity_rank(value: Value) -> int | None:
    """Return the rank of a severity's name or number; None for an unknown name."""
    if value.text.isascii() and value.text.isdecimal():
        return int(value.text[:5])
    return SEVERITY_RANKS.get(value.text.upper())


def is_existence(written: Comparison) -> bool:
    """Whether a comparison is ``field:*``."""
    return written.operator == ":" and written.value.text == "*" and not written.value.is_quoted


class _Compiler:
    """Compiles a tree to one function.  Refusals have the position in the filter's text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._expressions = 0

    def compile(self, tree: Tree) -> Matches:
        match tree:
            case Negation(item=item):
                return _negate(self.compile(item))
            case Conjunction(items=items):
                return _join_all([self.compile(item) for item in items])
            case Disjunction(items=items):
                return _join_any([self.compile(item) for item in items])
            case Phrase(value=value):
                return _find_anywhere(value.text)
            case FunctionCall():
                return self._compile_call(tree)
            case Comparison():
                return self._compile_comparison(tree)

    def _compile_comparison(self, written: Comparison) -> Matches:
        field = self._find(written.path, written.position)
        if written.operator in ("=~", "!~"):
            return self._compile_expression(field, written)
        if is_existence(written):
            return lambda entry: any(value not in (None, {}, []) for value in field.read(entry))
        if field.kind is FieldKind.TIME:
            return self._compile_time(field, written)
        if field.kind is FieldKind.SEVERITY:
            return self._compile_severity(written)
        return _compare_values(field, written.operator, written.value.text)

    def _find(self, path: tuple[str, ...], position: int) -> LogField:
        field = find_field(path)
        if field is None:
            raise refusal_at(
                self._text,
                position,
                f"a field of a LogEntry ({FIELD_NAMES}), or a phrase in quotes",
            )
        return field

    def _compile_time(self, field: LogField, written: Comparison) -> Matches:
        sign = "=" if written.operator == ":" else written.operator
        compare = ORDERS[sign]
        try:
            stamp_ns = time_of(written.value)
        except ValueError:
            accepted = 'a time such as "2026-11-21T00:02:39Z"'
            raise refusal_at(self._text, written.value.position, accepted) from None
        return lambda entry: compare(field.read(entry)[0], stamp_ns)

    def _compile_severity(self, written: Comparison) -> Matches:
        rank = severity_rank(written.value)
        if rank is None:
            names = ", ".join(SEVERITY_RANKS)
            raise refusal_at(self._text, written.value.position, f"a severity: {names}")
        severities = severities_where(written.operator, rank)
        return lambda entry: entry.line.severity in severities

    def _compile_expression(self, field: LogField, written: Comparison) -> Matches:
        """Compile ``=~`` or ``!~`` with a regular expression."""
        position = written.value.position
        if field.kind is FieldKind.TIME:
            accepted = "a field of text: =~ and !~ do not compare times"
            raise refusal_at(self._text, written.position, accepted)
        self._expressions += 1
        if self._expressions > EXPRESSIONS_MAX:
            raise refusal_at(self._text, position, f"at most {EXPRESSIONS_MAX} regular expressions")
        try:
            finds = compile_expression(written.value.text)
        except BadExpression as error:
            accepted = f"a regular expression of RE2 ({error})"
            raise refusal_at(self._text, position, accepted) from None
        expects_match = written.operator == "=~"

        def matches(entry: LogEntry) -> bool:
            texts = [value for value in _values(field, entry) if isinstance(value, str)]
            return bool(texts) and any(map(finds, texts)) is expects_match

        return matches

    def _compile_call(self, call: FunctionCall) -> Matches:
        """Compile a call of one of Google's filter functions."""
        arguments = [argument.text for argument in call.arguments]
        match call.name.lower(), arguments:
            case "log_id", [log_id]:
                folded = fold(log_id)
                return lambda entry: fold(entry.line.task_name) == folded
            case "search", [words]:
                return _search(words, lambda entry: list(entry.searched_values()))
            case "search", [path, words]:
                field = self._find(tuple(path.split(".")), call.arguments[0].position)
                return _search(words, lambda entry: _values(field, entry))
            case "sample", [path, fraction] if 0 <= (number_of(fraction) or 0) <= 1:
                field = self._find(tuple(path.split(".")), call.arguments[0].position)
                return _sample(field, number_of(fraction) or 0.0)
        raise refusal_at(self._text, call.position, f"one of the functions {_FUNCTIONS}")


def _negate(matches: Matches) -> Matches:
    return lambda entry: not matches(entry)


def _join_all(items: list[Matches]) -> Matches:
    return lambda entry: all(matches(entry) for matches in items)


def _join_any(items: list[Matches]) -> Matches:
    return lambda entry: any(matches(entry) for matches in items)


def _find_anywhere(text: str) -> Matches:
    folded, number = fold(text), number_of(text)

    def matches(entry: LogEntry) -> bool:
        return any(contains(value, folded, number) for value in entry.searched_values())

    return matches


def _values(field: LogField, entry: LogEntry) -> list[Any]:
    """Return the values of a field; a field that is never set has an empty string."""
    return [""] if field.kind is FieldKind.UNSET else list(field.read(entry))


def _compare_values(field: LogField, sign: str, text: str) -> Matches:
    is_name = field.kind is FieldKind.NAME
    folded, number = (text, None) if is_name else (fold(text), number_of(text))
    holds = _comparison(sign, is_name=is_name)
    if field.kind is FieldKind.UNSET:
        passes = holds("", folded, None) or (number is not None and holds(0, folded, number))
        return lambda _: passes
    return lambda entry: any(holds(value, folded, number) for value in field.read(entry))


def _comparison(sign: str, *, is_name: bool) -> Callable[[Any, str, float | None], bool]:
    """Return the function that compares a value with a filter's text by an operator."""
    if is_name:
        if sign == ":":
            return lambda value, text, _: text in value
        return lambda value, text, _: ORDERS[sign](value, text)
    if sign == ":":
        return contains
    if sign == "=":
        return equals
    if sign == "!=":
        return lambda value, folded, number: not equals(value, folded, number)
    return lambda value, folded, number: is_ordered(value, sign, folded, number)


def _search(words: str, read: Callable[[LogEntry], list[Any]]) -> Matches:
    """Compile SEARCH: matches whole words in any order, and phrases between backquotes."""
    phrases = [tokens for tokens in map(tokens_of, words.split("`")[1::2]) if tokens]
    single = {token for part in words.split("`")[::2] for token in tokens_of(part)}

    def matches(entry: LogEntry) -> bool:
        texts = [tokens_of(value) for value in read(entry) if isinstance(value, str)]
        if not single <= {token for tokens in texts for token in tokens}:
            return False
        return all(any(_has_run(tokens, phrase) for tokens in texts) for phrase in phrases)

    return matches


def _has_run(tokens: list[str], phrase: list[str]) -> bool:
    """Whether the words of a phrase follow each other in a text."""
    starts = range(len(tokens) - len(phrase) + 1)
    return any(tokens[start : start + len(phrase)] == phrase for start in starts)


def _sample(field: LogField, fraction: float) -> Matches:
    """Compile sample: matches a fraction of the entries by a hash of the field's values."""
    limit = int(fraction * _FRACTION_SPAN)

    def matches(entry: LogEntry) -> bool:
        text = "\n".join(map(str, _values(field, entry)))
        digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
        return int.from_bytes(digest[:8], "big") < limit

    return matches
