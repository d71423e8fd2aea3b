"""The rows of a database as the checks read them."""

from collections.abc import Iterator, Mapping

from trainshed.model.attempt import AttemptKey
from trainshed.model.resources import Demand, Seat
from trainshed.model.roles import Role
from trainshed.store.audit import Audit, rows
from trainshed.store.codec import to_ns
from trainshed.store.records import Holding, JobRecord
from trainshed.workbench.doctor.snapshot import (
    CommandSeen,
    JobSeen,
    LeaseSeen,
    NodeSeen,
    RowsSeen,
    SeatSeen,
    TrialSeen,
)


def rows_seen(url: str) -> RowsSeen:
    """Read the database of a URL.  Raises StoreFault where that cannot be done."""
    return translated(rows(url))


def translated(audit: Audit) -> RowsSeen:
    """The same as the checks name it."""
    jobs: dict[int, JobSeen] = {
        record.uid: _job(record, audit.held.get(record.uid)) for record in audit.jobs
    }
    return RowsSeen(
        jobs=jobs,
        attempts=dict(_attempts(audit)),
        replicas={AttemptKey(*key): len(found) for key, found in audit.replicas.items()},
        commands=tuple(
            CommandSeen(key=AttemptKey(each.uid, each.attempt), kind=each.kind.value)
            for each in audit.commands
        ),
        trials=tuple(
            TrialSeen(
                study_uid=each.study_uid,
                number=each.number,
                job_uid=each.job_uid,
                is_over=each.state.is_final,
            )
            for each in audit.trials
        ),
        nodes=tuple(NodeSeen(engine=each.engine, node=each.node) for each in audit.nodes),
        stamps={uid: event.stamp_ns for uid, event in audit.last_events.items()},
        leases=tuple(
            LeaseSeen(name=name, holder=holder, until_ns=until_ns)
            for name, (holder, until_ns) in audit.leases.items()
        ),
        damage=tuple(audit.damage),
    )


def _job(record: JobRecord, held: Holding | None) -> JobSeen:
    job, status = record.job, record.job.status
    create_ns = to_ns(status.create_time) if status.create_time else 0
    return JobSeen(
        uid=record.uid,
        name=record.name,
        state=status.state,
        attempt=record.attempt,
        holds=held is not None,
        create_ns=create_ns,
        update_ns=to_ns(status.update_time) if status.update_time else create_ns,
        end_ns=to_ns(status.end_time) if status.end_time else None,
        has_error=bool(status.error and status.error.message),
        is_explained=job.explanation is not None,
        owner=record.owner,
        is_study=job.spec.is_study,
    )


def _attempts(audit: Audit) -> Iterator[tuple[AttemptKey, tuple[SeatSeen, ...]]]:
    for (uid, attempt), seats in audit.attempts.items():
        held = audit.held.get(uid)
        asked = _asked(held) if held and held.attempt == attempt else {}
        yield AttemptKey(uid, attempt), tuple(_seat(seat, asked) for seat in seats)


def _asked(held: Holding) -> Mapping[Role, Demand]:
    return {group.role: group.each for group in held.demand.groups}


def _seat(seat: Seat, asked: Mapping[Role, Demand]) -> SeatSeen:
    each = asked.get(seat.role, Demand())
    return SeatSeen(node=seat.node, vcpus=each.vcpus, memory_gb=each.memory_gb, gpus=each.gpu_count)
