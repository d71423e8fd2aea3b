"""Attempts say which engine runs them, and hold claims where it places by itself."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add columns: an attempt of before is of the first engine and holds its seats."""
    op.add_column("attempts", sa.Column("engine", sa.Text(), server_default="", nullable=False))
    op.add_column("attempts", sa.Column("claim", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("refused_ns", sa.BigInteger(), nullable=True))
    op.add_column(
        "jobs", sa.Column("refusals", sa.Integer(), server_default=sa.text("0"), nullable=False)
    )
