"""Many rows in one statement.

The interpreter's lock is let go of at every statement, and at every row of an ``executemany``;
beside busy threads each may then have to wait for its turn.  So the hot writes are one statement
for all rows: several VALUES, or one JSON array that the database takes apart itself.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    CTE,
    JSON,
    BigInteger,
    Insert,
    Integer,
    Table,
    Text,
    bindparam,
    cast,
    column,
    insert,
    select,
    type_coerce,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from trainshed.store.writer import Transaction


def add_rows(tx: Transaction, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, in their order."""
    if rows:
        tx.connection.execute(_insert(table), rows).close()


@cache
def _insert(table: Table) -> Insert:
    # whoever asks for something back gets many VALUES in one statement
    return insert(table).returning(next(iter(table.primary_key)))


class ElementsOf(GenericFunction[Any]):
    """The elements of a JSON array, a row each."""

    inherit_cache = True
    name = "elements_of"


@compiles(ElementsOf, "sqlite")
def _in_sqlite(element: ElementsOf, compiler: SQLCompiler, **kw: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **kw)})"


@compiles(ElementsOf, "postgresql")
def _in_postgresql(element: ElementsOf, compiler: SQLCompiler, **kw: Any) -> str:
    return f"json_array_elements(CAST({compiler.process(element.clauses, **kw)} AS JSON))"


def given(name: str, **columns: type[BigInteger | Integer | Text]) -> CTE:
    """The rows of a bound JSON array of arrays (``:name``) as a table of typed columns."""
    elements = ElementsOf(bindparam(name, type_=Text)).table_valued(column("value", JSON))
    value = type_coerce(elements.c.value, JSON)
    return select(
        *(
            cast(value[place].as_string(), kind).label(key)
            for place, (key, kind) in enumerate(columns.items())
        )
    ).cte(name)
