"""Filters of lists as values, independent of dialects and of evaluation."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Operator = Literal["=", "!=", ":", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """One comparison.

    ``field`` is ``job_id``, ``display_name``, ``state``, ``create_time``, ``labels.KEY`` or
    ``training_task_definition``.  A text value may hold ``*`` wildcards under ``:`` and ``=``;
    ``labels.KEY:*`` asks whether the label exists.  The value for ``state`` is the name of a
    ``JobState``.
    """

    field: str
    operator: Operator
    value: str | datetime


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a filter."""

    item: "Filter"


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of the filters; without any, everything matches."""

    items: tuple["Filter", ...] = ()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of the filters."""

    items: tuple["Filter", ...]


Filter = Compare | Not | AllOf | AnyOf
