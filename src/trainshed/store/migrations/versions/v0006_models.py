"""Adds models: those that pipelines produce, and uploaded ones."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "models",
        sa.Column("uid", number, autoincrement=False, nullable=False),
        *_texts("project", "location", "model_id"),
        sa.Column("version", sa.Integer(), nullable=False),
        *_texts("display_name", "document"),
        sa.Column("child_uid", number, nullable=True),
        sa.Column("pipeline_uid", sa.BigInteger(), nullable=True),
        sa.Column("create_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("uid"),
        sa.ForeignKeyConstraint(["child_uid"], ["jobs.uid"]),
    )
    op.create_index("models_by_id", "models", ["project", "location", "model_id", "version"])
    op.create_index("models_by_age", "models", ["project", "create_ns", "uid"])
    op.create_index("models_by_child", "models", ["child_uid"])
    op.create_index("models_by_pipeline", "models", ["pipeline_uid"])


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]
