"""Adds jobs, and recognises a client's repetition of a create.

Jobs that arrive at the same time are written by the same few statements.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row, bindparam, delete, select

from trainshed.model.job import JobSpec
from trainshed.model.resource_names import JobUid
from trainshed.model.status import Job, JobState, JobStatus
from trainshed.observability.spans import REQUEST_TRACE, TraceParent
from trainshed.store import codec
from trainshed.store.base import AlreadyThere
from trainshed.store.bulk import add_new_rows, add_rows
from trainshed.store.names import etag
from trainshed.store.records.jobs import JobRecord, NewJob
from trainshed.store.records.steps import CommittedChange, NewEvent
from trainshed.store.story import event_rows
from trainshed.store.study_rows import start_row
from trainshed.store.tables import EVENTS, JOBS, LABELS, RETRY_KEYS, SPECS, STUDY_STARTS
from trainshed.store.times import deadline_ns
from trainshed.store.upsert import insert
from trainshed.store.writer import Transaction

#: How long a retry key is valid (docs/sources/gcloud.md 8.3: for a few minutes).
RETRY_NS: Final = 600 * 1_000_000_000

_UID_TAKEN = select(JOBS.c.uid).where(JOBS.c.uid == bindparam("of_uid"))
_new_key = insert(RETRY_KEYS)
_ADD_KEY = _new_key.on_conflict_do_update(
    index_elements=["key"],
    set_={"uid": _new_key.excluded.uid, "create_ns": _new_key.excluded.create_ns},
    where=RETRY_KEYS.c.create_ns < _new_key.excluded.create_ns - RETRY_NS,
).returning(RETRY_KEYS.c.key)
_UID_OF_KEY = select(RETRY_KEYS.c.uid).where(RETRY_KEYS.c.key == bindparam("of_key"))
_DROP_KEY = delete(RETRY_KEYS).where(RETRY_KEYS.c.key == bindparam("of_key"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A new job and its rows; the writer adds the times."""

    uid: int
    new: NewJob
    key: str | None
    job: Mapping[str, Any]
    spec: Mapping[str, Any]
    trace: str = ""
    """The span of the request that adds the job, as a ``traceparent``; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A stored job: the new one, or the earlier job with the same retry key."""

    uid: int
    is_new: bool
    time_ns: int


def prepare(new: NewJob, uid: int) -> Addition:
    """Build the rows of a new job; reads no database."""
    return Addition(
        uid=uid,
        new=new,
        key=codec.plain(new.retry_key) if new.retry_key else None,
        job={"uid": uid, **_job_row(new), "job_id": codec.plain(new.job_id) or str(uid)},
        spec={
            "uid": uid,
            "spec": codec.SPEC.encode(new.spec),
            "expanded": _expanded_text(new),
            "notes": codec.TEXTS.encode(new.notes),
        },
        trace=_trace_of_request(),
    )


def _trace_of_request() -> str:
    """Return the span of the request that adds the job; empty without one, or if not sampled."""
    trace = REQUEST_TRACE.get()
    if trace is None or (trace.parent is not None and not trace.parent.is_sampled):
        return ""
    return TraceParent(trace.trace_id, trace.span_id).text


def new_record(addition: Addition, create_time: datetime) -> JobRecord:
    """Return the record of a job that was just added, without a read of the database."""
    new, row = addition.new, addition.job
    return JobRecord(
        uid=JobUid(addition.uid),
        kind=new.kind,
        job=Job(
            project=row["project"],
            location=row["location"],
            job_id=row["job_id"],
            spec=new.spec,
            status=JobStatus(
                state=JobState(row["state"]), create_time=create_time, update_time=create_time
            ),
            etag=etag(addition.uid, row["version"]),
            labels=new.spec.labels,
        ),
        version=row["version"],
        attempt=row["attempt"],
        creator=row["creator"],
        owner=None,
    )


def expanded_of(row: Row[Any], spec: JobSpec | None = None) -> JobSpec:
    """Return the spec to launch, from a row of ``specs``.

    ``spec`` is its column ``spec``, if the caller has decoded it.
    """
    if not row.expanded:
        return spec or codec.SPEC.decode(row.spec)
    expanded = codec.SPEC.decode(row.expanded)
    if expanded.request:
        return expanded
    spec = spec or codec.SPEC.decode(row.spec)
    return replace(expanded, request=spec.request, envelope=spec.envelope)


def add_all(tx: Transaction, additions: Sequence[Addition]) -> Sequence[Added | AlreadyThere]:
    """Add the jobs; return for each an Added, or AlreadyThere if its id is taken."""
    earlier_uids = _uids_of_known_keys(tx, additions)
    new_additions = [a for index, a in enumerate(additions) if index not in earlier_uids]
    added = _insert(tx, new_additions)
    _insert_rest(tx, [a for a in new_additions if a.uid in added])
    refused = {a.uid: _refuse(tx, a) for a in new_additions if a.uid not in added}
    tx.changes.extend(_change(a, tx.now_ns) for a in new_additions if a.uid in added)
    return [
        refused.get(uid) or Added(uid=uid, is_new=index not in earlier_uids, time_ns=tx.now_ns)
        for index, a in enumerate(additions)
        for uid in [earlier_uids.get(index, a.uid)]
    ]


