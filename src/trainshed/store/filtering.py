"""Converts filters and pages of lists to SQL."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    and_,
    case,
    desc,
    exists,
    not_,
    or_,
    true,
    tuple_,
)

from trainshed.model.filters import AllOf, AnyOf, Compare, Filter, Not
from trainshed.model.status import JobState
from trainshed.store import codec
from trainshed.store.records.jobs import JobQuery
from trainshed.store.tables import JOBS, LABELS, MODELS, PIPELINES

Condition = ColumnElement[bool]
Column = ColumnElement[Any]

_LABEL_PREFIX: Final = "labels."
_ESCAPE: Final = "\\"
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    ":": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_STATE: Final = "state"
_RUNNING: Final = JobState.RUNNING.value
_RESTARTING: Final = JobState.RESTARTING.value
#: Clients see a restarting job as running, and a job in an engine's queue as queued: neither
#: dialect has other states for them.
_SHOWN_AS: Final = {
    _RESTARTING: _RUNNING,
    JobState.ENQUEUED.value: JobState.QUEUED.value,
}
_SHOWN_STATE: Final = case(_SHOWN_AS, value=JOBS.c.state, else_=JOBS.c.state)

JOB_FIELDS: Final[Mapping[str, Column]] = {
    "uid": JOBS.c.uid,
    "job_id": JOBS.c.job_id,
    "display_name": JOBS.c.display_name,
    _STATE: _SHOWN_STATE,
    "create_time": JOBS.c.create_ns,
}
#: The state of a pipeline is the state of its job.
PIPELINE_FIELDS: Final[Mapping[str, Column]] = {
    "uid": PIPELINES.c.uid,
    "display_name": PIPELINES.c.display_name,
    _STATE: _SHOWN_STATE,
    "create_time": PIPELINES.c.create_ns,
    "training_task_definition": PIPELINES.c.task_definition,
}
MODEL_FIELDS: Final[Mapping[str, Column]] = {
    "uid": MODELS.c.uid,
    "display_name": MODELS.c.display_name,
    "model": MODELS.c.model_id,
    "create_time": MODELS.c.create_ns,
}


def condition(item: Filter, fields: Mapping[str, Column]) -> Condition:
    """Return the SQL condition of a filter.  A field that the rows lack never matches."""
    match item:
        case Not(item=inner):
            return not_(condition(inner, fields))
        case AllOf(items=items):
            return and_(true(), *(condition(i, fields) for i in items))
        case AnyOf(items=items):
            return or_(*(condition(i, fields) for i in items))
        case Compare(field=field, value=str(value)) if field == _STATE and value in _SHOWN_AS:
            return _compare(replace(item, value=_SHOWN_AS[value]), fields)
        case Compare():
            return _compare(item, fields)


def _compare(item: Compare, fields: Mapping[str, Column]) -> Condition:
    if item.operator == "!=":
        return not_(_equal(item, fields, wildcards=False))
    if item.operator in ("=", ":"):
        return _equal(item, fields, wildcards=True)
    return _of_field(item, fields, partial(_order_condition, item))


def _equal(item: Compare, fields: Mapping[str, Column], *, wildcards: bool) -> Condition:
    return _of_field(item, fields, partial(_matches, item.value, wildcards=wildcards))


def _of_field(
    item: Compare, fields: Mapping[str, Column], test: Callable[[Column], Condition]
) -> Condition:
    if item.field.startswith(_LABEL_PREFIX):
        key = item.field.removeprefix(_LABEL_PREFIX)
        row = and_(LABELS.c.uid == fields["uid"], LABELS.c.key == codec.plain(key))
        return exists().where(row, test(LABELS.c.value))
    column = fields.get(item.field)
    return ~true() if column is None else test(column)


def _matches(value: str | datetime, column: Column, *, wildcards: bool) -> Condition:
    if isinstance(value, str) and wildcards and "*" in value:
        return column.like(_pattern(codec.plain(value)), escape=_ESCAPE)
    return _typed_condition(operator.eq, column, value)


def _order_condition(item: Compare, column: Column) -> Condition:
    return _typed_condition(_OPERATORS[item.operator], column, item.value)


def _typed_condition(
    compare: Callable[[Any, Any], Any], column: Column, value: str | datetime
) -> Condition:
    operand = codec.to_ns(value) if isinstance(value, datetime) else codec.plain(value)
    result: Condition = compare(column, operand)
    return result


def _pattern(value: str) -> str:
    for special in (_ESCAPE, "%", "_"):
        value = value.replace(special, _ESCAPE + special)
    return value.replace("*", "%")


def page_of(
    query: JobQuery, rows: Select[Any], table: Table, fields: Mapping[str, Column]
) -> Select[Any]:
    """Return the query for one page of a list; sorts by ``table``, the newest row first."""
    age = (table.c.create_ns, table.c.uid)
    if query.location is not None:
        rows = rows.where(table.c.location == query.location)
    if query.after is not None:
        rows = rows.where(tuple_(*age) < tuple_(*query.after))
    newest_first = rows.where(condition(query.filter, fields)).order_by(*map(desc, age))
    return newest_first.limit(query.page_size)
