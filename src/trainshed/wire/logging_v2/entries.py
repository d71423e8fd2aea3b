"""``entries:list``: its body as a value, and its lines as LogEntries (contracts/gcloud.md 7).

The filter has exactly the grammar that gcloud writes (7.1); the whole logging query language is
much larger.  What is not one of these clauses is refused rather than ignored: a filter that lets
more through than its author meant is worse than none.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn
from urllib.parse import quote

from trainshed.model.faults import Violation
from trainshed.model.log_line import LogLine
from trainshed.model.refusals import Code, Refusal
from trainshed.model.severity import payload_of
from trainshed.wire.times import nanoseconds, timestamp

PAGE_SIZE_MAX: Final = 1000
_PAGE_SIZE: Final = 50
_INT32_MAX: Final = 2**31 - 1
_ORDERS: Final = {"": False, "timestamp": False, "timestamp asc": False, "timestamp desc": True}

#: ``projectIds`` is the older form of ``resourceNames``.
_FIELDS: Final = ("resourceNames", "projectIds", "filter", "orderBy", "pageSize", "pageToken")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntriesQuery:
    """What is asked of one project's log; ``filter`` and ``page_token`` are still texts."""

    filter: str
    descending: bool = False
    page_size: int = _PAGE_SIZE
    page_token: str = ""


def parse(document: Any) -> tuple[str, EntriesQuery]:
    """The project, an id or a number as the caller wrote it, and the query.

    Raises Refusal (INVALID_ARGUMENT) with the field at fault.
    """
    if not isinstance(document, Mapping):
        _refuse("", "wrong-type", "the body must be a JSON object", "an object")
    for name in document:
        if name not in _FIELDS:
            why = f"ListLogEntriesRequest has no field {name[:100]}"
            _refuse(name[:100], "unknown-field", why, ", ".join(_FIELDS))
    order = " ".join(_text(document, "orderBy").split())
    if order not in _ORDERS:
        _refuse("orderBy", "unknown-value", f"{order[:100]!r} is no order", "timestamp asc|desc")
    query = EntriesQuery(
        filter=_text(document, "filter"),
        descending=_ORDERS[order],
        page_size=_page_size(document.get("pageSize")),
        page_token=_text(document, "pageToken"),
    )
    return _project(document), query


def _project(document: Mapping[str, Any]) -> str:
    names = {
        *_texts(document, "resourceNames"),
        *(f"projects/{project}" for project in _texts(document, "projectIds")),
    }
    name = names.pop() if len(names) == 1 else ""
    kind, _, project = name.partition("/")
    if kind != "projects" or not project or "/" in project:
        why = "exactly one project must be named; logs are kept by project here"
        _refuse("resourceNames", "wrong-type", why, "[projects/PROJECT]")
    return project


def _texts(document: Mapping[str, Any], field: str) -> list[str]:
    value = document.get(field)
    found = [] if value is None else value
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        _refuse(field, "wrong-type", "it is no list of texts", "a list of texts")
    return found


def _text(document: Mapping[str, Any], field: str) -> str:
    value = document.get(field)
    found = "" if value is None else value
    if not isinstance(found, str):
        _refuse(field, "wrong-type", "it is no text", "a text")
    return found


def _page_size(value: Any) -> int:
    """As Google does: 0 is the default, and more than there may be is as much as there may be."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 10:  # noqa: PLR2004
        value = int(value)
    found = 0 if value is None else value
    if type(found) is not int or not 0 <= found <= _INT32_MAX:
        _refuse(
            "pageSize", "wrong-type", f"{str(value)[:100]!r} is no size", f"1 to {PAGE_SIZE_MAX}"
        )
    return min(found, PAGE_SIZE_MAX) or _PAGE_SIZE


def _refuse(field: str, rule: str, why: str, accepted: str) -> NoReturn:
    violation = Violation(field=field, rule=rule, message=why, accepted=accepted)
    subject = f"{field}: {why}" if field else why
    raise Refusal(Code.INVALID_ARGUMENT, f"{subject}. Accepted: {accepted}.", (violation,))


_TRIAL_LABEL: Final = "ml.googleapis.com/trial_id"


def render(
    lines: Iterable[tuple[str, LogLine]], *, project: str, job_id: str
) -> list[dict[str, Any]]:
    """The LogEntries of a job's lines, each of which comes with its insertId."""
    return [entry(line, insert_id, project=project, job_id=job_id) for insert_id, line in lines]


def entry(line: LogLine, insert_id: str, *, project: str, job_id: str) -> dict[str, Any]:
    """The LogEntry of a line of a job; a structured line keeps all of its fields."""
    labels = {"job_id": job_id, "task_name": line.task_name, "project_id": project}
    found: dict[str, Any] = {
        "timestamp": timestamp(line.stamp_ns),
        "receiveTimestamp": timestamp(line.stamp_ns),
        "insertId": insert_id,
        "severity": line.severity,
        "logName": f"projects/{project}/logs/{quote(line.task_name, safe='')}",
        "resource": {"type": "ml_job", "labels": labels},
        "jsonPayload": payload_of(line.text) or {"message": line.text},
    }
    if line.trial:
        found["labels"] = {_TRIAL_LABEL: line.trial}
    return found


