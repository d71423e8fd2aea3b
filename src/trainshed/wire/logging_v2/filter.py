"""The filter of entries:list, in exactly the grammar that gcloud writes (contracts/gcloud.md 7.1).

The whole logging query language is much larger.  What is not one of these clauses is refused
rather than ignored: a filter that lets more through than its author meant is worse than none.
"""

import re
from dataclasses import dataclass
from typing import Final

from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal
from trainshed.wire.times import nanoseconds

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


def parse(text: str) -> LogFilter:
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
    """The end of the clause that begins here, and the fields that it sets."""
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
