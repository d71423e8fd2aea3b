"""Label and field selectors of lists and watches, with the API server's refusals."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .statuses import BadRequest

Requirement = tuple[str, str, frozenset[str]]
_TOKEN = re.compile(r"\s*(!=|==|=|!|,|\(|\)|[A-Za-z0-9_./-]+)")
#: Fields by which lists of a kind can be narrowed besides metadata.name and metadata.namespace.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "Pod": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
    ),
    "Event": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "Job": ("status.successful",),
    "Namespace": ("status.phase",),
    "Node": ("spec.unschedulable",),
    "Secret": ("type",),
}


def parse_selector(text: str) -> tuple[Requirement, ...]:
    """Requirements of a label selector: key, operator (in, notin, exists, absent) and values."""
    tokens = _split(text)
    requirements: list[Requirement] = []
    position = 0
    while position < len(tokens):
        requirement, position = _parse_requirement(tokens, position)
        requirements.append(requirement)
        if position < len(tokens):
            if tokens[position] != ",":
                raise BadRequest(f"found '{tokens[position]}', expected: ',' or 'end of string'")
            position += 1
    return tuple(requirements)


def match_labels(requirements: Sequence[Requirement], obj: Mapping[str, Any]) -> bool:
    if not requirements:
        return True
    labels = obj["metadata"].get("labels") or {}
    return all(_CHECKS[operator](labels, key, values) for key, operator, values in requirements)


def match_fields(kind: str, text: str, obj: Mapping[str, Any]) -> bool:
    """True where all fields of ``a=b,c!=d`` hold; BadRequest for fields that a kind lacks."""
    return all(
        (read_field(obj, path) == value) == is_equal
        for path, is_equal, value in parse_fields(kind, text)
    )


def parse_fields(kind: str, text: str) -> list[tuple[str, bool, str]]:
    rows = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = re.fullmatch(r"([^!=]+)(!=|==|=)(.*)", part)
        if match is None:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{part}'")
        path, operator, value = match.groups()
        if path not in ("metadata.name", "metadata.namespace", *_FIELDS.get(kind, ())):
            raise BadRequest(f"field label not supported: {path}")
        rows.append((path, operator != "!=", value))
    return rows


def read_field(obj: Mapping[str, Any], path: str) -> str:
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        return "false" if path == "spec.unschedulable" else ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _split(text: str) -> list[str]:
    tokens, position = [], 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise BadRequest(f"unable to parse requirement: found '{text[position]}'")
        tokens.append(match.group(1))
        position = match.end()
    return tokens


def _parse_requirement(tokens: Sequence[str], position: int) -> tuple[Requirement, int]:
    if tokens[position] == "!":
        return (tokens[position + 1], "absent", frozenset()), position + 2
    key = tokens[position]
    operator = tokens[position + 1] if position + 1 < len(tokens) else ","
    if operator in ("in", "notin"):
        values, position = _parse_values(tokens, position + 2)
        return (key, operator, values), position
    if operator in ("=", "==", "!="):
        after = position + 2
        has_value = after < len(tokens) and tokens[after] != ","
        value = tokens[after] if has_value else ""
        name = "notin" if operator == "!=" else "in"
        return (key, name, frozenset([value])), after + has_value
    return (key, "exists", frozenset()), position + 1


def _parse_values(tokens: Sequence[str], position: int) -> tuple[frozenset[str], int]:
    if position >= len(tokens) or tokens[position] != "(" or ")" not in tokens[position:]:
        raise BadRequest("unable to parse requirement: expected: '('")
    end = tokens.index(")", position)
    return frozenset(t for t in tokens[position + 1 : end] if t != ","), end + 1


_CHECKS: Mapping[str, Callable[[Mapping[str, str], str, frozenset[str]], bool]] = {
    "in": lambda labels, key, values: labels.get(key) in values,
    "notin": lambda labels, key, values: labels.get(key) not in values,
    "exists": lambda labels, key, _: key in labels,
    "absent": lambda labels, key, _: key not in labels,
}
