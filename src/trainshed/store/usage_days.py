"""Limits queries of stored time to days and projects."""

import json
from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Table, Text, bindparam, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.visitors import InternalTraversal

from trainshed.store import codec
from trainshed.store.bulk import given

_VISIBLE: Final = given("visible", project=Text)
#: Of more days, most rows are read, which is faster in the order of the table.
_INDEXED_DAYS_MAX: Final = 60


class _WithoutIndex(ColumnElement[Any]):
    """A column that SQLite reads without its indexes; PostgreSQL estimates the rows by itself."""

    inherit_cache = True
    _traverse_internals = [("column", InternalTraversal.dp_clauseelement)]  # noqa: RUF012 - of SQLAlchemy

    def __init__(self, column: ColumnElement[Any]) -> None:
        self.column = column
        self.type = column.type


@compiles(_WithoutIndex)
def _name_column(element: _WithoutIndex, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.column, **options)


@compiles(_WithoutIndex, "sqlite")
def _hide_column(element: _WithoutIndex, compiler: SQLCompiler, **options: Any) -> str:
    return f"+{compiler.process(element.column, **options)}"


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
        return _WithoutIndex(column)
    return column


def bounds_of_days(
    since_day: int, until_day: int, projects: Collection[str] | None
) -> dict[str, Any]:
    """Return the parameters of a query; ``projects`` None: all."""
    bounds: dict[str, Any] = {"since_day": since_day, "until_day": until_day}
    if projects is not None:
        bounds["visible"] = json.dumps([[codec.plain(project)] for project in projects])
    return bounds
