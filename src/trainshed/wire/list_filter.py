"""What one comparison of a list filter means: the fields of a dialect and how they compare."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, NoReturn, cast, get_args

from trainshed.model.filters import AllOf, AnyOf, Compare, Filter, Not, Operator
from trainshed.model.refusals import Code, Refusal
from trainshed.model.status import JobState
from trainshed.wire.scalars import TIMESTAMP

LABELS: Final = "labels"
STATE: Final = "state"
CREATE_TIME: Final = "create_time"

MATCHING: Final = frozenset({"=", "!=", ":"})
ORDERED: Final = frozenset(get_args(Operator)) - {":"}

#: What no job fulfils, such as a state that no job here is ever in.
NOTHING: Final = Not(AllOf())

_NAMES_ONE = re.compile(r"[^*]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterWords:
    """A dialect's words.

    ``operators`` are those of each field, by the model's name.  ``states`` holds every state of the
    dialect; None for one that no job here is ever in.
    """

    operators: Mapping[str, frozenset[str]]
    states: Mapping[str, JobState | None]

    @property
    def field_names(self) -> str:
        """All fields, for a refusal."""
        return ", ".join(f"{name}.KEY" if name == LABELS else name for name in self.operators)


class Restriction(NamedTuple):
    """One comparison as it is written; ``key`` is what stands behind a dot."""

    field: str
    key: str | None
    operator: str
    value: str


class Unfit(Exception):
    """A comparison that means nothing."""

    def __init__(self, accepted: str) -> None:
        """Keep what would have been right."""
        super().__init__(accepted)
        self.accepted = accepted


def meaning(written: Restriction, words: FilterWords) -> Filter:
    """What a comparison means.  Raises Unfit."""
    name = _field(written.field, words)
    if name == LABELS:
        return _label(written)
    if written.key is not None:
        raise Unfit(f"{name} without a dot")
    if written.operator not in words.operators[name]:
        raise Unfit(f"{name} with one of {_operators(words.operators[name])}")
    if name == STATE:
        return _state(written, words)
    value: str | datetime = _time(written.value) if name == CREATE_TIME else written.value
    return Compare(field=name, operator=cast("Operator", written.operator), value=value)


def _field(written: str, words: FilterWords) -> str:
    """Both key cases are accepted (contracts/vertex-sdk.md 8)."""
    known = {_plain(name): name for name in words.operators}
    name = known.get(_plain(written))
    if name is None:
        raise Unfit(f"a field: {words.field_names}")
    return name


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _operators(operators: frozenset[str]) -> str:
    return " ".join(sorted(operators))


def _label(written: Restriction) -> Filter:
    """``labels.k=v``, ``labels.k:*``, and ``labels:k``, which asks for the key alone."""
    if written.key is None:
        if written.operator != ":" or not _NAMES_ONE.fullmatch(written.value):
            raise Unfit("labels.KEY=VALUE, labels.KEY:* or labels:KEY")
        return Compare(field=f"{LABELS}.{written.value}", operator=":", value="*")
    if written.operator not in MATCHING:
        raise Unfit(f"{LABELS}.KEY with one of {_operators(MATCHING)}")
    operator = cast("Operator", written.operator)
    return Compare(field=f"{LABELS}.{written.key}", operator=operator, value=written.value)


def _state(written: Restriction, words: FilterWords) -> Filter:
    if written.value not in words.states:
        raise Unfit(f"a state: {', '.join(words.states)}")
    state = words.states[written.value]
    is_negated = written.operator == "!="
    if state is None:
        return AllOf() if is_negated else NOTHING
    return Compare(field=STATE, operator="!=" if is_negated else "=", value=state.value)


def _time(text: str) -> datetime:
    if not TIMESTAMP.fullmatch(text):
        raise Unfit('a time such as "2026-11-21T00:02:39Z"')
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Unfit("a time that exists") from None


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
_SHOWN_MAX = 20


def read_filter(text: str, words: FilterWords) -> Filter:
    """The meaning of a filter; a blank one lets everything pass.

    Raises Refusal (INVALID_ARGUMENT) that names the position and what is accepted there.
    """
    if len(text) > LENGTH_MAX:
        message = f"the filter has {len(text)} characters; at most {LENGTH_MAX} are read"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    reader = _FilterReader(text, words)
    return AllOf() if reader.is_at_end else reader.whole()


@dataclass(slots=True)
class _FilterReader:
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
        field = self._match(_FIELD, "a field: " + self.words.field_names)
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
        found = repr(rest[:_SHOWN_MAX]) + ("..." if len(rest) > _SHOWN_MAX else "")
        message = f"the filter cannot be read at character {at + 1}: accepted is {wanted}, "
        message += f"not {found}" if rest else "and the filter ends there"
        raise Refusal(Code.INVALID_ARGUMENT, message)
