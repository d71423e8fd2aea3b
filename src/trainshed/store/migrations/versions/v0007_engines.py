"""Adds the engine of an attempt, and the claim of an attempt whose engine chooses the nodes."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add columns; an existing attempt keeps its seats and gets an empty engine."""
    op.add_column("attempts", sa.Column("engine", sa.Text(), server_default="", nullable=False))
    op.add_column("attempts", sa.Column("claim", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("refused_ns", sa.BigInteger(), nullable=True))
    op.add_column(
        "jobs", sa.Column("refusals", sa.Integer(), server_default=sa.text("0"), nullable=False)
    )
