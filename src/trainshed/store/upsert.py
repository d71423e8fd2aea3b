"""Provides INSERT with ON CONFLICT for SQLite and for PostgreSQL.

It is SQLAlchemy's for SQLite, because that for PostgreSQL imports all of its drivers: 2.5 MB in a
server that uses SQLite.
"""

from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.dialects.sqlite.dml import OnConflictClause

__all__ = ["insert"]

#: SQLAlchemy's compiler for PostgreSQL reads the name of a constraint; SQLite names columns only.
OnConflictClause.constraint_target = None  # type: ignore[attr-defined]
