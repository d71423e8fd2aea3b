"""Identifies nodes by engine and name instead of by name only."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

#: The engine to assume if the database does not have exactly one.
_USUAL = "local"


def upgrade() -> None:
    """Assign the states of nodes, and all attempts, to the only engine of the database."""
    engine = _only_engine()
    query = sa.text(
        "SELECT states.name, states.state, states.notice_s, MIN(nodes.engine) AS engine "
        "FROM node_states AS states LEFT JOIN nodes ON nodes.name = states.name "
        "GROUP BY states.name, states.state, states.notice_s"
    )
    rows = [dict(row) for row in op.get_bind().execute(query).mappings()]
    op.drop_table("node_states")
    states = op.create_table(
        "node_states",
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("notice_s", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("engine", "name"),
    )
    op.bulk_insert(states, [{**row, "engine": row["engine"] or engine} for row in rows])
    named = sa.text("UPDATE attempts SET engine = :engine WHERE engine = ''")
    op.execute(named.bindparams(engine=engine))


def _only_engine() -> str:
    engines = op.get_bind().execute(sa.text("SELECT DISTINCT engine FROM nodes")).scalars().all()
    return str(engines[0]) if len(engines) == 1 else _USUAL
