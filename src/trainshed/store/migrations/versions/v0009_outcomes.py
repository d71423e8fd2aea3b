"""Adds outcomes, which compare jobs with their predictions, and calibrations from them."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

#: Columns copied from a calibration's document, so that a list need not read the document.
_LISTED = ("model", "machine_type", "accelerator")


def upgrade() -> None:
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "outcomes",
        sa.Column("uid", number, autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("content", sa.Text(), nullable=True),
        sa.Column("create_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("uid", "attempt"),
    )
    unscored = sa.text("content IS NULL")
    op.create_index(
        "outcomes_to_score",
        "outcomes",
        ["create_ns"],
        sqlite_where=unscored,
        postgresql_where=unscored,
    )
    op.create_index("outcomes_by_age", "outcomes", ["project", "create_ns"])
    op.create_table(
        "calibrations",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("jobs", sa.Integer(), nullable=False),
        sa.Column("update_ns", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in _LISTED),
        sa.PrimaryKeyConstraint("project", "key"),
    )
