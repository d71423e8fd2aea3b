"""Inserts many rows with one statement.

A thread releases the interpreter's lock at every statement and at every row of an ``executemany``,
and may wait for that lock while other threads are busy.  So frequent writes use one statement for
all rows: several VALUES, or one JSON array that the database splits into rows.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    CTE,
    JSON,
    BigInteger,
    CursorResult,
    Dialect,
    Integer,
    Table,
    Text,
    bindparam,
    cast,
    column,
    select,
    type_coerce,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from trainshed.store.writer import Transaction

#: Rows of one statement; SQLite binds at most 32,766 values.
_ROWS_MAX = 100
#: Cached texts of statements, by table and number of rows.
_STATEMENTS_MAX = 2048


def add_rows(tx: Transaction, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of the same columns, in their order."""
    for part in _parts(rows):
        _insert(tx, table, part, "").close()


def add_new_rows(tx: Transaction, table: Table, rows: Sequence[Mapping[str, Any]]) -> set[int]:
    """Insert the rows whose keys are free, skip the others; return the uids of the inserted."""
    ending = " ON CONFLICT DO NOTHING RETURNING uid"
    return {uid for part in _parts(rows) for uid in _insert(tx, table, part, ending).scalars()}


def _parts(rows: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    return (rows[start : start + _ROWS_MAX] for start in range(0, len(rows), _ROWS_MAX))


def _insert(
    tx: Transaction, table: Table, rows: Sequence[Mapping[str, Any]], ending: str
) -> CursorResult[Any]:
    """Insert the rows in one statement, and return its result.

    The text of the statement is cached: SQLAlchemy takes longer to compile it than the database to
    execute it.  Our types need no conversion: drivers take whole numbers, floats and texts.
    """
    columns, dialect = tuple(rows[0]), tx.connection.dialect
    if dialect.name == "postgresql":
        statement = _insertion_of_json(table, columns, dialect)
        values: tuple[Any, ...] = (json.dumps(rows),)
    else:
        statement = _insertion(table, columns, len(rows), dialect)
        values = tuple(row[column] for row in rows for column in columns)
    return tx.connection.exec_driver_sql(statement + ending, values)


@lru_cache(_STATEMENTS_MAX)
def _insertion(table: Table, columns: Sequence[str], count: int, dialect: Dialect) -> str:
    row = f"({', '.join('?' * len(columns))})"
    return f"{_into(table, columns, dialect)} VALUES {', '.join([row] * count)}"


@lru_cache(_STATEMENTS_MAX)
def _insertion_of_json(table: Table, columns: Sequence[str], dialect: Dialect) -> str:
    """Return one text for any number of rows: psycopg parses texts with many parameters slowly."""
    quote = dialect.identifier_preparer.quote
    names = ", ".join(map(quote, columns))
    typed = (f"{quote(name)} {table.c[name].type.compile(dialect)}" for name in columns)
    records = f"json_to_recordset(CAST(%s AS JSON)) AS given({', '.join(typed)})"
    into = _into(table, columns, dialect)
    return f"{into} SELECT {names} FROM {records}"  # noqa: S608 - names of our own tables


def _into(table: Table, columns: Sequence[str], dialect: Dialect) -> str:
    quote = dialect.identifier_preparer.quote
    return f"INSERT INTO {quote(table.name)} ({', '.join(map(quote, columns))})"


class ElementsOf(GenericFunction[Any]):
    """The SQL function that returns one row for each element of a JSON array."""

    inherit_cache = True
    name = "elements_of"


@compiles(ElementsOf, "sqlite")
def _in_sqlite(element: ElementsOf, compiler: SQLCompiler, **kw: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **kw)})"


@compiles(ElementsOf, "postgresql")
def _in_postgresql(element: ElementsOf, compiler: SQLCompiler, **kw: Any) -> str:
    return f"json_array_elements(CAST({compiler.process(element.clauses, **kw)} AS JSON))"


def given(name: str, **columns: type[BigInteger | Integer | Text]) -> CTE:
    """Return a JSON array of arrays, bound as ``:name``, as a table of typed columns."""
    elements = ElementsOf(bindparam(name, type_=Text)).table_valued(column("value", JSON))
    value = type_coerce(elements.c.value, JSON)
    return select(
        *(
            cast(value[index].as_string(), kind).label(key)
            for index, (key, kind) in enumerate(columns.items())
        )
    ).cte(name)
