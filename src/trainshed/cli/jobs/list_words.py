"""Applies ``--filter`` and ``--sort-by`` of lists to the rows of the server.

A filter is a part of gcloud's filter language: comparisons, all of which must hold.  OR and
parentheses are refused: a filter that is only partly applied would list the wrong jobs.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from trainshed.client.faults import Json
from trainshed.model.faults import UsageFault

_TERM = re.compile(
    r"""\s*(?:AND\s+)?(?P<negation>-|NOT\s+)?(?P<field>[A-Za-z_][\w.-]*?)\s*(?P<operator><=|>=|!=|[=:~<>])
    \s*(?:"(?P<quoted>[^"]*)"|'(?P<single>[^']*)'|(?P<word>[^\s()"']+))(?=\s|$)""",
    re.VERBOSE,
)
_ACCEPTED = (
    "comparisons such as FIELD=VALUE, separated by spaces, with the operators = != : ~ < <= > >=, "
    "and NOT before a comparison"
)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _compare_values(compare: Callable[[Any, Any], bool]) -> Callable[[str, str], bool]:
    """Return a comparison of two texts: as numbers if both are numbers, else as texts."""

    def holds(actual: str, value: str) -> bool:
        left, right = _number(actual), _number(value)
        if isinstance(left, str) or isinstance(right, str):
            left, right = actual, value
        return bool(actual) and compare(left, right)

    return holds


_OPERATORS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "=": lambda actual, value: actual == value,
    "!=": lambda actual, value: actual != value,
    ":": lambda actual, value: (
        bool(actual) and (value == "*" or value.rstrip("*").lower() in actual.lower())
    ),
    "~": lambda actual, value: re.search(value, actual) is not None,
    "<": _compare_values(lambda actual, value: actual < value),
    "<=": _compare_values(lambda actual, value: actual <= value),
    ">": _compare_values(lambda actual, value: actual > value),
    ">=": _compare_values(lambda actual, value: actual >= value),
}


class Term(NamedTuple):
    """One comparison of a field with a value, or its negation."""

    negated: bool
    field: str
    operator: str
    value: str

    def passes(self, resource: Json) -> bool:
        """Return whether the term holds for a resource."""
        value = _plain_state(self.value) if self.field == "state" else self.value
        holds = _OPERATORS[self.operator](_text(resource, self.field), value)
        return holds is not self.negated


def make_arranger(filter_text: str, sort_by: str) -> Callable[[Iterable[Json]], Iterator[Json]]:
    """Return a function that filters and sorts rows.  Raises UsageFault for a bad filter."""
    terms, keys = list(terms_of(filter_text)), [key for key in sort_by.split(",") if key]

    def arrange(rows: Iterable[Json]) -> Iterator[Json]:
        matches = (row for row in rows if all(term.passes(row) for term in terms))
        return iter(_sort_rows(matches, keys)) if keys else matches

    return arrange


def terms_of(text: str) -> Iterator[Term]:
    """Yield the comparisons of a filter.  Raises UsageFault."""
    position = 0
    while text[position:].strip():
        match = _TERM.match(text, position)
        if not match or match["field"] in ("OR", "AND", "NOT"):
            raise UsageFault(
                f"--filter: cannot read {text[position:].strip()!r} (accepted: {_ACCEPTED})"
            )
        value = next(
            match[name] for name in ("quoted", "single", "word") if match[name] is not None
        )
        if match["operator"] == "~":
            _check_pattern(value)
        yield Term(bool(match["negation"]), match["field"], match["operator"], value)
        position = match.end()


def _check_pattern(value: str) -> None:
    try:
        re.compile(value)
    except re.error as error:
        raise UsageFault(
            f"--filter: the value of ~ must be a regular expression, got {value!r}: {error}"
        ) from error


def _sort_rows(resources: Iterable[Json], keys: list[str]) -> list[Json]:
    """Sort by the last key first: a stable sort keeps the order of equal rows."""
    rows = list(resources)
    for key in reversed(keys):
        field = key.removeprefix("~")
        rows.sort(key=lambda row: _sort_key(_text(row, field)), reverse=key.startswith("~"))
    return rows


def _sort_key(text: str) -> tuple[bool, float, str]:
    value = _number(text)
    return (True, 0.0, text) if isinstance(value, str) else (False, value, "")


def _text(resource: Json, field: str) -> str:
    """Return the value of a dotted field as text; states without the prefix of their dialect."""
    value: Any = resource
    for part in field.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return ""
    if field == "state":
        return _plain_state(str(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain_state(text: str) -> str:
    return text.removeprefix("JOB_STATE_").removeprefix("PIPELINE_STATE_")
