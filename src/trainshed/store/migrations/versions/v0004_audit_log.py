"""Adds the audit log, and tokens that expire, record their last use, or are for one bucket.

Existing tokens do not expire, and have no time of last use.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add four columns and a table."""
    for name in ("expire_ns", "used_ns"):
        op.add_column("tokens", sa.Column(name, sa.BigInteger()))
    for name in ("bucket", "parent"):
        op.add_column("tokens", sa.Column(name, sa.Text()))
    op.create_index("tokens_by_parent", "tokens", ["parent"])
    op.create_table(
        "audit_log",
        sa.Column("seq", NUMBER, nullable=False),
        sa.Column("stamp_ns", sa.BigInteger(), nullable=False),
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("credential", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("is_stranger", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
