"""What jobs have used of their time and of their restarts; orders to stop and to leave nodes.

Jobs of before keep what they began with: one that runs goes on without a limit until it is started
again, since nothing counted its time; one that waits may wait on.  Columns are only added, which
neither database answers by copying a table.
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

#: An attempt has run since it got its places, or since the job was first seen running.
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
