"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make every table."""
    op.create_table(
        "buckets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("create_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_index("buckets_of_project", "buckets", ["project"], unique=False)
    op.create_table(
        "events",
        sa.Column("seq", NUMBER, nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("stamp_ns", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("events_of_job", "events", ["uid", "seq"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("uid", NUMBER, autoincrement=False, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("creator", sa.Text(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("running_s_max", sa.Float(), nullable=True),
        sa.Column("demand", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("explanation", sa.Text(), nullable=True),
        sa.Column("create_ns", sa.BigInteger(), nullable=False),
        sa.Column("start_ns", sa.BigInteger(), nullable=True),
        sa.Column("end_ns", sa.BigInteger(), nullable=True),
        sa.Column("update_ns", sa.BigInteger(), nullable=False),
        sa.Column("deleted_ns", sa.BigInteger(), nullable=True),
        sa.Column("held_ns", sa.BigInteger(), nullable=True),
        sa.Column("changed", sa.BigInteger(), nullable=True),
        sa.Column("last_stamp_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("uid"),
    )
    op.create_index(
        "jobs_by_age",
        "jobs",
        ["project", "kind", "create_ns", "uid"],
        unique=False,
        sqlite_where=sa.text("deleted_ns IS NULL"),
        postgresql_where=sa.text("deleted_ns IS NULL"),
    )
    op.create_index(
        "jobs_by_name",
        "jobs",
        ["project", "kind", "job_id"],
        unique=True,
        sqlite_where=sa.text("deleted_ns IS NULL"),
        postgresql_where=sa.text("deleted_ns IS NULL"),
    )
    op.create_index(
        "jobs_by_state",
        "jobs",
        ["project", "state"],
        unique=False,
        sqlite_where=sa.text("deleted_ns IS NULL"),
        postgresql_where=sa.text("deleted_ns IS NULL"),
    )
    op.create_index(
        "jobs_changed",
        "jobs",
        ["changed"],
        unique=False,
        sqlite_where=sa.text("changed IS NOT NULL"),
        postgresql_where=sa.text("changed IS NOT NULL"),
    )
    op.create_index(
        "jobs_held",
        "jobs",
        ["owner"],
        unique=False,
        sqlite_where=sa.text("held_ns IS NOT NULL"),
        postgresql_where=sa.text("held_ns IS NOT NULL"),
    )
    op.create_index(
        "jobs_queued",
        "jobs",
        ["rank", "create_ns", "uid"],
        unique=False,
        sqlite_where=sa.text("state = 'QUEUED'"),
        postgresql_where=sa.text("state = 'QUEUED'"),
    )
    op.create_index(
        "jobs_unexplained",
        "jobs",
        ["create_ns", "uid"],
        unique=False,
        sqlite_where=sa.text("state = 'QUEUED' AND explanation IS NULL"),
        postgresql_where=sa.text("state = 'QUEUED' AND explanation IS NULL"),
    )
    op.create_table(
        "keys",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("create_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key_id"),
    )
    op.create_index("keys_by_email", "keys", ["email"], unique=False)
    op.create_table(
        "labels",
        sa.Column("uid", NUMBER, autoincrement=False, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("uid", "key"),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "marks",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "node_states",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "nodes",
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("seen_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("engine", "name"),
    )
    op.create_table(
        "operations",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("create_ns", sa.BigInteger(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("response", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "projects",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("number", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("projects_by_number", "projects", ["number"], unique=False)
    op.create_table(
        "replicas",
        sa.Column("uid", NUMBER, autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("task_name", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("signal", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("uid", "attempt", "role", "number"),
    )
    op.create_table(
        "retry_keys",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("create_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_index("retry_keys_by_age", "retry_keys", ["create_ns"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("create_ns", sa.BigInteger(), nullable=False),
        sa.Column("revoked", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("token_id"),
        sa.UniqueConstraint("digest"),
    )
    op.create_table(
        "attempts",
        sa.Column("uid", NUMBER, autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seats", sa.Text(), nullable=False),
        sa.Column("create_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["uid"],
            ["jobs.uid"],
        ),
        sa.PrimaryKeyConstraint("uid", "attempt"),
    )
    op.create_table(
        "commands",
        sa.Column("seq", NUMBER, nullable=False),
        sa.Column("uid", NUMBER, autoincrement=False, nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["uid"],
            ["jobs.uid"],
        ),
        sa.PrimaryKeyConstraint("seq"),
        sqlite_autoincrement=True,
    )
    op.create_index("commands_of_job", "commands", ["uid"], unique=False)
    op.create_table(
        "pipelines",
        sa.Column("uid", NUMBER, autoincrement=False, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("task_definition", sa.Text(), nullable=False),
        sa.Column("child_uid", NUMBER, nullable=False),
        sa.Column("create_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["child_uid"],
            ["jobs.uid"],
        ),
        sa.PrimaryKeyConstraint("uid"),
    )
    op.create_index("pipelines_by_age", "pipelines", ["project", "create_ns", "uid"], unique=False)
    op.create_index("pipelines_by_child", "pipelines", ["child_uid"], unique=False)
    op.create_table(
        "specs",
        sa.Column("uid", NUMBER, autoincrement=False, nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("expanded", sa.Text(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["uid"],
            ["jobs.uid"],
        ),
        sa.PrimaryKeyConstraint("uid"),
    )
