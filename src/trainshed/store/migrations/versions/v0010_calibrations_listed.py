"""Calibrations are listed by columns: nobody reads a thousand documents for a table."""

import tomllib

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_COLUMNS = ("model", "machine_type", "accelerator")


def upgrade() -> None:
    """Add three columns, and say in them what the documents say."""
    for name in _COLUMNS:
        op.add_column("calibrations", sa.Column(name, sa.Text(), nullable=False, server_default=""))
    stored = sa.text("SELECT project, key, document FROM calibrations")
    fill = sa.text(
        "UPDATE calibrations SET model = :model, machine_type = :machine_type, "
        "accelerator = :accelerator WHERE project = :project AND key = :key"
    )
    for row in op.get_bind().execute(stored).mappings().all():
        known = _known(row["document"])
        op.get_bind().execute(fill, {**known, "project": row["project"], "key": row["key"]})


def _known(document: str) -> dict[str, str]:
    """What it is of; nothing where nobody can read it."""
    try:
        found = tomllib.loads(document)
    except (tomllib.TOMLDecodeError, RecursionError):
        found = {}
    both = {**found.get("training", {}), **found.get("host", {})}
    return {name: str(both.get(name, "")) for name in _COLUMNS}
