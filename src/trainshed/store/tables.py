"""The tables.  What changes often stands in narrow rows; what never changes stands beside them.

Texts that only we read are JSON.  Times are nanoseconds since 1970.  Partial indexes hold what is
looked for in every pass: their size is that of the queue, not that of history.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    text,
)

#: SQLite keeps rows in the order of an INTEGER key, and only of that word.
NUMBER = BigInteger().with_variant(Integer(), "sqlite")

METADATA = MetaData()

_WAITS = "state = 'QUEUED'"


def _partial(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    only = text(where)
    return Index(name, *columns, unique=unique, sqlite_where=only, postgresql_where=only)


def _number(name: str, *, null: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=null)


def _text(name: str, *, null: bool = False) -> Column[str]:
    return Column(name, Text, nullable=null)


def _key(name: str) -> Column[str]:
    return Column(name, Text, primary_key=True)


def _job(name: str = "uid", *, key: bool = True) -> Column[int]:
    return Column(name, NUMBER, ForeignKey("jobs.uid"), primary_key=key, autoincrement=False)


JOBS = Table(
    "jobs",
    METADATA,
    Column("uid", NUMBER, primary_key=True, autoincrement=False),
    _text("project"),
    _text("location"),
    _text("kind"),
    _text("job_id"),
    _text("display_name"),
    _text("creator"),
    Column("rank", Integer, nullable=False),  # priority, negated: one direction serves the queue
    Column("running_s_max", Float),
    _text("demand"),
    _text("labels"),
    _text("state"),
    Column("version", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    _text("owner", null=True),
    _text("error", null=True),
    _text("explanation", null=True),
    _number("create_ns"),
    _number("start_ns", null=True),
    _number("end_ns", null=True),
    _number("update_ns"),
    _number("deleted_ns", null=True),
    _number("held_ns", null=True),  # since when the newest attempt holds places; null: it does not
    _number("changed", null=True),  # the mark under which it last took or left places, or ended
    _number("last_stamp_ns"),
    Column("waiting_s_max", Float),
    _number("deadline_ns", null=True),  # when its time to wait, or to run, is over
    Column("ran_ns", BigInteger, nullable=False, server_default=text("0")),  # to its last stop
    _number("running_since_ns", null=True),  # null: it does not run
    _text("restarts", null=True),  # null: none
    Column("is_study", Integer, nullable=False, server_default=text("0")),
    _partial("jobs_by_name", "project", "kind", "job_id", where="deleted_ns IS NULL", unique=True),
    _partial("jobs_by_age", "project", "kind", "create_ns", "uid", where="deleted_ns IS NULL"),
    _partial("jobs_by_state", "project", "state", where="deleted_ns IS NULL"),
    _partial("jobs_queued", "rank", "create_ns", "uid", where=_WAITS),
    _partial("jobs_unexplained", "create_ns", "uid", where=f"{_WAITS} AND explanation IS NULL"),
    _partial("jobs_held", "owner", where="held_ns IS NOT NULL"),
    _partial("jobs_changed", "changed", where="changed IS NOT NULL"),
    _partial("jobs_by_deadline", "deadline_ns", where="deadline_ns IS NOT NULL"),
    _partial("jobs_by_end", "end_ns", "uid", where="end_ns IS NOT NULL"),
    _partial("jobs_open_studies", "create_ns", "uid", where="is_study = 1 AND end_ns IS NULL"),
)

#: What was asked for; written once, so that an update of a job need not carry it along.
SPECS = Table("specs", METADATA, _job(), _text("spec"), _text("expanded"), _text("notes"))

#: Labels of jobs and pipelines once more, a row each, for filters.
LABELS = Table(
    "labels",
    METADATA,
    Column("uid", NUMBER, primary_key=True, autoincrement=False),
    _key("key"),
    _text("value"),
)

ATTEMPTS = Table(
    "attempts",
    METADATA,
    _job(),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    _text("seats"),
    _number("create_ns"),
)

REPLICAS = Table(
    "replicas",
    METADATA,
    Column("uid", NUMBER, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    _key("role"),
    Column("number", Integer, primary_key=True, autoincrement=False),
    _text("task_name"),
    _text("node"),
    _text("state"),
    Column("exit_code", Integer),
    Column("signal", Integer),
)

EVENTS = Table(
    "events",
    METADATA,
    Column("seq", NUMBER, primary_key=True),
    _number("uid"),
    Column("attempt", Integer, nullable=False),
    _number("stamp_ns"),
    _text("kind"),
    _text("message"),
    _text("data"),
    Index("events_of_job", "uid", "seq"),
)

#: What is still to be performed; a confirmed command is deleted.  A number is never given twice:
#: a late confirmation must not meet a younger command.
COMMANDS = Table(
    "commands",
    METADATA,
    Column("seq", NUMBER, primary_key=True),
    _job(key=False),
    Column("attempt", Integer, nullable=False),
    _text("kind"),
    _text("stop", null=True),  # how a STOP is to be performed
    Index("commands_of_job", "uid"),
    sqlite_autoincrement=True,
)

#: ``server:NAME`` for each live server, and ``scheduler``.
LEASES = Table("leases", METADATA, _key("name"), _text("holder"), _number("until_ns"))

#: Marks that ascend in the order of commits: whoever takes one holds its row until it commits.
#: Beside them, how the clock of this machine's servers stands (``store.steady_clock``).
MARKS = Table("marks", METADATA, _key("name"), _number("value"))

RETRY_KEYS = Table(
    "retry_keys",
    METADATA,
    _key("key"),
    _number("uid"),
    _number("create_ns"),
    Index("retry_keys_by_age", "create_ns"),
    Index("retry_keys_of_job", "uid"),
)

PIPELINES = Table(
    "pipelines",
    METADATA,
    Column("uid", NUMBER, primary_key=True, autoincrement=False),
    _text("project"),
    _text("location"),
    _text("display_name"),
    _text("document"),
    _text("labels"),
    _text("task_definition"),
    Column("child_uid", NUMBER, ForeignKey("jobs.uid"), nullable=False),
    _number("create_ns"),
    Index("pipelines_by_age", "project", "create_ns", "uid"),
    Index("pipelines_by_child", "child_uid"),
)

OPERATIONS = Table(
    "operations",
    METADATA,
    _key("name"),
    _text("project"),
    Column("done", Integer, nullable=False),
    _number("create_ns"),
    _text("metadata"),
    _text("response"),
)

PROJECTS = Table(
    "projects", METADATA, _key("id"), _text("number"), Index("projects_by_number", "number")
)

BUCKETS = Table(
    "buckets",
    METADATA,
    _key("name"),
    _text("project"),
    _number("create_ns"),
    Index("buckets_of_project", "project"),
)

TOKENS = Table(
    "tokens",
    METADATA,
    _key("token_id"),
    Column("digest", Text, nullable=False, unique=True),
    _text("name"),
    _text("project"),
    _text("role"),
    _number("create_ns"),
    Column("revoked", Integer, nullable=False),
)

KEYS = Table(
    "keys",
    METADATA,
    _key("key_id"),
    _text("email"),
    _text("public_key"),
    _text("project"),
    _text("role"),
    _number("create_ns"),
    Index("keys_by_email", "email"),
)

NODES = Table(
    "nodes",
    METADATA,
    _key("engine"),
    _key("name"),
    _text("node"),
    _number("seen_ns"),
)

#: States that an administrator gave; they outlive what engines report.
NODE_STATES = Table(
    "node_states", METADATA, _key("name"), _text("state"), Column("notice_s", Float)
)


TRIALS: Final = Table(
    "trials",
    METADATA,
    Column("uid", NUMBER, ForeignKey("jobs.uid"), primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("job_uid", BigInteger, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("parameters", Text, nullable=False),
    Column("final", Text),
    Column("reason", Text),
    Column("stopped_early", Integer, nullable=False),
    Column("start_ns", BigInteger),
    Column("end_ns", BigInteger),
    Column("mark_attempt", Integer, nullable=False),  # up to where reports are stored
    Column("mark", BigInteger, nullable=False),
    Index("trials_by_job", "job_uid", unique=True),
)

#: A row for what one step brought of one trial.  Its reports are one JSON text: a column of floats
#: keeps NaN in one database and not in the other, and rows of single values are slow to read.
REPORTS: Final = Table(
    "reports",
    METADATA,
    Column("seq", NUMBER, primary_key=True),
    Column("uid", BigInteger, ForeignKey("jobs.uid"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("content", Text, nullable=False),
    Index("reports_of_study", "uid", "number", "seq"),
)
