"""Parses the text of a list filter or log filter into a tree.

Google documents the same grammar for both (AIP-160 and the Logging query language).  NOT binds
tightest, then OR, then AND; adjacent terms are joined by AND.  Each dialect decides the meaning of
fields and functions.  The parser is written by hand: a grammar library would hide the position and
the accepted words that a refusal needs (decision 0075).
"""

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal

DEPTH_MAX: Final = 50
TERMS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Value:
    """The text after an operator, or a text alone; ``position`` is its first character, from 0."""

    text: str
    position: int
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """``path operator value``; the parts of the path have no dots and quotes."""

    path: tuple[str, ...]
    operator: str
    value: Value
    position: int


@dataclass(frozen=True, slots=True)
class Phrase:
    """A value without a field, which is searched in all fields."""

    value: Value


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function call: ``name(argument, ...)``."""

    name: str
    arguments: tuple[Value, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Negation:
    """NOT: matches if the tree does not."""

    item: "Tree"


@dataclass(frozen=True, slots=True)
class Conjunction:
    """AND: matches if all trees match; without trees it always matches."""

    items: tuple["Tree", ...] = ()


@dataclass(frozen=True, slots=True)
class Disjunction:
    """OR: matches if at least one of the trees matches."""

    items: tuple["Tree", ...]


Term = Comparison | Phrase | FunctionCall
Tree = Term | Negation | Conjunction | Disjunction

_BLANKS = re.compile(r"(?:\s+|--[^\n]*)*")
_OPERATOR = re.compile(r"<=|>=|!=|=~|!~|[=:<>]")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'', re.DOTALL)
_PART = re.compile(r"[^\s.:=<>!~()\"',]+")
_VALUE = re.compile(r"[^\s()\"']+")
_ARGUMENT = re.compile(r"[^\s()\"',]+")
_KEYWORD = re.compile(r"(AND|OR|NOT)(?![^\s()\"'])")
_NEGATIVE = re.compile(r"-[\d.]")
_END_OF_WORD = re.compile(r"[\s)]|$")
_ESCAPED = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
_SHOWN_MAX: Final = 20
_OPERATORS: Final = "= != : < <= > >= =~ !~"


def read_filter_text(text: str, length_max: int) -> Tree:
    """Parse a filter; a blank filter is an empty Conjunction.

    Raises Refusal (INVALID_ARGUMENT) with the position and the text that is accepted at it.
    """
    if len(text) > length_max:
        raise _refusal(f"filter must have at most {length_max} characters, got {len(text)}")
    reader = _Reader(text)
    return Conjunction() if reader.is_at_end else reader.read_whole()


def refusal_at(text: str, position: int, accepted: str) -> Refusal:
    """Return the refusal of a filter's text at a position.

    ``accepted`` describes the text that is accepted at that position.
    """
    remaining = text[position:]
    got = repr(remaining[:_SHOWN_MAX]) + ("..." if len(remaining) > _SHOWN_MAX else "")
    message = f"filter, at character {position + 1}: must be {accepted}, got "
    return _refusal(message + (got if remaining else "the end of the filter"), accepted)


def _refusal(message: str, accepted: str = "") -> Refusal:
    violation = Violation(field="filter", rule="wrong-type", message=message, accepted=accepted)
    return Refusal(Code.INVALID_ARGUMENT, message, (violation,))


@dataclass(slots=True)
class _Reader:
    """A parser at a position of a filter; each rule of the grammar is one method."""

    text: str
    at: int = 0
    depth: int = 0
    terms: int = 0
    _subject: tuple[tuple[str, ...], str, int] | None = None
    """Inside of ``field=(a OR b)``: the path, the operator and the position of the comparison."""

    def __post_init__(self) -> None:
        self._skip_blanks()

    @property
    def is_at_end(self) -> bool:
        return self.at == len(self.text)

    def read_whole(self) -> Tree:
        tree = self._read_expression()
        if not self.is_at_end:
            self._refuse("AND, OR or the end of the filter")
        return tree

    def _read_expression(self) -> Tree:
        """Parse factors that are joined by AND or adjacent."""
        items = [self._read_factor()]
        while not self.is_at_end and self.text[self.at] != ")":
            self._skip_keyword("AND")
            items.append(self._read_factor())
        return items[0] if len(items) == 1 else Conjunction(tuple(items))

    def _read_factor(self) -> Tree:
        items = [self._read_term()]
        while self._skip_keyword("OR"):
            items.append(self._read_term())
        return items[0] if len(items) == 1 else Disjunction(tuple(items))

    def _read_term(self) -> Tree:
        is_number = self._subject is not None and _NEGATIVE.match(self.text, self.at)
        if self._skip_keyword("NOT") or (not is_number and self._skip("-")):
            return Negation(self._read_simple())
        return self._read_simple()

    def _read_simple(self) -> Tree:
        if self.text.startswith("(", self.at):
            return self._read_group()
        if _KEYWORD.match(self.text, self.at):
            self._refuse("a comparison")
        self.terms += 1
        if self.terms > TERMS_MAX:
            self._refuse(f"the end of the filter: it has at most {TERMS_MAX} comparisons")
        return self._read_operand() if self._subject else self._read_restriction()

    def _read_group(self) -> Tree:
        opened_at = self.at
        self._skip("(")
        self.depth += 1
        if self.depth > DEPTH_MAX:
            self._refuse(f"parentheses at most {DEPTH_MAX} deep", opened_at)
        tree = self._read_expression()
        if not self._skip(")"):
            self._refuse(f"the ')' of the '(' at character {opened_at + 1}")
        self.depth -= 1
        return tree

    def _read_operand(self) -> Tree:
        """Parse one value of ``field=(a OR b)``."""
        if self._subject is None:
            raise AssertionError("an operand needs a path and an operator")
        path, operator, position = self._subject
        return Comparison(path, operator, self._read_value(), position)

    def _read_restriction(self) -> Tree:
        """Parse a comparison, a function call, or a value alone."""
        position = self.at
        path, is_quoted = self._read_path()
        if not is_quoted and self.text.startswith("(", self.at):
            return self._read_call(".".join(path), position)
        written = self.text[position : self.at]
        self._skip_blanks()
        if _OPERATOR.match(self.text, self.at):
            return self._read_comparison(path, position)
        text = path[0] if is_quoted and len(path) == 1 else written
        return Phrase(Value(text, position, is_quoted))

    def _read_path(self) -> tuple[tuple[str, ...], bool]:
        """Parse a field's path; return its parts, and whether the first part is quoted."""
        is_quoted = self.text[self.at : self.at + 1] in ('"', "'")
        parts = [self._read_part("a field, or a word or phrase to look for")]
        while self.text.startswith(".", self.at):
            self.at += 1
            is_end = _END_OF_WORD.match(self.text, self.at)
            parts.append("" if is_end else self._read_part("the name of a field or label"))
        return tuple(parts), is_quoted

    def _read_part(self, accepted: str) -> str:
        quoted = self._read_quoted()
        return self._match(_PART, accepted) if quoted is None else quoted

    def _read_comparison(self, path: tuple[str, ...], position: int) -> Tree:
        operator = self._match(_OPERATOR, f"one of {_OPERATORS}")
        self._skip_blanks()
        if not self.text.startswith("(", self.at):
            return Comparison(path, operator, self._read_value(), position)
        self._subject = (path, operator, position)
        tree = self._read_group()
        self._subject = None
        return tree

    def _read_call(self, name: str, position: int) -> Tree:
        self._skip("(")
        arguments: list[Value] = []
        while not self._skip(")"):
            if arguments and not self._skip(","):
                self._refuse(f"a comma, or the ')' of {name[:_SHOWN_MAX]}(")
            arguments.append(self._read_text(_ARGUMENT, "an argument"))
        return FunctionCall(name, tuple(arguments), position)

    def _read_value(self) -> Value:
        return self._read_text(_VALUE, "a value, in quotes if it has blanks or parentheses")

    def _read_text(self, pattern: re.Pattern[str], accepted: str) -> Value:
        position = self.at
        quoted = self._read_quoted()
        text = self._match(pattern, accepted) if quoted is None else quoted
        self._skip_blanks()
        return Value(text, position, quoted is not None)

    def _read_quoted(self) -> str | None:
        match = _QUOTED.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return _ESCAPED.sub(_unescape, match[1] if match[1] is not None else match[2])

    def _match(self, pattern: re.Pattern[str], accepted: str) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            self._refuse(accepted)
        self.at = match.end()
        return match[0]

    def _skip_keyword(self, word: str) -> bool:
        match = _KEYWORD.match(self.text, self.at)
        return match is not None and match[1] == word and self._skip(word)

    def _skip(self, literal: str) -> bool:
        if not self.text.startswith(literal, self.at):
            return False
        self.at += len(literal)
        self._skip_blanks()
        return True

    def _skip_blanks(self) -> None:
        match = _BLANKS.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _refuse(self, accepted: str, position: int | None = None) -> NoReturn:
        raise refusal_at(self.text, self.at if position is None else position, accepted)


def _unescape(match: re.Match[str]) -> str:
    """Return the character of an escape; unknown escapes stay, for regular expressions."""
    code = match[1]
    if len(code) > 1:
        character = chr(int(code[1:], 16))
        return match[0] if character.encode("utf-8", "ignore") == b"" else character
    return _ESCAPES.get(code, match[0])
