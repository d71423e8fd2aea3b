"""Adds the use of machines: time, energy and price of attempts by day, and the days of GPUs.

The first server of this release fills the table from the jobs that the database still has.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

_USES = ("productive", "starting", "lost", "stalled", "saving", "idle", "stopping", "unknown")


def upgrade() -> None:
    op.create_table(
        "attempt_usage",
        sa.Column(
            "uid",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("machine_type", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("creator", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("vcpus", sa.Float(), nullable=False),
        sa.Column("placed_ns", sa.BigInteger(), nullable=False),
        sa.Column("end_ns", sa.BigInteger()),
        *(sa.Column(f"{use}_s", sa.Float(), nullable=False) for use in _USES),
        sa.Column("energy_j", sa.Float()),
        sa.Column("hour_price", sa.Float()),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("price_source", sa.Text(), nullable=False),
        sa.Column("price_date", sa.Text(), nullable=False),
        sa.Column("update_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("uid", "attempt", "machine_type", "day"),
    )
    op.create_index("attempt_usage_by_day", "attempt_usage", ["day"])
    op.create_index("attempt_usage_of_project", "attempt_usage", ["project", "day"])
    op.create_table(
        "gpu_days",
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("gpu_type", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("day", "engine", "node", "gpu_type", "state"),
    )
