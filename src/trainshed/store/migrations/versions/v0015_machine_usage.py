"""Adds the use of single GPUs and nodes.

The time that is stored already goes to the node of an attempt that ran on one node, and to no node
otherwise; its GPUs have no names.  Jobs that run are written again by the server.
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

_USES = ("productive", "starting", "lost", "stalled", "saving", "idle", "stopping", "unknown")
_COPY = """
INSERT INTO machine_usage (engine, node, gpu, machine_type, gpus, vcpus, currency, hour_price,
    day, uid, attempt, project, creator, gpu_type,
    productive_s, starting_s, lost_s, stalled_s, saving_s, idle_s, stopping_s, unknown_s, energy_j)
SELECT coalesce(a.engine, ''), coalesce(r.node, ''), '', u.machine_type, u.gpus, u.vcpus,
    u.currency, coalesce(u.hour_price, 0), u.day, u.uid, u.attempt, u.project, u.creator, '',
    productive_s, starting_s, lost_s, stalled_s, saving_s, idle_s, stopping_s, unknown_s, u.energy_j
FROM attempt_usage u
LEFT JOIN attempts a ON a.uid = u.uid AND a.attempt = u.attempt
LEFT JOIN (
    SELECT uid, attempt, min(node) AS node FROM replicas
    GROUP BY uid, attempt HAVING count(DISTINCT node) = 1
) r ON r.uid = u.uid AND r.attempt = u.attempt
"""


def upgrade() -> None:
    op.create_table(
        "machine_usage",
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("gpu", sa.Text(), nullable=False),
        sa.Column("machine_type", sa.Text(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("vcpus", sa.Float(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("hour_price", sa.Float(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column(
            "uid",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("creator", sa.Text(), nullable=False),
        sa.Column("gpu_type", sa.Text(), nullable=False),
        sa.Column("gpu_index", sa.Integer()),
        *(sa.Column(f"{use}_s", sa.Float(), nullable=False) for use in _USES),
        sa.Column("energy_j", sa.Float()),
        sa.PrimaryKeyConstraint(
            "engine",
            "node",
            "gpu",
            "machine_type",
            "gpus",
            "vcpus",
            "currency",
            "hour_price",
            "day",
            "uid",
            "attempt",
        ),
        sqlite_with_rowid=False,
    )
    op.create_index("machine_usage_by_day", "machine_usage", ["day"])
    op.create_index("machine_usage_of_job", "machine_usage", ["uid"])
    op.execute(_COPY)