ACCEPTED: Final = (
    'clauses joined by AND: resource.type="ml_job", '
    '(resource.type="ml_job" OR resource.type="cloudml_job"), resource.labels.job_id="JOB", '
    'resource.labels.task_name="TASK", '
    '(resource.labels.task_name="TASK" OR labels.task_name="TASK"), '
    'labels."ml.googleapis.com/trial_id"="N", timestamp>="TIME", '
    '((timestamp="TIME" AND insertId>"ID") OR timestamp>"TIME"), timestamp<"TIME"'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFilter:
    """Which entries are asked for.  Stamps are nanoseconds since 1970."""

    job_id: str
    task_name: str | None = None
    trial: str | None = None
    """The number of a trial of a tuning job."""
    from_ns: int | None = None
    """The first stamp that may be."""
    after_id: str | None = None
    """With it, entries at ``from_ns`` itself count only behind this insertId."""
    before_ns: int | None = None
    """The first stamp that is too late."""


def parse_filter(text: str) -> LogFilter:
    """Read a filter.  Raises Refusal (INVALID_ARGUMENT) that names what is accepted."""
    found: dict[str, str | int] = {}
    at = 0
    while True:
        at, fields = _clause(text, at)
        if twice := found.keys() & fields.keys():
            raise _refusal(text, f"{', '.join(sorted(twice))} is given twice")
        found |= fields
        if at == len(text):
            break
        joined = _AND.match(text, at)
        if joined is None:
            raise _refusal(text, f"AND is expected before {text[at : at + 40]!r}")
        at = joined.end()
    if "job_id" not in found:
        raise _refusal(text, "resource.labels.job_id is missing")
    found.pop("resource.type", None)
    return LogFilter(**found)  # type: ignore[arg-type]  # each clause has its own fields


_TEXT = r'"((?:[^"\\]|\\.)*)"'
_AND = re.compile(r"\s+AND\s+")


def _pattern(clause: str) -> re.Pattern[str]:
    """A clause as it is written, ``*`` for its texts; spaces may be anywhere but in words."""
    tokens = re.findall(r"[\w.]+|[<>]=?|[=()*]", clause)
    return re.compile(r"\s*".join(_TEXT if t == "*" else re.escape(t) for t in tokens))


_TYPE = _pattern("resource.type=*")
_TYPES = _pattern("(resource.type=* OR resource.type=*)")
_JOB = _pattern("resource.labels.job_id=*")
_TASK = _pattern("resource.labels.task_name=*")
_TASKS = _pattern("(resource.labels.task_name=* OR labels.task_name=*)")
_TRIAL = re.compile(r'labels\."ml\.googleapis\.com/trial_id"\s*=\s*' + _TEXT)
_FROM = _pattern("timestamp>=*")
_AFTER = _pattern("((timestamp=* AND insertId>*) OR timestamp>*)")
_BEFORE = _pattern("timestamp<*")

#: Clauses of one text, and the fields that they set.
_PLAIN: Final = {_JOB: "job_id", _TRIAL: "trial"}

_OUR_TYPE: Final = "ml_job"
_TYPES_KNOWN: Final = frozenset({_OUR_TYPE, "cloudml_job"})


def _clause(text: str, at: int) -> tuple[int, dict[str, str | int]]:
    for pattern in (_TYPE, _TYPES, _JOB, _TASK, _TASKS, _TRIAL, _FROM, _AFTER, _BEFORE):
        match = pattern.match(text, at)
        if match is not None:
            values = tuple(re.sub(r"\\(.)", r"\1", value) for value in match.groups())
            return match.end(), _fields(text, pattern, values)
    raise _refusal(text, f"{text[at : at + 40]!r} is not understood")


def _fields(text: str, pattern: re.Pattern[str], values: tuple[str, ...]) -> dict[str, str | int]:
    first, *others = values
    if pattern in (_TYPE, _TYPES):
        if not {_OUR_TYPE} <= set(values) <= _TYPES_KNOWN:
            raise _refusal(text, f"there is no resource.type {first!r} here")
        return {"resource.type": first}
    if pattern in _PLAIN:
        return {_PLAIN[pattern]: first}
    if pattern in (_TASK, _TASKS):
        if set(others) - {first}:
            raise _refusal(text, "two different task names are asked for")
        return {"task_name": first}
    stamp = _stamp(text, first)
    if pattern is _BEFORE:
        return {"before_ns": stamp}
    if pattern is _FROM:
        return {"from_ns": stamp}
    if _stamp(text, others[1]) != stamp:
        raise _refusal(text, "the two timestamps of the lower bound differ")
    return {"from_ns": stamp, "after_id": others[0]}


def _stamp(text: str, value: str) -> int:
    try:
        return nanoseconds(value)
    except ValueError as error:
        raise _refusal(text, str(error)) from None


def _refusal(text: str, why: str) -> Refusal:
    message = f"filter: {why}. Accepted are {ACCEPTED}."
    violation = Violation(
        field="filter", rule="unsupported-field", message=f"{why}: {text[:200]}", accepted=ACCEPTED
    )
    return Refusal(Code.INVALID_ARGUMENT, message, (violation,))
