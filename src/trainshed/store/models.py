"""Stores models: those that training pipelines produce, and uploaded ones.

The row of a pipeline's model is written with the pipeline, and callers see it once the pipeline's
job has succeeded, so that the end of the job needs no write.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from trainshed.model.status import JobState
from trainshed.store import codec, filtering
from trainshed.store.adding import add_labels
from trainshed.store.bulk import given
from trainshed.store.database import Database
from trainshed.store.records.jobs import JobQuery
from trainshed.store.records.models import NewModel, StoredModel
from trainshed.store.rows import of_columns
from trainshed.store.tables import JOBS, LABELS, MODELS, PROJECTS
from trainshed.store.writer import Transaction

_SUCCEEDED: Final = JobState.SUCCEEDED.value
_ADD = insert(MODELS)
_GONE = given("gone", uid=BigInteger)
_OF_GONE = MODELS.c.child_uid.in_(select(_GONE.c.uid))
_HAS_SUCCEEDED = exists().where(JOBS.c.uid == MODELS.c.child_uid, JOBS.c.state == _SUCCEEDED)
#: When jobs are deleted, the models of successful jobs stay, without a job.
KEEP = update(MODELS).where(_OF_GONE, _HAS_SUCCEEDED).values(child_uid=None)
_UNMADE = select(MODELS.c.uid).where(_OF_GONE)
DROP_LABELS_OF_UNMADE = delete(LABELS).where(LABELS.c.uid.in_(_UNMADE))
DROP_UNMADE = delete(MODELS).where(_OF_GONE)
#: A lock: two servers that add a version to one model wait for each other.
_LOCK_PROJECT = select(PROJECTS.c.id).where(PROJECTS.c.id == bindparam("of_id")).with_for_update()


class Models:
    """The models of the store and their versions."""

    _db: Database

    def add_model(self, new: NewModel) -> StoredModel:
        """Store an uploaded version of a model."""
        self._db.check_room()
        uid = self._db.new_uid()
        self._db.write(lambda tx: add_model(tx, uid, new))
        [row] = self._db.rows(_VISIBLE.where(MODELS.c.uid == uid))
        return _model(row)

    def list_models(self, query: JobQuery) -> Sequence[StoredModel]:
        """Return the newest version of each model, newest first; ``query.kind`` is ignored."""
        return [_model(row) for row in self._db.rows(page_of(query))]

    def list_versions(self, query: JobQuery, model_id: str) -> Sequence[StoredModel]:
        """Return the versions of one model, the newest first; ``query.kind`` is ignored."""
        versions = _VISIBLE.where(MODELS.c.model_id == codec.plain(model_id))
        return [_model(row) for row in self._db.rows(_page(query, versions))]

    def count_models(self, project: str) -> int:
        """Count the model versions of a project, including those still in training."""
        count = select(func.count()).select_from(MODELS).where(MODELS.c.project == project)
        return self._db.read(lambda c: c.execute(count).scalar_one())

    def model_folder(self, child_uid: int) -> str:
        """Return the folder for the model of a pipeline's job; empty for any other job."""
        query = select(MODELS.c.document).where(MODELS.c.child_uid == child_uid)
        documents = (codec.TEXTS.decode(row.document) for row in self._db.rows(query))
        return next((json.loads(text).get("artifactUri", "") for [text] in documents), "")

    def delete_model(self, project: str, location: str, model_id: str) -> None:
        """Delete all visible versions of a model."""
        in_location = _VISIBLE.where(MODELS.c.project == project, MODELS.c.location == location)
        uids = in_location.with_only_columns(MODELS.c.uid).where(
            MODELS.c.model_id == codec.plain(model_id)
        )

        def drop(tx: Transaction) -> None:
            model_uids = tx.connection.execute(uids).scalars().all()
            tx.connection.execute(delete(LABELS).where(LABELS.c.uid.in_(model_uids)))
            tx.connection.execute(delete(MODELS).where(MODELS.c.uid.in_(model_uids)))

        self._db.write(drop)


def add_model(
    tx: Transaction,
    uid: int,
    new: NewModel,
    *,
    pipeline_uid: int | None = None,
    child_uid: int | None = None,
) -> None:
    """Write the row of a new version and its labels; its number is one more than the newest."""
    content = json.loads(new.document)
    model_id = codec.plain(new.model_id) or str(pipeline_uid or uid)
    name = {"project": new.project, "location": codec.plain(new.location), "model_id": model_id}
    tx.connection.execute(_LOCK_PROJECT, {"of_id": new.project})
    same = and_(*(MODELS.c[column] == value for column, value in name.items()))
    newest = tx.connection.execute(select(func.max(MODELS.c.version)).where(same)).scalar_one()
    row = {
        "uid": uid,
        "version": (newest or 0) + 1,
        "display_name": codec.plain(content.get("displayName", "")),
        "document": codec.TEXTS.encode((new.document,)),
        "pipeline_uid": pipeline_uid,
        "child_uid": child_uid,
        "create_ns": tx.now_ns // codec.NS_PER_US * codec.NS_PER_US,
    }
    tx.connection.execute(_ADD, name | row)
    add_labels(tx, {uid: content.get("labels") or {}})


def _is_visible(models: Any, jobs: Any) -> ColumnElement[bool]:
    has_succeeded = exists().where(jobs.c.uid == models.c.child_uid, jobs.c.state == _SUCCEEDED)
    return or_(models.c.child_uid.is_(None), has_succeeded)


_VISIBLE: Final = select(MODELS).where(_is_visible(MODELS, JOBS))
_newer = MODELS.alias("newer")
_IS_NEWEST = ~exists().where(
    _newer.c.project == MODELS.c.project,
    _newer.c.location == MODELS.c.location,
    _newer.c.model_id == MODELS.c.model_id,
    _newer.c.version > MODELS.c.version,
    _is_visible(_newer, JOBS.alias("job_of_newer")),
)


def page_of(query: JobQuery) -> Select[Any]:
    """Return the statement that reads one page of a list of models."""
    return _page(query, _VISIBLE.where(_IS_NEWEST))


def _page(query: JobQuery, rows: Select[Any]) -> Select[Any]:
    of_project = rows.where(MODELS.c.project == query.project)
    return filtering.page_of(query, of_project, MODELS, filtering.MODEL_FIELDS)


def _model(row: Row[Any]) -> StoredModel:
    [document] = codec.TEXTS.decode(row.document)
    time = codec.to_time(row.create_ns)
    return of_columns(StoredModel, row, document=document, create_time=time)
