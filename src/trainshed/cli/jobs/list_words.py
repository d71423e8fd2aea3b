"""``--filter`` and ``--sort-by`` of lists: carried out here, on what the server answered.

The comparisons are those of gcloud's filters that people use; all of them must hold.  OR and
parentheses are refused, for a filter that is half understood shows the wrong jobs.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from trainshed.client.faults import Json
from trainshed.model.faults import UsageFault

_TERM = re.compile(
    r"""\s*(?:AND\s+)?(?P<no>-|NOT\s+)?(?P<field>[A-Za-z_][\w.-]*?)\s*(?P<operator><=|>=|!=|[=:~<>])
    \s*(?:"(?P<quoted>[^"]*)"|'(?P<single>[^']*)'|(?P<word>[^\s()"']+))(?=\s|$)""",
    re.VERBOSE,
)
_ACCEPTED = (
    "FIELD=VALUE comparisons beside each other; operators = != : ~ < <= > >=; NOT before one"
)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _compare_values(compare: Callable[[Any, Any], bool]) -> Callable[[str, str], bool]:
    """Numbers as numbers, everything else as text: times of one width sort as texts do."""

    def holds(actual: str, value: str) -> bool:
        left, right = _number(actual), _number(value)
        if isinstance(left, str) or isinstance(right, str):
            left, right = actual, value
        return bool(actual) and compare(left, right)

    return holds


_HOLDS: Final[Mapping[str, Callable[[str, str], bool]]] = {
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
    """One comparison of a field, or its opposite."""

    negated: bool
    field: str
    operator: str
    value: str

    def passes(self, resource: Json) -> bool:
        """Whether it holds for a resource."""
        value = _plain_state(self.value) if self.field == "state" else self.value
        holds = _HOLDS[self.operator](_text(resource, self.field), value)
        return holds is not self.negated


def arranged(filter_text: str, sort_by: str) -> Callable[[Iterable[Json]], Iterator[Json]]:
    """What a list command makes of the server's list.  Raises UsageFault before it is asked."""
    terms, keys = list(terms_of(filter_text)), [key for key in sort_by.split(",") if key]

    def arrange(rows: Iterable[Json]) -> Iterator[Json]:
        matches = (row for row in rows if all(term.passes(row) for term in terms))
        return iter(_sort_rows(matches, keys)) if keys else matches

    return arrange


def terms_of(text: str) -> Iterator[Term]:
    """The comparisons of a filter.  Raises UsageFault."""
    place = 0
    while text[place:].strip():
        match = _TERM.match(text, place)
        if not match or match["field"] in ("OR", "AND", "NOT"):
            raise UsageFault(
                f"--filter: cannot read {text[place:].strip()!r}; it takes {_ACCEPTED}"
            )
        value = next(
            match[name] for name in ("quoted", "single", "word") if match[name] is not None
        )
        if match["operator"] == "~":
            _check_pattern(value)
        yield Term(bool(match["no"]), match["field"], match["operator"], value)
        place = match.end()


def _check_pattern(value: str) -> None:
    try:
        re.compile(value)
    except re.error as error:
        raise UsageFault(f"--filter: {value!r} is no regular expression: {error}") from error


def _sort_rows(resources: Iterable[Json], keys: list[str]) -> list[Json]:
    """By the last key first: a stable sort keeps the order of equals."""
    rows = list(resources)
    for key in reversed(keys):
        field = key.removeprefix("~")
        rows.sort(key=lambda row: _sort_key(_text(row, field)), reverse=key.startswith("~"))
    return rows


def _sort_key(text: str) -> tuple[bool, float, str]:
    value = _number(text)
    return (True, 0.0, text) if isinstance(value, str) else (False, value, "")


def _text(resource: Json, field: str) -> str:
    """The value of a dotted field; states without the prefix of their dialect."""
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
