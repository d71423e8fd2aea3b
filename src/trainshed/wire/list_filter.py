"""The filter texts of lists, read as AIP-160 says: OR binds tighter than AND.

``a OR b AND c`` means ``(a OR b) AND c``; terms beside each other are joined by AND.  Which fields
and states there are is a dialect's ``FilterWords``.
"""

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from trainshed.model.filters import AllOf, AnyOf, Filter, Not
from trainshed.model.refusals import Code, Refusal
from trainshed.wire.list_filter_words import FilterWords, Restriction, Unfit, meaning

LENGTH_MAX: Final = 8192
DEPTH_MAX: Final = 50

_BLANKS = re.compile(r"\s*")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMPARATOR = re.compile(r"<=|>=|!=|[=:<>]")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'', re.DOTALL)
_KEY = re.compile(r"[^\s.:=<>!()\"']+")
_VALUE = re.compile(r"[^\s()\"']+")
_KEYWORD = re.compile(r"(AND|OR|NOT)(?![^\s()])")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TOLD_MAX = 20


def read_filter(text: str, words: FilterWords) -> Filter:
    """The meaning of a filter; a blank one lets everything pass.

    Raises Refusal (INVALID_ARGUMENT) that names the position and what is accepted there.
    """
    if len(text) > LENGTH_MAX:
        message = f"the filter has {len(text)} characters; at most {LENGTH_MAX} are read"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    reader = _Reader(text, words)
    return AllOf() if reader.is_at_end else reader.whole()


@dataclass(slots=True)
class _Reader:
    """A place in a filter text, and the grammar as one method a rule."""

    text: str
    words: FilterWords
    at: int = 0
    depth: int = 0

    def __post_init__(self) -> None:
        self._skip_blanks()

    @property
    def is_at_end(self) -> bool:
        return self.at == len(self.text)

    def whole(self) -> Filter:
        found = self._expression()
        if not self.is_at_end:
            self._refuse("AND, OR or the end of the filter")
        return found

    def _expression(self) -> Filter:
        """Factors, joined by AND or by nothing."""
        items = [self._factor()]
        while not self.is_at_end and self.text[self.at] != ")":
            self._keyword("AND")
            items.append(self._factor())
        return items[0] if len(items) == 1 else AllOf(tuple(items))

    def _factor(self) -> Filter:
        items = [self._term()]
        while self._keyword("OR"):
            items.append(self._term())
        return items[0] if len(items) == 1 else AnyOf(tuple(items))

    def _term(self) -> Filter:
        if self._keyword("NOT") or self._literal("-"):
            return Not(self._simple())
        return self._simple()

    def _simple(self) -> Filter:
        opened_at = self.at
        if not self._literal("("):
            return self._restriction()
        self.depth += 1
        if self.depth > DEPTH_MAX:
            self._refuse(f"parentheses at most {DEPTH_MAX} deep", opened_at)
        found = self._expression()
        if not self._literal(")"):
            self._refuse(f"the ')' of the '(' at character {opened_at + 1}")
        self.depth -= 1
        return found

    def _restriction(self) -> Filter:
        at = self.at
        if _KEYWORD.match(self.text, at):
            self._refuse("a comparison")
        field = self._match(_FIELD, "a field: " + self.words.fields_told)
        key = self._key() if self.text[self.at : self.at + 1] == "." else None
        self._skip_blanks()
        operator = self._match(_COMPARATOR, "one of = != : < <= > >=")
        self._skip_blanks()
        value = self._value()
        self._skip_blanks()
        try:
            return meaning(Restriction(field, key, operator, value), self.words)
        except Unfit as unfit:
            self._refuse(unfit.accepted, at)

    def _key(self) -> str:
        self.at += 1
        quoted = self._quoted()
        return self._match(_KEY, "the key of a label") if quoted is None else quoted

    def _value(self) -> str:
        quoted = self._quoted()
        return self._match(_VALUE, "a value, in quotes if need be") if quoted is None else quoted

    def _quoted(self) -> str | None:
        found = _QUOTED.match(self.text, self.at)
        if not found:
            return None
        self.at = found.end()
        return _ESCAPED.sub(r"\1", found[1] if found[1] is not None else found[2])

    def _match(self, pattern: re.Pattern[str], wanted: str) -> str:
        found = pattern.match(self.text, self.at)
        if not found:
            self._refuse(wanted)
        self.at = found.end()
        return found[0]

    def _keyword(self, word: str) -> bool:
        found = _KEYWORD.match(self.text, self.at)
        return bool(found) and found is not None and found[1] == word and self._literal(word)

    def _literal(self, literal: str) -> bool:
        if not self.text.startswith(literal, self.at):
            return False
        self.at += len(literal)
        self._skip_blanks()
        return True

    def _skip_blanks(self) -> None:
        blanks = _BLANKS.match(self.text, self.at)
        self.at = blanks.end() if blanks else self.at

    def _refuse(self, wanted: str, at: int | None = None) -> NoReturn:
        at = self.at if at is None else at
        rest = self.text[at:]
        found = repr(rest[:_TOLD_MAX]) + ("..." if len(rest) > _TOLD_MAX else "")
        message = f"the filter cannot be read at character {at + 1}: accepted is {wanted}, "
        message += f"not {found}" if rest else "and the filter ends there"
        raise Refusal(Code.INVALID_ARGUMENT, message)
