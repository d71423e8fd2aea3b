"""The tables of the database.

Values that change often are in narrow rows, constant values in other tables.  Texts that only the
store reads are JSON.  Times are nanoseconds since 1970.  Frequent queries use partial indexes,
which grow with the queue, not with the number of ended jobs.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    event,
    text,
)

from trainshed.model.time_use import HELD_USES

#: SQLite stores rows in the order of their key only if its type is exactly INTEGER.
NUMBER = BigInteger().with_variant(Integer(), "sqlite")

METADATA = MetaData()

_WAITS = "state = 'QUEUED'"


def _partial(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=text(where))


@event.listens_for(METADATA, "before_create")
def _limit_indexes(metadata: MetaData, connection: Connection, **_: object) -> None:
    """Give PostgreSQL the conditions of indexes; only here, because it imports its drivers."""
    if connection.dialect.name == "postgresql":
        for index in [index for table in metadata.tables.values() for index in table.indexes]:
            options = index.dialect_options
            options["postgresql"]["where"] = options["sqlite"]["where"]


def _numbers(*names: str, null: bool = False) -> list[Column[int]]:
    return [Column(name, BigInteger, nullable=null) for name in names]


def _integers(*names: str, null: bool = False) -> list[Column[int]]:
    return [Column(name, Integer, nullable=null) for name in names]


def _texts(*names: str, null: bool = False) -> list[Column[str]]:
    return [Column(name, Text, nullable=null) for name in names]


def _uid() -> Column[int]:
    return Column("uid", NUMBER, primary_key=True, autoincrement=False)


def _part(name: str) -> Column[int]:
    return Column(name, Integer, primary_key=True, autoincrement=False)


def _key(name: str) -> Column[str]:
    return Column(name, Text, primary_key=True)


def _job(name: str = "uid", *, key: bool = True) -> Column[int]:
    return Column(name, NUMBER, ForeignKey("jobs.uid"), primary_key=key, autoincrement=False)


JOBS = Table(
    "jobs",
    METADATA,
    _uid(),
    *_texts("project", "location", "kind", "job_id", "display_name", "creator"),
    *_integers("rank"),  # negated priority: the queue sorts all columns upwards
    Column("running_s_max", Float),
    *_texts("demand", "labels", "state"),
    *_integers("version", "attempt"),
    *_texts("owner", "error", "explanation", null=True),
    *_numbers("create_ns"),
    *_numbers("start_ns", "end_ns", null=True),
    *_numbers("update_ns"),
    *_numbers("deleted_ns", null=True),
    *_numbers("held_ns", null=True),  # since when the newest attempt holds seats; null: none
    *_numbers("changed", null=True),  # the mark of the last change of seats, or of the end
    *_numbers("last_stamp_ns"),
    Column("waiting_s_max", Float),
    *_numbers("deadline_ns", null=True),  # when its waiting time or run time is used up
    Column("ran_ns", BigInteger, nullable=False, server_default=text("0")),  # until its last stop
    *_numbers("running_since_ns", null=True),  # null: not running
    *_texts("restarts", null=True),  # null: no restarts
    Column("is_study", Integer, nullable=False, server_default=text("0")),
    *_numbers("refused_ns", null=True),  # when its engine last refused it; null: never
    Column(
        "refusals", Integer, nullable=False, server_default=text("0")
    ),  # in succession; -1: held
    _partial("jobs_by_name", "project", "kind", "job_id", where="deleted_ns IS NULL", unique=True),
    _partial("jobs_by_age", "project", "kind", "create_ns", "uid", where="deleted_ns IS NULL"),
    _partial("jobs_newest", "create_ns", "uid", where="deleted_ns IS NULL"),
    _partial("jobs_newest_of_project", "project", "create_ns", "uid", where="deleted_ns IS NULL"),
    _partial("jobs_open", "end_ns", "create_ns", "uid", where="end_ns IS NULL"),
    _partial("jobs_by_state", "project", "state", where="deleted_ns IS NULL"),
    _partial("jobs_queued", "rank", "create_ns", "uid", where=_WAITS),
    _partial(
        "jobs_unexplained",
        "rank",
        "create_ns",
        "uid",
        where=f"{_WAITS} AND explanation IS NULL",
    ),
    _partial("jobs_held", "owner", where="held_ns IS NOT NULL"),
    _partial("jobs_changed", "changed", where="changed IS NOT NULL"),
    _partial("jobs_by_deadline", "deadline_ns", where="deadline_ns IS NOT NULL"),
    _partial("jobs_by_end", "end_ns", "uid", where="end_ns IS NOT NULL"),
    _partial("jobs_open_studies", "create_ns", "uid", where="is_study = 1 AND end_ns IS NULL"),
)

#: The spec of each job; written once, so that updates of a job do not copy it.
SPECS = Table("specs", METADATA, _job(), *_texts("spec", "expanded", "notes"))

#: A copy of the labels of jobs and pipelines, one row per label, for filters.
LABELS = Table("labels", METADATA, _uid(), _key("key"), *_texts("value"))

ATTEMPTS = Table(
    "attempts",
    METADATA,
    _job(),
    _part("attempt"),
    *_texts("seats"),
    *_numbers("create_ns"),
    Column("engine", Text, nullable=False, server_default=""),  # empty: the first engine
    *_texts("claim", null=True),  # if the engine chooses the nodes; null: seats
)

REPLICAS = Table(
    "replicas",
    METADATA,
    _uid(),
    _part("attempt"),
    _key("role"),
    _part("number"),
    *_texts("task_name", "node", "state"),
    *_integers("exit_code", "signal", null=True),
)

EVENTS = Table(
    "events",
    METADATA,
    Column("seq", NUMBER, primary_key=True),
    *_numbers("uid"),
    *_integers("attempt"),
    *_numbers("stamp_ns"),
    *_texts("kind", "message", "data"),
    Index("events_of_job", "uid", "seq"),
)

#: Unconfirmed commands; a confirmed command is deleted.  A ``seq`` is never used again, so that a
#: late confirmation cannot delete a newer command.
COMMANDS = Table(
    "commands",
    METADATA,
    Column("seq", NUMBER, primary_key=True),
    _job(key=False),
    *_integers("attempt"),
    *_texts("kind"),
    *_texts("stop", null=True),  # how to perform a STOP
    Index("commands_of_job", "uid"),
    sqlite_autoincrement=True,
)

#: ``server:NAME`` for each live server, and ``scheduler``.
LEASES = Table("leases", METADATA, _key("name"), *_texts("holder"), *_numbers("until_ns"))

#: Counters that ascend in the order of commits: a write that increments one locks its row until the
#: commit.  Also the offsets of the servers' clocks (``store.steady_clock``).
MARKS = Table("marks", METADATA, _key("name"), *_numbers("value"))

RETRY_KEYS = Table(
    "retry_keys",
    METADATA,
    _key("key"),
    *_numbers("uid", "create_ns"),
    Index("retry_keys_by_age", "create_ns"),
    Index("retry_keys_of_job", "uid"),
)

PIPELINES = Table(
    "pipelines",
    METADATA,
    _uid(),
    *_texts("project", "location", "display_name", "document", "labels", "task_definition"),
    Column("child_uid", NUMBER, ForeignKey("jobs.uid"), nullable=False),
    *_numbers("create_ns"),
    Index("pipelines_by_age", "project", "create_ns", "uid"),
    Index("pipelines_by_child", "child_uid"),
)

#: One row per version.  The row of a pipeline's model is written with the pipeline; callers see it
#: once the job ``child_uid`` has succeeded.  ``child_uid`` is null after that job was deleted.
MODELS = Table(
    "models",
    METADATA,
    _uid(),
    *_texts("project", "location", "model_id"),
    *_integers("version"),
    *_texts("display_name", "document"),
    Column("child_uid", NUMBER, ForeignKey("jobs.uid")),
    *_numbers("pipeline_uid", null=True),
    *_numbers("create_ns"),
    Index("models_by_id", "project", "location", "model_id", "version"),
    Index("models_by_age", "project", "create_ns", "uid"),
    Index("models_by_child", "child_uid"),
    Index("models_by_pipeline", "pipeline_uid"),
)

OPERATIONS = Table(
    "operations",
    METADATA,
    _key("name"),
    *_texts("project"),
    *_integers("done"),
    *_numbers("create_ns"),
    *_texts("metadata", "response"),
)

PROJECTS = Table(
    "projects", METADATA, _key("id"), *_texts("number"), Index("projects_by_number", "number")
)

#: The number from which the user id of a project derives; no other project ever gets it.
OWNERS = Table(
    "owners", METADATA, _key("project"), Column("number", Integer, nullable=False, unique=True)
)

BUCKETS = Table(
    "buckets",
    METADATA,
    _key("name"),
    *_texts("project"),
    *_numbers("create_ns"),
    Index("buckets_of_project", "project"),
)

TOKENS = Table(
    "tokens",
    METADATA,
    _key("token_id"),
    Column("digest", Text, nullable=False, unique=True),
    *_texts("name", "project", "role"),
    *_numbers("create_ns"),
    *_integers("revoked"),
    *_numbers("expire_ns", "used_ns", null=True),  # null: does not expire; was never used
    *_texts("bucket", "parent", null=True),  # of a token for one bucket
    Index("tokens_by_parent", "parent"),
)

#: Browsers that are signed in with a token.
SIGN_INS = Table(
    "sign_ins",
    METADATA,
    _key("digest"),
    *_texts("page_digest", "credential", "address"),  # credential: the id of the token
    *_numbers("create_ns", "used_ns"),
    Index("sign_ins_by_credential", "credential", "create_ns"),
)

#: Unused codes, with which a browser signs in once.
SIGN_IN_CODES = Table(
    "sign_in_codes",
    METADATA,
    _key("digest"),
    *_texts("credential"),
    *_numbers("create_ns"),
    Index("sign_in_codes_by_credential", "credential", "create_ns"),
)

KEYS = Table(
    "keys",
    METADATA,
    _key("key_id"),
    *_texts("email", "public_key", "project", "role"),
    *_numbers("create_ns"),
    Index("keys_by_email", "email"),
)

NODES = Table(
    "nodes",
    METADATA,
    _key("engine"),
    _key("name"),
    *_texts("node"),
    *_numbers("seen_ns"),
)

#: States that an administrator set; they have priority over the states that engines report.
NODE_STATES = Table(
    "node_states",
    METADATA,
    _key("engine"),
    _key("name"),
    *_texts("state"),
    Column("notice_s", Float),
)

#: All changes and refused calls, without secrets (``store.audit_log``).
AUDIT_LOG = Table(
    "audit_log",
    METADATA,
    Column("seq", NUMBER, primary_key=True),
    *_numbers("stamp_ns"),
    *_texts("caller", "credential", "address", "method", "resource", "project", "status"),
    *_integers("is_stranger"),
)

#: One row per attempt with reported steps.  ``content`` is its score against the prediction, null
#: until it is scored.  The row outlives its job.
OUTCOMES = Table(
    "outcomes",
    METADATA,
    _uid(),
    _part("attempt"),
    *_texts("project", "content", null=True),
    *_numbers("create_ns"),
    _partial("outcomes_to_score", "create_ns", where="content IS NULL"),
    Index("outcomes_by_age", "project", "create_ns"),
)

#: The calibration from jobs of a project, for one trainer on one machine type.
CALIBRATIONS = Table(
    "calibrations",
    METADATA,
    _key("project"),
    _key("key"),
    *_texts("document"),
    *_integers("jobs"),
    *_numbers("update_ns"),
    *_texts("model", "machine_type", "accelerator"),  # copied from the document, for lists
)

#: The time of attempts by its use, a row for each machine type and day (UTC) of an attempt; the row
#: outlives its job.  ``gpus``, ``vcpus`` and ``hour_price`` are of all machines of the type.
ATTEMPT_USAGE = Table(
    "attempt_usage",
    METADATA,
    _uid(),
    _part("attempt"),
    _key("machine_type"),
    _part("day"),  # days since 1970
    *_texts("project", "creator", "job_id"),
    *_integers("gpus"),
    Column("vcpus", Float, nullable=False),
    *_numbers("placed_ns"),
    *_numbers("end_ns", null=True),  # null: the attempt has not ended
    *(Column(f"{use}_s", Float, nullable=False) for use in HELD_USES),
    Column("energy_j", Float),  # null: not measured
    Column("hour_price", Float),  # of all machines of this type; null: the type has no price
    *_texts("currency", "price_source", "price_date"),
    *_numbers("update_ns"),
    Index("attempt_usage_by_day", "day"),
    Index("attempt_usage_of_project", "project", "day"),
)

#: The same time by GPU, and by node for machines without GPUs; the rows of a machine type add up to
#: its row above.  The key begins with what reports group by, so that a long report reads the table
#: in its order.  The seconds are of one GPU or machine, and ``hour_price`` is of all of a row;
#: ``currency`` is empty, and the price 0, if the type has no price.
MACHINE_USAGE = Table(
    "machine_usage",
    METADATA,
    _key("engine"),
    _key("node"),  # empty: unknown
    _key("gpu"),  # the UUID; empty: machines without GPUs, and GPUs that were not measured
    _key("machine_type"),
    _part("gpus"),
    Column("vcpus", Float, primary_key=True),
    _key("currency"),
    Column("hour_price", Float, primary_key=True),
    _part("day"),
    _uid(),
    _part("attempt"),
    *_texts("project", "creator", "gpu_type"),
    *_integers("gpu_index", null=True),
    *(Column(f"{use}_s", Float, nullable=False) for use in HELD_USES),
    Column("energy_j", Float),  # null: not measured
    Index("machine_usage_by_day", "day"),
    Index("machine_usage_of_job", "uid"),
    sqlite_with_rowid=False,
)

#: Seconds of GPUs by state; a row for each day (UTC), node and type.
GPU_DAYS = Table(
    "gpu_days",
    METADATA,
    _part("day"),
    _key("engine"),
    _key("node"),
    _key("gpu_type"),
    _key("state"),
    Column("seconds", Float, nullable=False),
)

TRIALS: Final = Table(
    "trials",
    METADATA,
    _job(),
    _part("number"),
    *_numbers("job_uid"),
    *_texts("job_id", "state", "parameters"),
    *_texts("final", "reason", null=True),
    *_integers("stopped_early"),
    *_numbers("start_ns", "end_ns", null=True),
    *_integers("mark_attempt"),  # with mark: the position up to which reports are stored
    *_numbers("mark"),
    *_numbers("paused_at", null=True),  # the step at which it was last paused
    Index("trials_by_job", "job_uid", unique=True),
)

#: What a study has before its first trial (``model.study_start``): JSON texts that never change.
STUDY_STARTS: Final = Table(
    "study_starts",
    METADATA,
    _job(),
    *_integers("result_count", "point_count"),
    *_texts("results", "points"),
)

#: One row per step and trial.  Its reports are one JSON text: only one of the two databases can
#: store NaN in a column of floats, and rows of single values are slow to read.
REPORTS: Final = Table(
    "reports",
    METADATA,
    Column("seq", NUMBER, primary_key=True),
    Column("uid", BigInteger, ForeignKey("jobs.uid"), nullable=False),
    *_integers("number"),
    *_texts("content"),
    Index("reports_of_study", "uid", "number", "seq"),
)
