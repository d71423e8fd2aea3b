"""Stores training pipelines, each with its custom job, and long-running operations."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Row, Select, bindparam, delete, insert, select

from trainshed.store import codec, filtering, rows
from trainshed.store.adding import UidTaken, add_all, add_labels, prepare
from trainshed.store.base import AlreadyThere
from trainshed.store.database import Database
from trainshed.store.jobs import DROP_LABELS
from trainshed.store.models import add_model
from trainshed.store.records.jobs import JobQuery, JobRecord, NewJob
from trainshed.store.records.models import NewModel, Operation, Pipeline
from trainshed.store.tables import JOBS, MODELS, OPERATIONS, PIPELINES, SPECS
from trainshed.store.upsert import insert as upsert
from trainshed.store.writer import Transaction

_OF_PIPELINE = {
    "pipeline_uid": PIPELINES.c.uid,
    "pipeline_project": PIPELINES.c.project,
    "pipeline_location": PIPELINES.c.location,
    "pipeline_display_name": PIPELINES.c.display_name,
    "pipeline_labels": PIPELINES.c.labels,
    "pipeline_create_ns": PIPELINES.c.create_ns,
    "model_version": MODELS.c.version,
}
PIPELINE: Select[Any] = (
    select(
        *rows.JOB_COLUMNS,
        SPECS.c.spec,
        PIPELINES.c.document,
        PIPELINES.c.task_definition,
        MODELS.c.model_id,
        *(column.label(name) for name, column in _OF_PIPELINE.items()),
    )
    .select_from(PIPELINES)
    .join(JOBS, JOBS.c.uid == PIPELINES.c.child_uid)
    .join(SPECS, SPECS.c.uid == PIPELINES.c.child_uid)
    .outerjoin(MODELS, MODELS.c.pipeline_uid == PIPELINES.c.uid)
)
_BY_UID = PIPELINE.where(PIPELINES.c.uid == bindparam("of_uid"))
_BY_CHILD = PIPELINE.where(PIPELINES.c.child_uid == bindparam("of_uid"))
_ADD = insert(PIPELINES)
_DELETE = delete(PIPELINES).where(PIPELINES.c.uid == bindparam("of_uid"))
_new = upsert(OPERATIONS)
_PUT_OPERATION = _new.on_conflict_do_update(
    index_elements=["name"],
    set_={"done": _new.excluded.done},
)
#: The value of columns that only older servers fill; newer servers derive it from other columns.
_UNUSED = "{}"


class Pipelines:
    _db: Database

    def add_pipeline(
        self, new: NewJob, document: str, task_definition: str, model: NewModel | None = None
    ) -> Pipeline:
        """Store a pipeline, its child job and the row of its future model, in one write.

        If the ``retry_key`` of the child job is known, return the earlier pipeline.  Raises
        AlreadyThere, and StoreFault also if the disk is nearly full.
        """
        self._db.check_room()
        while True:
            try:
                child_uid = self._db.write(self._write_of(new, document, task_definition, model))
            except UidTaken:
                continue
            return self._pipeline_of_child(child_uid)

    def pipeline(self, project: str, uid: int) -> tuple[Pipeline, JobRecord] | None:
        """Return a pipeline and its child job; None if the project has no such pipeline."""
        query = _BY_UID.where(PIPELINES.c.project == project)
        row = self._db.row(query, of_uid=uid)
        return (_pipeline(row), rows.job_record(row, self._db.clock())) if row else None

    def list_pipelines(self, query: JobQuery) -> Sequence[tuple[Pipeline, JobRecord]]:
        """Return pipelines and their child jobs, the newest first; ``query.kind`` is ignored."""
        matches = self._db.rows(page_of(query))
        now_ns = self._db.clock()
        return [(_pipeline(row), rows.job_record(row, now_ns)) for row in matches]

    def delete_pipeline(self, uid: int) -> None:
        """Delete a pipeline; its child job stays."""

        def drop(tx: Transaction) -> None:
            if tx.connection.execute(_DELETE, {"of_uid": uid}).rowcount:
                tx.connection.execute(DROP_LABELS, {"of_uid": uid})

        self._db.write(drop)

    def add_operation(self, operation: Operation) -> None:
        """Store an operation; for a known name, update only whether it is done."""
        self._db.put(
            _PUT_OPERATION,
            name=operation.name,
            project=operation.project,
            done=int(operation.done),
            create_ns=codec.to_ns(operation.create_time),
            metadata=_UNUSED,
            response=codec.TEXT.encode(operation.made) if operation.made else _UNUSED,
        )

    def operation(self, name: str) -> Operation | None:
        """Return an operation by its full name; None if there is none."""
        query = select(OPERATIONS).where(OPERATIONS.c.name == codec.plain(name))
        row = self._db.row(query)
        if row is None:
            return None
        time = codec.to_time(row.create_ns)
        model_version = "" if row.response.startswith("{") else codec.TEXT.decode(row.response)
        return rows.of_columns(
            Operation, row, done=bool(row.done), create_time=time, made=model_version
        )

    def _pipeline_of_child(self, uid: int) -> Pipeline:
        return _pipeline(self._db.read(lambda c: c.execute(_BY_CHILD, {"of_uid": uid}).one()))

    def _write_of(
        self, new: NewJob, document: str, task_definition: str, model: NewModel | None
    ) -> Callable[[Transaction], int]:
        """Return a write that adds a pipeline and its job, and returns the job's uid."""
        addition = prepare(new, self._db.new_uid())
        uid, model_uid = self._db.new_uid(), self._db.new_uid()
        row = {"uid": uid, **_pipeline_row(new, document), "task_definition": task_definition}

        def add(tx: Transaction) -> int:
            [outcome] = add_all(tx, [addition])
            if isinstance(outcome, AlreadyThere):
                raise outcome
            if outcome.is_new:
                create_ns = tx.now_ns // codec.NS_PER_US * codec.NS_PER_US
                times = {"child_uid": outcome.uid, "create_ns": create_ns}
                tx.connection.execute(_ADD, row | times)
                add_labels(tx, {uid: codec.LABELS.decode(row["labels"])})
                if model:
                    add_model(tx, model_uid, model, pipeline_uid=uid, child_uid=outcome.uid)
            return outcome.uid

        return add


def _pipeline_row(new: NewJob, document: str) -> dict[str, Any]:
    content: Mapping[str, Any] = json.loads(document)
    return {
        "project": codec.plain(new.project),
        "location": codec.plain(new.location),
        "display_name": codec.plain(content.get("displayName", new.spec.display_name)),
        "document": codec.TEXTS.encode((document,)),
        "labels": codec.LABELS.encode(content.get("labels") or {}),
    }


def page_of(query: JobQuery) -> Select[Any]:
    """Return the statement that reads one page of a list."""
    page = PIPELINE.where(PIPELINES.c.project == query.project)
    return filtering.page_of(query, page, PIPELINES, filtering.PIPELINE_FIELDS)


def _pipeline(row: Row[Any]) -> Pipeline:
    return Pipeline(
        uid=row.pipeline_uid,
        project=row.pipeline_project,
        location=row.pipeline_location,
        display_name=row.pipeline_display_name,
        document=codec.TEXTS.decode(row.document)[0],
        labels=codec.LABELS.decode(row.pipeline_labels),
        task_definition=row.task_definition,
        child_uid=row.uid,
        create_time=codec.to_time(row.pipeline_create_ns),
        model_id=row.model_id or "",
        model_version=row.model_version or 0,
    )
