"""The first tables."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _texts(*names: str, null: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), nullable=null) for name in names]


def _integers(*names: str, null: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Integer(), nullable=null) for name in names]


def _numbers(*names: str, null: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.BigInteger(), nullable=null) for name in names]


def _uid(name: str = "uid", *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, NUMBER, autoincrement=False, nullable=null)


def _of_jobs(name: str = "uid") -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([name], ["jobs.uid"])


def _table(
    name: str, columns: Sequence[sa.Column[Any]], keys: Sequence[str], *more: Any, **options: Any
) -> None:
    op.create_table(name, *columns, *more, sa.PrimaryKeyConstraint(*keys), **options)


def _index_of_jobs(name: str, columns: Sequence[str], where: str, *, unique: bool = False) -> None:
    only = sa.text(where)
    op.create_index(name, "jobs", columns, unique=unique, sqlite_where=only, postgresql_where=only)


def upgrade() -> None:
    _jobs()
    _details_of_jobs()
    _pipelines_and_operations()
    _projects_and_tokens()
    _servers_and_nodes()


def _jobs() -> None:
    columns = [
        _uid(),
        *_texts("project", "location", "kind", "job_id", "display_name", "creator"),
        *_integers("rank"),
        sa.Column("running_s_max", sa.Float(), nullable=True),
        *_texts("demand", "labels", "state"),
        *_integers("version", "attempt"),
        *_texts("owner", "error", "explanation", null=True),
        *_numbers("create_ns"),
        *_numbers("start_ns", "end_ns", null=True),
        *_numbers("update_ns"),
        *_numbers("deleted_ns", "held_ns", "changed", null=True),
        *_numbers("last_stamp_ns"),
    ]
    _table("jobs", columns, ["uid"])
    lives, waits = "deleted_ns IS NULL", "state = 'QUEUED'"
    _index_of_jobs("jobs_by_age", ["project", "kind", "create_ns", "uid"], lives)
    _index_of_jobs("jobs_by_name", ["project", "kind", "job_id"], lives, unique=True)
    _index_of_jobs("jobs_by_state", ["project", "state"], lives)
    _index_of_jobs("jobs_changed", ["changed"], "changed IS NOT NULL")
    _index_of_jobs("jobs_held", ["owner"], "held_ns IS NOT NULL")
    _index_of_jobs("jobs_queued", ["rank", "create_ns", "uid"], waits)
    _index_of_jobs("jobs_unexplained", ["create_ns", "uid"], f"{waits} AND explanation IS NULL")


def _details_of_jobs() -> None:
    _table("specs", [_uid(), *_texts("spec", "expanded", "notes")], ["uid"], _of_jobs())
    _table("labels", [_uid(), *_texts("key", "value")], ["uid", "key"])
    attempt = sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False)
    columns = [_uid(), attempt, *_texts("seats"), *_numbers("create_ns")]
    _table("attempts", columns, ["uid", "attempt"], _of_jobs())
    columns = [
        _uid(),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        *_texts("role"),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        *_texts("task_name", "node", "state"),
        *_integers("exit_code", "signal", null=True),
    ]
    _table("replicas", columns, ["uid", "attempt", "role", "number"])
    columns = [
        sa.Column("seq", NUMBER, nullable=False),
        *_numbers("uid"),
        *_integers("attempt"),
        *_numbers("stamp_ns"),
        *_texts("kind", "message", "data"),
    ]
    _table("events", columns, ["seq"])
    op.create_index("events_of_job", "events", ["uid", "seq"])
    columns = [
        sa.Column("seq", NUMBER, nullable=False),
        _uid(null=True),
        *_integers("attempt"),
        *_texts("kind"),
    ]
    _table("commands", columns, ["seq"], _of_jobs(), sqlite_autoincrement=True)
    op.create_index("commands_of_job", "commands", ["uid"])


def _pipelines_and_operations() -> None:
    _table("retry_keys", [*_texts("key"), *_numbers("uid", "create_ns")], ["key"])
    op.create_index("retry_keys_by_age", "retry_keys", ["create_ns"])
    columns = [
        _uid(),
        *_texts("project", "location", "display_name", "document", "labels", "task_definition"),
        sa.Column("child_uid", NUMBER, nullable=False),
        *_numbers("create_ns"),
    ]
    _table("pipelines", columns, ["uid"], _of_jobs("child_uid"))
    op.create_index("pipelines_by_age", "pipelines", ["project", "create_ns", "uid"])
    op.create_index("pipelines_by_child", "pipelines", ["child_uid"])
    columns = [
        *_texts("name", "project"),
        *_integers("done"),
        *_numbers("create_ns"),
        *_texts("metadata", "response"),
    ]
    _table("operations", columns, ["name"])


def _projects_and_tokens() -> None:
    _table("projects", _texts("id", "number"), ["id"])
    op.create_index("projects_by_number", "projects", ["number"])
    _table("buckets", [*_texts("name", "project"), *_numbers("create_ns")], ["name"])
    op.create_index("buckets_of_project", "buckets", ["project"])
    columns = [
        *_texts("token_id", "digest", "name", "project", "role"),
        *_numbers("create_ns"),
        *_integers("revoked"),
    ]
    _table("tokens", columns, ["token_id"], sa.UniqueConstraint("digest"))
    columns = [*_texts("key_id", "email", "public_key", "project", "role"), *_numbers("create_ns")]
    _table("keys", columns, ["key_id"])
    op.create_index("keys_by_email", "keys", ["email"])


def _servers_and_nodes() -> None:
    _table("leases", [*_texts("name", "holder"), *_numbers("until_ns")], ["name"])
    _table("marks", [*_texts("name"), *_numbers("value")], ["name"])
    _table("node_states", _texts("name", "state"), ["name"])
    _table("nodes", [*_texts("engine", "name", "node"), *_numbers("seen_ns")], ["engine", "name"])
