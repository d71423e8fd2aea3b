"""Reads and writes jobs, from their creation to their deletion."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from sqlalchemy import (
    BigInteger,
    Row,
    Select,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
    update,
)

from trainshed.model.job import JobSpec
from trainshed.model.resource_names import JobUid
from trainshed.model.resources import JobDemand
from trainshed.store import codec, filtering
from trainshed.store.adding import (
    RETRY_NS,
    Added,
    Addition,
    UidTaken,
    add_all,
    add_labels,
    expanded_of,
    new_record,
    prepare,
)
from trainshed.store.base import AlreadyThere, StaleEtag
from trainshed.store.bulk import given
from trainshed.store.database import Database
from trainshed.store.front import IN_LINE, IS_FREE, QUEUED
from trainshed.store.listed_jobs import LoggedJob
from trainshed.store.models import DROP_LABELS_OF_UNMADE, DROP_UNMADE, KEEP
from trainshed.store.names import etag as etag_of
from trainshed.store.records.jobs import JobKind, JobQuery, JobRecord, NewJob
from trainshed.store.rows import JOB, job_record
from trainshed.store.study_rows import hide_trials
from trainshed.store.tables import (
    ATTEMPTS,
    COMMANDS,
    EVENTS,
    JOBS,
    LABELS,
    OUTCOMES,
    PIPELINES,
    REPLICAS,
    REPORTS,
    RETRY_KEYS,
    SPECS,
    STUDY_STARTS,
    TRIALS,
)
from trainshed.store.writer import Transaction

T = TypeVar("T")

_PRUNE_NS = 60 * 1_000_000_000

_LIVES = JOBS.c.deleted_ns.is_(None)
BY_NAME = JOB.where(
    JOBS.c.project == bindparam("project"),
    JOBS.c.kind == bindparam("kind"),
    JOBS.c.job_id == bindparam("job_id"),
    _LIVES,
)
BY_UID = JOB.where(JOBS.c.uid == bindparam("of_uid"))
_REQUESTED = given("wanted", uid=BigInteger)
BY_UIDS = JOB.where(JOBS.c.uid.in_(select(_REQUESTED.c.uid)))
_LOGGED = (
    select(JOBS.c.uid, JOBS.c.create_ns, JOBS.c.end_ns)
    .where(JOBS.c.project == bindparam("of_project"), _LIVES)
    .where(JOBS.c.create_ns < bindparam("before_ns", type_=BigInteger))
    .where(or_(JOBS.c.end_ns.is_(None), JOBS.c.end_ns >= bindparam("from_ns", type_=BigInteger)))
    .where(~exists().where(TRIALS.c.job_uid == JOBS.c.uid))
)
_PLACE = select(JOBS.c.rank, JOBS.c.create_ns).where(JOBS.c.uid == bindparam("of_uid"), QUEUED)
BEFORE = (
    select(func.count())
    .select_from(JOBS)
    .where(
        QUEUED,
        IS_FREE,
        tuple_(bindparam("rank"), bindparam("create_ns"), bindparam("uid")) > tuple_(*IN_LINE),
    )
)
COUNTS = (
    select(JOBS.c.project, JOBS.c.state, func.count())
    .where(_LIVES)
    .group_by(JOBS.c.project, JOBS.c.state)
)
_SET_LABELS = (
    update(JOBS)
    .where(JOBS.c.uid == bindparam("of_uid"), JOBS.c.version == bindparam("at_version"), _LIVES)
    .values(
        labels=bindparam("new_labels"),
        version=JOBS.c.version + 1,
        update_ns=bindparam("now_ns"),
    )
)
_DROP_OLD_KEYS = delete(RETRY_KEYS).where(RETRY_KEYS.c.create_ns < bindparam("forgotten_ns"))
_NEW_UID_OF_KEY = select(RETRY_KEYS.c.uid).where(
    RETRY_KEYS.c.key == bindparam("of_key"), RETRY_KEYS.c.create_ns >= bindparam("forgotten_ns")
)
_VERSION = select(JOBS.c.version).where(JOBS.c.uid == bindparam("of_uid"), _LIVES)
DROP_LABELS = delete(LABELS).where(LABELS.c.uid == bindparam("of_uid"))
_HIDE = (
    update(JOBS)
    .where(JOBS.c.uid == bindparam("of_uid"), JOBS.c.end_ns.is_not(None), _LIVES)
    .values(deleted_ns=bindparam("now_ns"), version=JOBS.c.version + 1)
)


class StoredJobs:
    """The jobs of the store, by name and by uid."""

    _db: Database
    _pruned_ns = 0

    def add_job(self, new: NewJob) -> tuple[JobRecord, bool]:
        """Store a new job as QUEUED, a study as PREPARING; return its record and True.

        If a job of the last ten minutes has the same ``retry_key``, store nothing; return that
        job's record and False.  Raises AlreadyThere; StoreFault also if the disk is nearly full.
        """
        self._db.check_room()
        while True:
            addition = prepare(new, self._db.new_uid())
            try:
                added = self._db.write_with_others(self._add_all, addition)
            except UidTaken:
                continue
            if added.is_new:
                return new_record(addition, codec.to_time(added.time_ns)), True
            if first := self.job_by_uid(added.uid):  # None if it was deleted meanwhile
                return first, False

    def job_of_key(self, retry_key: str) -> JobRecord | None:
        """Return the job that a create of the last ten minutes with this key has stored."""
        key = {"of_key": codec.plain(retry_key), "forgotten_ns": self._db.clock() - RETRY_NS}
        row = self._db.row(_NEW_UID_OF_KEY, **key)
        return None if row is None else self.job_by_uid(row.uid)

    def job(self, project: str, kind: JobKind, job_id: str) -> JobRecord | None:
        """Return a job by name; None if there is none or it was deleted."""
        plain_id = codec.plain(job_id)
        row = self._db.row(BY_NAME, project=project, kind=kind.value, job_id=plain_id)
        return self._record(row)

    def job_by_uid(self, uid: int) -> JobRecord | None:
        """Return the job of a uid, also a deleted one; None if there is none."""
        return self._record(self._db.row(BY_UID, of_uid=uid))

    def jobs_by_uid(self, uids: Collection[int]) -> Mapping[int, JobRecord]:
        """Return the jobs by uid; leaves out uids without a job."""
        rows = self._db.rows(BY_UIDS, wanted=json.dumps([[uid] for uid in uids]))
        now_ns = self._db.clock()
        return {row.uid: job_record(row, now_ns) for row in rows}

    def expanded(self, uid: int) -> JobSpec:
        """Return the spec to launch.  Raises KeyError if there is no job of this uid."""
        return expanded_of(self._spec_row(uid))

    def to_launch(self, uid: int) -> tuple[JobSpec, tuple[str, ...]]:
        """Return the spec to launch and the notes, in one query.  Raises KeyError."""
        row = self._spec_row(uid)
        return expanded_of(row), codec.TEXTS.decode(row.notes)

    def demand(self, uid: int) -> JobDemand:
        """Return the resources that the job needs at the same time.  Raises KeyError."""
        row = _require(self._db.row(_DEMAND, of_uid=uid), uid)
        return codec.DEMAND.decode(row.demand)

    def notes(self, uid: int) -> tuple[str, ...]:
        """Return the notes that begin the job's log.  Raises KeyError."""
        return codec.TEXTS.decode(self._spec_row(uid).notes)

    def list_jobs(self, query: JobQuery) -> Sequence[JobRecord]:
        """Return at most ``page_size`` jobs, the newest first."""
        rows = self._db.rows(page_of(query))
        now_ns = self._db.clock()
        return [job_record(row, now_ns) for row in rows]

    def logged_jobs(self, project: str, from_ns: int, before_ns: int) -> Sequence[LoggedJob]:
        """List the jobs that existed at any time from ``from_ns`` until before ``before_ns``.

        A study is one job: the jobs of its trials are left out.
        """
        rows = self._db.rows(_LOGGED, of_project=project, from_ns=from_ns, before_ns=before_ns)
        return [LoggedJob(uid=JobUid(uid), create_ns=begin, end_ns=end) for uid, begin, end in rows]

    def queue_position(self, uid: int) -> int | None:
        """Count the queued jobs before a job, by priority and age; None if it is not queued."""
        place = self._db.row(_PLACE, of_uid=uid)
        if place is None:
            return None
        parameters = {"rank": place.rank, "create_ns": place.create_ns, "uid": uid}
        return self._db.read(lambda c: c.execute(BEFORE, parameters).scalar_one())

    def set_labels(self, uid: int, labels: Mapping[str, str], etag: bytes | None) -> JobRecord:
        """Replace a job's labels.  Raises StaleEtag if ``etag`` is not None and not the job's etag.

        Raises KeyError if the job does not exist or was deleted.
        """
        text = codec.LABELS.encode(labels)

        def put(tx: Transaction) -> None:
            while True:
                version = tx.connection.execute(_VERSION, {"of_uid": uid}).scalar_one_or_none()
                if version is None:
                    raise KeyError(uid)
                if etag is not None and etag != etag_of(uid, version):
                    raise StaleEtag(uid)
                parameters = {"of_uid": uid, "at_version": version, "now_ns": tx.now_ns}
                if tx.connection.execute(_SET_LABELS, parameters | {"new_labels": text}).rowcount:
                    break
            tx.connection.execute(DROP_LABELS, {"of_uid": uid})
            add_labels(tx, {uid: labels})

        self._db.write(put)
        return _require(self.job_by_uid(uid), uid)

    def delete_job(self, uid: int) -> None:
        """Hide a job that has ended from names and lists, with an ml v1 study's trials.

        Its rows and events stay until retention deletes them.
        """

        def hide(tx: Transaction) -> None:
            if tx.connection.execute(_HIDE, {"of_uid": uid, "now_ns": tx.now_ns}).rowcount:
                hide_trials(tx, [uid])

        self._db.write(hide)

    def counts(self) -> Mapping[tuple[str, str], int]:
        """Return the number of jobs by (project, state)."""
        return {(project, state): count for project, state, count in self._db.rows(COUNTS)}

    def _record(self, row: Row[Any] | None) -> JobRecord | None:
        return None if row is None else job_record(row, self._db.clock())

    def _spec_row(self, uid: int) -> Any:
        return _require(self._db.row(_SPEC, of_uid=uid), uid)

    def _add_all(
        self, tx: Transaction, additions: Sequence[Addition]
    ) -> Sequence[Added | AlreadyThere]:
        if tx.now_ns - self._pruned_ns > _PRUNE_NS:
            self._pruned_ns = tx.now_ns
            tx.connection.execute(_DROP_OLD_KEYS, {"forgotten_ns": tx.now_ns - RETRY_NS})
        return add_all(tx, additions)


