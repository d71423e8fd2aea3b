"""Limits queries of stored time to days and projects."""

import json
from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Table, Text, bindparam, literal_column, select

from trainshed.store import codec
from trainshed.store.bulk import given

_VISIBLE: Final = given("visible", project=Text)
#: Of more days, most rows are read, which is faster in the order of the table.
_INDEXED_DAYS_MAX: Final = 60
#: What leaves a value as it is, so that no index has the result.
_NOTHING: Final = {int: literal_column("0"), str: literal_column("''", Text)}


def within_days(
    query: Select[Any], table: Table, projects: Collection[str] | None, days: int
) -> Select[Any]:
    """Limit a query of ``table`` to the days of ``bounds_of_days``, which are so many."""
    day: ColumnElement[int] = without_index(table.c.day, projects, days)
    query = query.where(day >= bindparam("since_day"), day < bindparam("until_day"))
    if projects is None:
        return query
    return query.where(table.c.project.in_(select(_VISIBLE.c.project)))


def without_index(
    column: ColumnElement[Any], projects: Collection[str] | None, days: int
) -> ColumnElement[Any]:
    """Return the value of a column, without its indexes where a query reads most rows.

    An index would give the rows in another order than the table, so a page is read for each.
    """
    if days > _INDEXED_DAYS_MAX and projects is None:
        return column + _NOTHING[column.type.python_type]
    return column


def bounds_of_days(
    since_day: int, until_day: int, projects: Collection[str] | None
) -> dict[str, Any]:
    """Return the parameters of a query; ``projects`` None: all."""
    bounds: dict[str, Any] = {"since_day": since_day, "until_day": until_day}
    if projects is not None:
        bounds["visible"] = json.dumps([[codec.plain(project)] for project in projects])
    return bounds