def add_labels(tx: Transaction, labels_by_uid: Mapping[int, Mapping[str, str]]) -> None:
    """Add the rows of labels that filters compare; ``labels_by_uid`` is by uid of the job."""
    # two keys can become equal when characters that cannot be stored are replaced
    plain = {
        (uid, codec.plain(key)): codec.plain(value)
        for uid, labels in labels_by_uid.items()
        for key, value in labels.items()
    }
    rows = [{"uid": uid, "key": key, "value": value} for (uid, key), value in plain.items()]
    add_rows(tx, LABELS, rows)


def _change(addition: Addition, now_ns: int) -> CommittedChange:
    row = addition.job
    return CommittedChange(
        uid=addition.uid,
        project=row["project"],
        kind=row["kind"],
        state=JobState(row["state"]),
        attempt=0,
        at_ns=now_ns,
        create_ns=now_ns,
        is_study=bool(row["is_study"]),
        is_new=True,
    )


def _uids_of_known_keys(tx: Transaction, additions: Sequence[Addition]) -> dict[int, int]:
    """Return the uid of the earlier job with the same retry key, by index of the addition."""
    keyed = {a.key: a for a in reversed(additions) if a.key}
    if not keyed:
        return {}
    rows = [{"key": k, "uid": a.uid, "create_ns": tx.now_ns} for k, a in keyed.items()]
    added_keys = set(tx.connection.execute(_ADD_KEY, rows).scalars())
    return {
        index: tx.connection.execute(_UID_OF_KEY, {"of_key": a.key}).scalar_one()
        for index, a in enumerate(additions)
        if a.key and not (a.key in added_keys and keyed[a.key] is a)
    }


def _insert(tx: Transaction, additions: Sequence[Addition]) -> set[int]:
    """Insert the rows of jobs whose names and uids are free; return the inserted uids."""
    if not additions:
        return set()
    now_ns = tx.now_ns // codec.NS_PER_US * codec.NS_PER_US  # what a datetime can hold
    times = {"create_ns": now_ns, "update_ns": now_ns}
    rows = [
        {
            **a.job,
            **times,
            "last_stamp_ns": _last_stamp_ns(a, tx.now_ns),
            "deadline_ns": deadline_ns(now_ns, a.new.waiting_s_max),
        }
        for a in additions
    ]
    return add_new_rows(tx, JOBS, rows)


def _insert_rest(tx: Transaction, additions: Sequence[Addition]) -> None:
    """Insert the specs, first events and labels of jobs that were inserted."""
    add_rows(tx, SPECS, [a.spec for a in additions])
    add_rows(tx, EVENTS, [row for a in additions for row in _acceptance_rows(a, tx.now_ns)])
    add_labels(tx, {a.uid: a.new.spec.labels for a in additions})
    starts = [start_row(a.uid, a.new.study_start) for a in additions if a.new.study_start]
    if starts:
        add_rows(tx, STUDY_STARTS, starts)


def _acceptance_rows(addition: Addition, now_ns: int) -> Sequence[dict[str, Any]]:
    """Return the rows of a new job's first events, ACCEPTED first."""
    creator = addition.new.creator
    trace = {"trace": addition.trace} if addition.trace else {}
    accepted = NewEvent(
        kind="ACCEPTED",
        message=f"Job was accepted from {creator}.",
        data={"creator": creator, **trace},
    )
    events = [accepted, *addition.new.events]
    return event_rows(addition.uid, 0, _last_stamp_ns(addition, now_ns), events)


def _last_stamp_ns(addition: Addition, now_ns: int) -> int:
    """Return the stamp of a new job's last event, in ns; its first event has ``now_ns``."""
    return now_ns + len(addition.new.events)


def _refuse(tx: Transaction, addition: Addition) -> AlreadyThere:
    """Return the refusal of a job whose id is taken.  Raises UidTaken if only the uid is."""
    if tx.connection.execute(_UID_TAKEN, {"of_uid": addition.uid}).first() is not None:
        raise UidTaken(addition.uid)
    if addition.key:
        tx.connection.execute(_DROP_KEY, {"of_key": addition.key})
    return AlreadyThere(addition.new.job_id)


class UidTaken(Exception):
    """Another server made the same uid in the same millisecond; the caller makes a new uid."""


def _job_row(new: NewJob) -> dict[str, Any]:
    return {
        "project": codec.plain(new.project),
        "location": codec.plain(new.location),
        "kind": new.kind.value,
        "display_name": codec.plain(new.spec.display_name),
        "creator": codec.plain(new.creator),
        "rank": -(new.expanded.scheduling.priority or 0),
        "running_s_max": new.running_s_max,
        "waiting_s_max": new.waiting_s_max,
        "demand": codec.DEMAND.encode(new.demand),
        "labels": codec.LABELS.encode(new.spec.labels),
        "state": (JobState.PREPARING if new.spec.is_study else JobState.QUEUED).value,
        "version": 1,
        "attempt": 0,
        "is_study": int(new.spec.is_study),
    }


def _expanded_text(new: NewJob) -> str:
    """Return the expanded spec as JSON; empty if it equals the spec.

    If the request is the same as in the spec, its text is left out.
    """
    expanded, spec = new.expanded, new.spec
    if expanded == spec:
        return ""
    if (expanded.request, expanded.envelope) == (spec.request, spec.envelope):
        expanded = replace(expanded, request="")
    return codec.SPEC.encode(expanded)
