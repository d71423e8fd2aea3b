"""Adds indexes for the list of all jobs, and for the list of jobs that have not ended."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_LIVES = sa.text("deleted_ns IS NULL")
_IS_OPEN = sa.text("end_ns IS NULL")


def upgrade() -> None:
    for name, columns, where in (
        ("jobs_newest", ["create_ns", "uid"], _LIVES),
        ("jobs_newest_of_project", ["project", "create_ns", "uid"], _LIVES),
        ("jobs_open", ["end_ns", "create_ns", "uid"], _IS_OPEN),
    ):
        op.create_index(name, "jobs", columns, sqlite_where=where, postgresql_where=where)
