"""Adds the known results and the first points of studies."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.create_table(
        "study_starts",
        sa.Column(
            "uid",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            sa.ForeignKey("jobs.uid"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("result_count", sa.Integer(), nullable=False),
        sa.Column("point_count", sa.Integer(), nullable=False),
        sa.Column("results", sa.Text(), nullable=False),
        sa.Column("points", sa.Text(), nullable=False),
    )
