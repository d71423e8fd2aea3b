"""Parses list filters with the fields and operators of a dialect."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, cast, get_args

from trainshed.model.filters import AllOf, AnyOf, Compare, Filter, Not, Operator
from trainshed.model.status import JobState
from trainshed.wire.filter_text import (
    Comparison,
    Conjunction,
    Disjunction,
    FunctionCall,
    Negation,
    Phrase,
    Tree,
    read_filter_text,
    refusal_at,
)
from trainshed.wire.scalars import TIMESTAMP

LABELS: Final = "labels"
STATE: Final = "state"
CREATE_TIME: Final = "create_time"

MATCHING: Final = frozenset({"=", "!=", ":"})
ORDERED: Final = frozenset(get_args(Operator)) - {":"}

#: A filter that matches nothing, for states that no job of this server has.
NOTHING: Final = Not(AllOf())

_NAMES_ONE = re.compile(r"[^*]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterWords:
    """The fields, operators and states of a dialect's filters.

    ``operators`` has those of each field, by its name in the model.  ``states`` has all states of
    the dialect; the value is None if no job of this server has the state.
    """

    operators: Mapping[str, frozenset[str]]
    states: Mapping[str, JobState | None]

    @property
    def field_names(self) -> str:
        """The names of all fields, for a refusal."""
        return ", ".join(f"{name}.KEY" if name == LABELS else name for name in self.operators)


class Restriction(NamedTuple):
    """One comparison of the filter's text; ``key`` is the part of the field after a dot."""

    field: str
    key: str | None
    operator: str
    value: str


class Unfit(Exception):
    """A comparison is invalid; ``accepted`` describes the valid ones."""

    def __init__(self, accepted: str) -> None:
        super().__init__(accepted)
        self.accepted = accepted


def meaning(written: Restriction, words: FilterWords) -> Filter:
    """Convert a comparison to a filter of the model.  Raises Unfit."""
    name = _field(written.field, words)
    if name == LABELS:
        return _label(written)
    if written.key is not None:
        raise Unfit(f"{name} without a dot")
    if written.operator not in words.operators[name]:
        raise Unfit(f"{name} with one of the operators {_operators(words.operators[name])}")
    if name == STATE:
        return _state(written, words)
    value: str | datetime = _time(written.value) if name == CREATE_TIME else written.value
    return Compare(field=name, operator=cast("Operator", written.operator), value=value)


def _field(written: str, words: FilterWords) -> str:
    """Find a field by its name in either key case.

    Filters of aiplatform v1 are documented in snake_case (docs/sources/vertex.md 8); that both
    cases are accepted is our choice.
    """
    names = {_plain(name): name for name in words.operators}
    name = names.get(_plain(written))
    if name is None:
        raise Unfit(f"a field: {words.field_names}")
    return name


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _operators(operators: frozenset[str]) -> str:
    return " ".join(sorted(operators))


def _label(written: Restriction) -> Filter:
    """Convert ``labels.k=v``, ``labels.k:*``, or ``labels:k``, which matches any value."""
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


def read_filter(text: str, words: FilterWords) -> Filter:
    """Parse a filter; a blank filter matches everything.

    Raises Refusal (INVALID_ARGUMENT) with the position and the text that is accepted at it.
    """

    def convert(tree: Tree) -> Filter:
        match tree:
            case Negation(item=item):
                return Not(convert(item))
            case Conjunction(items=items):
                return AllOf(tuple(map(convert, items)))
            case Disjunction(items=items):
                return AnyOf(tuple(map(convert, items)))
            case Comparison():
                return _convert_comparison(text, tree, words)
            case Phrase(value=value):
                raise refusal_at(text, value.position, _restrictions(words))
            case FunctionCall(position=position):
                raise refusal_at(text, position, _restrictions(words))

    return convert(read_filter_text(text, LENGTH_MAX))


def _restrictions(words: FilterWords) -> str:
    return f"a field and an operator: {words.field_names}"


def _convert_comparison(text: str, written: Comparison, words: FilterWords) -> Filter:
    field, *keys = written.path
    key = ".".join(keys) if keys else None
    try:
        return meaning(Restriction(field, key, written.operator, written.value.text), words)
    except Unfit as unfit:
        raise refusal_at(text, written.position, unfit.accepted) from None
