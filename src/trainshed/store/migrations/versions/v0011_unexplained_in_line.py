"""Sorts the index of unexplained jobs as the queue: the scheduler explains only its front."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_UNEXPLAINED = sa.text("state = 'QUEUED' AND explanation IS NULL")


def upgrade() -> None:
    """Sort the index by rank first."""
    op.drop_index("jobs_unexplained", "jobs")
    op.create_index(
        "jobs_unexplained",
        "jobs",
        ["rank", "create_ns", "uid"],
        sqlite_where=_UNEXPLAINED,
        postgresql_where=_UNEXPLAINED,
    )
