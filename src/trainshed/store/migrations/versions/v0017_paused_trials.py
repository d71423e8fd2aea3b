"""Adds the step at which a trial was last paused."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("trials", sa.Column("paused_at", sa.BigInteger()))
