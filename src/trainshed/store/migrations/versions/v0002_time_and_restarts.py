"""Adds columns for the run time and restarts of jobs, stop orders, and notices of nodes.

A job that already runs has no limit of run time until its next start, because its time was not
counted; a job that already waits has no limit of waiting time.  Adding columns copies no table in
either database.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

NEW_COLUMNS = (
    ("jobs", sa.Column("waiting_s_max", sa.Float())),
    ("jobs", sa.Column("deadline_ns", sa.BigInteger())),
    ("jobs", sa.Column("ran_ns", sa.BigInteger(), nullable=False, server_default=sa.text("0"))),
    ("jobs", sa.Column("running_since_ns", sa.BigInteger())),
    ("jobs", sa.Column("restarts", sa.Text())),
    ("commands", sa.Column("stop", sa.Text())),
    ("node_states", sa.Column("notice_s", sa.Float())),
)

#: An attempt has run since it got its seats, or since the job was first reported as running.
RUNS_SINCE = sa.text(
    "UPDATE jobs SET running_since_ns ="
    " CASE WHEN held_ns > start_ns THEN held_ns ELSE start_ns END"
    " WHERE state = 'RUNNING'"
)


def upgrade() -> None:
    """Add columns and indexes."""
    for table, column in NEW_COLUMNS:
        op.add_column(table, column)
    for name, columns in (("deadline", ["deadline_ns"]), ("end", ["end_ns", "uid"])):
        only = sa.text(f"{columns[0]} IS NOT NULL")
        op.create_index(
            f"jobs_by_{name}", "jobs", columns, sqlite_where=only, postgresql_where=only
        )
    op.create_index("retry_keys_of_job", "retry_keys", ["uid"])
    op.execute(RUNS_SINCE)
