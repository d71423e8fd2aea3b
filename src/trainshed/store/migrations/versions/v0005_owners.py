"""Adds a permanent number for each project; the system users of its jobs derive from it.

An existing project is assigned a number with its next job.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "owners",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("project"),
        sa.UniqueConstraint("number"),
    )
