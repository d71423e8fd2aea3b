"""Parses the body of ``entries:list`` (docs/sources/gcloud.md 7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal

PAGE_SIZE_MAX: Final = 1000
_PAGE_SIZE: Final = 50
_INT32_MAX: Final = 2**31 - 1
_ORDERS: Final = {"": False, "timestamp": False, "timestamp asc": False, "timestamp desc": True}

#: ``projectIds`` is the older form of ``resourceNames``.
_FIELDS: Final = ("resourceNames", "projectIds", "filter", "orderBy", "pageSize", "pageToken")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntriesQuery:
    """A query of one project's log; ``filter`` and ``page_token`` are not parsed yet."""

    filter: str
    descending: bool = False
    page_size: int = _PAGE_SIZE
    page_token: str = ""


def parse(document: Any) -> tuple[str, EntriesQuery]:
    """Return the caller's project, an id or number, and the query.

    Raises Refusal (INVALID_ARGUMENT) with the violated field.
    """
    if not isinstance(document, Mapping):
        _refuse("", "wrong-type", "the body must be a JSON object", "an object")
    for name in document:
        if name not in _FIELDS:
            message = f"ListLogEntriesRequest has no field {name[:100]}"
            _refuse(name[:100], "unknown-field", message, ", ".join(_FIELDS))
    order = " ".join(_text(document, "orderBy").split())
    if order not in _ORDERS:
        _refuse(
            "orderBy",
            "unknown-value",
            f"orderBy must be an order, got {order[:100]!r}",
            "timestamp asc|desc",
        )
    query = EntriesQuery(
        filter=_text(document, "filter"),
        descending=_ORDERS[order],
        page_size=_page_size(document.get("pageSize")),
        page_token=_text(document, "pageToken"),
    )
    return _project(document), query


def _project(document: Mapping[str, Any]) -> str:
    """Return the only project of a request.  Raises Refusal."""
    names = {
        *_texts(document, "resourceNames"),
        *(f"projects/{project}" for project in _texts(document, "projectIds")),
    }
    name = names.pop() if len(names) == 1 else ""
    kind, _, project = name.partition("/")
    if kind != "projects" or not project or "/" in project:
        message = "resourceNames must have exactly one project"
        _refuse("resourceNames", "wrong-type", message, "[projects/PROJECT]")
    return project


def _texts(document: Mapping[str, Any], field: str) -> list[str]:
    value = document.get(field)
    texts = [] if value is None else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        _refuse(field, "wrong-type", f"{field} must be a list of strings", "a list of strings")
    return texts


def _text(document: Mapping[str, Any], field: str) -> str:
    value = document.get(field)
    text = "" if value is None else value
    if not isinstance(text, str):
        _refuse(field, "wrong-type", f"{field} must be a string", "a string")
    return text


def _page_size(value: Any) -> int:
    """Parse the page size as Google does: 0 means the default, larger values the maximum."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 10:  # noqa: PLR2004
        value = int(value)
    size = 0 if value is None else value
    if type(size) is not int or not 0 <= size <= _INT32_MAX:
        _refuse(
            "pageSize",
            "wrong-type",
            f"pageSize must be a whole number, got {str(value)[:100]!r}",
            f"1 to {PAGE_SIZE_MAX}",
        )
    return min(size, PAGE_SIZE_MAX) or _PAGE_SIZE


def _refuse(field: str, rule: str, message: str, accepted: str) -> NoReturn:
    violation = Violation(field=field, rule=rule, message=message, accepted=accepted)
    raise Refusal(Code.INVALID_ARGUMENT, f"{message}. Accepted: {accepted}.", (violation,))
