"""Limits queries of stored time to days and projects."""

import json
from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Table, Text, bindparam, select

from trainshed.store import codec
from trainshed.store.bulk import given

_VISIBLE: Final = given("visible", project=Text)
#: Of more days, most rows are read, which is faster in the order of the table.
_INDEXED_DAYS_MAX: Final = 60


def within_days(
    query: Select[Any], table: Table, projects: Collection[str] | None, days: int
) -> Select[Any]:
    """Limit a query of ``table`` to the days of ``bounds_of_days``, which are so many."""
    day: ColumnElement[int] = table.c.day
    if days > _INDEXED_DAYS_MAX and projects is None:
        day = day + 0  # no index: it would read the rows in the order of days, one page for each
    query = query.where(day >= bindparam("since_day"), day < bindparam("until_day"))
    if projects is None:
        return query
    return query.where(table.c.project.in_(select(_VISIBLE.c.project)))


def bounds_of_days(
    since_day: int, until_day: int, projects: Collection[str] | None
) -> dict[str, Any]:
    """Return the parameters of a query; ``projects`` None: all."""
    bounds: dict[str, Any] = {"since_day": since_day, "until_day": until_day}
    if projects is not None:
        bounds["visible"] = json.dumps([[codec.plain(project)] for project in projects])
    return bounds