def page_of(query: JobQuery) -> Select[Any]:
    """Return the statement that reads one page of a list."""
    page = JOB.where(JOBS.c.project == query.project, JOBS.c.kind == query.kind.value, _LIVES)
    return filtering.page_of(query, page, JOBS, filtering.JOB_FIELDS)


def _require(value: T | None, uid: int) -> T:
    if value is None:
        raise KeyError(uid)
    return value


_SPEC = select(SPECS).where(SPECS.c.uid == bindparam("of_uid"))
_DEMAND = select(JOBS.c.demand).where(JOBS.c.uid == bindparam("of_uid"))
_IS_OVER = JOBS.c.end_ns.is_not(None) & ~exists().where(COMMANDS.c.uid == JOBS.c.uid)
EXPIRED = (
    select(JOBS.c.uid)
    .where(_IS_OVER, JOBS.c.end_ns < bindparam("before_ns"))
    .order_by(JOBS.c.end_ns, JOBS.c.uid)
    .limit(bindparam("most"))
)
_GONE = given("gone", uid=BigInteger)
_UIDS = select(_GONE.c.uid)
#: Locked until the commit, so that no event is added to a job that is being deleted.
OVER = select(JOBS.c.uid).where(_IS_OVER, JOBS.c.uid.in_(_UIDS)).with_for_update(of=JOBS)
_THEIR_PIPELINES = select(PIPELINES.c.uid).where(PIPELINES.c.child_uid.in_(_UIDS))
#: Rows that refer to other rows are deleted before them.
DROPS: Final = (
    KEEP,
    DROP_LABELS_OF_UNMADE,
    DROP_UNMADE,
    delete(LABELS).where(LABELS.c.uid.in_(_THEIR_PIPELINES)),
    delete(PIPELINES).where(PIPELINES.c.child_uid.in_(_UIDS)),
    delete(OUTCOMES).where(OUTCOMES.c.uid.in_(_UIDS), OUTCOMES.c.content.is_(None)),
    *(
        delete(table).where(table.c.uid.in_(_UIDS))
        for table in (
            LABELS,
            SPECS,
            ATTEMPTS,
            REPLICAS,
            EVENTS,
            RETRY_KEYS,
            REPORTS,
            TRIALS,
            STUDY_STARTS,
            JOBS,
        )
    ),
)


class Forgetting:
    """Deletes expired jobs.

    A job with an unconfirmed command is never deleted: its processes may still run.  The job of a
    trial expires by the job's own age; its study keeps the trial.
    """

    _db: Database

    def expired(self, *, ended_before: datetime, limit: int) -> Sequence[JobUid]:
        """Return the uids of at most ``limit`` jobs that ended before a time, the oldest first.

        Includes hidden jobs; leaves out jobs with an unconfirmed command.
        """
        return self._db.column(EXPIRED, before_ns=codec.to_ns(ended_before), most=limit)

    def forget(self, uids: Collection[int]) -> None:
        """Delete jobs that have ended, with all their rows and their training pipelines.

        Keeps jobs that have not ended or have an unconfirmed command.
        """
        if not uids:
            return
        parameters = {"gone": json.dumps([[uid] for uid in uids])}

        def drop(tx: Transaction) -> None:
            ended_uids = tx.connection.execute(OVER, parameters).scalars().all()
            ended = {"gone": json.dumps([[uid] for uid in ended_uids])}
            if ended_uids:
                hide_trials(tx, ended_uids)
            for statement in DROPS if ended_uids else ():
                tx.connection.execute(statement, ended)

        self._db.write(drop)
