"""Adds studies, their trials, and the reports of trials.

No existing job is a study: earlier releases refused studies.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
OPEN = sa.text("is_study = 1 AND end_ns IS NULL")


def upgrade() -> None:
    """Add a column, an index and two tables."""
    is_study = sa.Column("is_study", sa.Integer(), nullable=False, server_default=sa.text("0"))
    op.add_column("jobs", is_study)
    op.create_index(
        "jobs_open_studies",
        "jobs",
        ["create_ns", "uid"],
        sqlite_where=OPEN,
        postgresql_where=OPEN,
    )
    op.create_table(
        "trials",
        sa.Column("uid", NUMBER, autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_uid", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("parameters", sa.Text(), nullable=False),
        sa.Column("final", sa.Text()),
        sa.Column("reason", sa.Text()),
        sa.Column("stopped_early", sa.Integer(), nullable=False),
        sa.Column("start_ns", sa.BigInteger()),
        sa.Column("end_ns", sa.BigInteger()),
        sa.Column("mark_attempt", sa.Integer(), nullable=False),
        sa.Column("mark", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["uid"], ["jobs.uid"]),
        sa.PrimaryKeyConstraint("uid", "number"),
    )
    op.create_index("trials_by_job", "trials", ["job_uid"], unique=True)
    op.create_table(
        "reports",
        sa.Column("seq", NUMBER, nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["uid"], ["jobs.uid"]),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("reports_of_study", "reports", ["uid", "number", "seq"])
