"""Invariants of the rows of jobs, studies and trials.

An ended trial may have no job any more: jobs are deleted by their own age.
"""

from collections.abc import Iterator
from typing import Final

from trainshed.model.attempt import AttemptKey
from trainshed.model.status import JobState
from trainshed.store.audit import AuditedTrial
from trainshed.workbench.doctor.snapshot import (
    Check,
    CheckPart,
    DoctorFinding,
    JobFacts,
    RowsFacts,
    Snapshot,
    check,
)

_NS: Final = 1_000_000_000
#: The most seconds of an immediate action of a server on a very busy machine.
LATE_S: Final = 60.0

_REPORT: Final = "this should not happen: please report it with the output of trainshed jobs events"
_RESTART: Final = "restart the server; if this stays, report it with the server's log"


def _job_finding(job: JobFacts, text: str, advice: str = _REPORT) -> DoctorFinding:
    return DoctorFinding(subject=str(job.uid), text=text, advice=advice)


@check("over-holds-nothing", "A job that is over holds no place.", CheckPart.ROWS)
def over_holds_nothing(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find ended jobs with places, which no other job could use."""
    for job in snapshot.rows.jobs.values():
        if job.is_over and job.holds:
            yield _job_finding(job, f"{job.label} is over and still holds its places")


@check(
    "over-has-an-end",
    "An ended job has its end time and, unless it succeeded, the reason.",
    CheckPart.ROWS,
)
def over_has_an_end(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find ended jobs without end time or reason."""
    for job in snapshot.rows.jobs.values():
        for wrong in _wrong_end(job):
            yield _job_finding(job, f"{job.label} {wrong}")


def _wrong_end(job: JobFacts) -> Iterator[str]:
    if job.is_over and job.end_ns is None:
        yield "is over and has no end time"
    if not job.is_over and job.end_ns is not None:
        yield "is not over and has an end time"
    if job.state in (JobState.FAILED, JobState.CANCELLED) and not job.has_error:
        yield "has no reason for its end"


@check("active-holds-places", "A job with an attempt under way holds its places.", CheckPart.ROWS)
def active_holds_places(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find active jobs without places, which other jobs would get."""
    for job in snapshot.rows.jobs.values():
        if not job.is_over and (wrong := _wrong_places(job)):
            yield _job_finding(job, f"{job.label} {wrong}")


def _wrong_places(job: JobFacts) -> str:
    waits = job.state is JobState.QUEUED
    if job.is_study:
        if waits:
            return "is a tuning job and is in the queue"
        return "is a tuning job and holds places" if job.holds else ""
    if waits is not job.holds:
        return ""
    return "waits and holds places" if waits else "holds no places"


@check(
    "attempts-have-seats",
    "Every attempt up to the newest has a seat for each replica.",
    CheckPart.ROWS,
)
def attempts_have_seats(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find attempts without a seat for each replica."""
    rows = snapshot.rows
    for job in rows.jobs.values():
        for number in range(1, job.attempt + 1):
            key = AttemptKey(job.uid, number)
            if wrong := _wrong_seats(rows, key):
                yield DoctorFinding(subject=str(key), text=f"{job.label}: {wrong}", advice=_REPORT)


def _wrong_seats(rows: RowsFacts, key: AttemptKey) -> str:
    if key not in rows.attempts:
        return f"attempt {key.attempt} has no row in the database"
    seats, replicas = len(rows.attempts[key]), rows.replicas.get(key, 0)
    if key in rows.claims:
        return ""
    if not seats:
        return f"attempt {key.attempt} has no seats"
    return "" if seats == replicas else f"{key} has {seats} seats and {replicas} replicas"


@check("database-is-sound", "The database reports no damage.", CheckPart.ROWS)
def database_is_sound(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Check the pages of the database, and the references between its rows."""
    for text in snapshot.rows.damage:
        yield DoctorFinding(
            subject=text,
            text=f"the database: {text}",
            advice="stop the server, copy the file, and restore a backup",
        )


@check("every-job-has-its-story", "No accepted job is lost: each has its events.", CheckPart.ROWS)
def every_job_has_its_story(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find jobs without events: a job and its first event are one write."""
    rows = snapshot.rows
    for job in rows.jobs.values():
        if job.uid not in rows.stamps:
            yield _job_finding(job, f"{job.label} has no event")


@check("waiting-says-why", "A waiting job has an explanation.", CheckPart.ROWS)
def waiting_says_why(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find jobs that wait for a minute without an explanation; the promise is two seconds."""
    for job in snapshot.rows.jobs.values():
        if job.state is not JobState.QUEUED or job.is_explained or not snapshot.server_pid:
            continue
        if snapshot.now_ns - job.update_ns > LATE_S * _NS:
            yield _job_finding(job, f"{job.label} waits without an explanation", _RESTART)


@check(
    "commands-are-performed",
    "Commands are performed within a minute.",
    CheckPart.ROWS,
    CheckPart.WORK,
)
def commands_are_performed(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find old commands; a command is at most as old as its job's last change."""
    rows = snapshot.rows
    for command in rows.commands:
        job, key = rows.jobs.get(command.uid), AttemptKey(command.uid, command.attempt)
        kind = command.kind.value
        if job is None:
            text = f"the command {kind} of attempt {key} belongs to a deleted job"
            yield DoctorFinding(subject=str(key), text=text, advice=_REPORT)
        elif snapshot.now_ns - job.update_ns > LATE_S * _NS:
            yield DoctorFinding(
                subject=str(key),
                text=f"{job.label}: {kind} was not performed for more than a minute",
                advice=_RESTART if snapshot.server_pid else "start the server, which performs it",
                is_failure=snapshot.server_pid is not None,
            )


@check(
    "leases-are-valid",
    "Every active job has a running server.",
    CheckPart.ROWS,
    CheckPart.WORK,
)
def leases_are_valid(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find jobs without a running server; a running server takes over the jobs of a dead one.

    Leases are compared with each other, because they use the store's clock, not the machine's.
    """
    if not snapshot.server_pid:
        return
    rows = snapshot.rows
    servers = {name: ns for name, (_, ns) in rows.leases.items() if name.startswith("server:")}
    if not servers:
        text = f"the server (process {snapshot.server_pid}) runs and has no lease"
        yield DoctorFinding(subject="server", text=text, advice="read the server's log")
        return
    newest_ns = max(servers.values())
    live = {name for name, ns in servers.items() if ns > newest_ns - LATE_S * _NS}
    for job in rows.jobs.values():
        if job.holds and not job.is_over and f"server:{job.owner}" not in live:
            text = f"{job.label} belongs to {job.owner or 'no server'}, which holds no lease"
            yield _job_finding(job, text, _RESTART)


_CANCEL: Final = "cancel the trial's job, and report it"


@check("trials-have-jobs", "Every trial under way has its study and its job.", CheckPart.ROWS)
def trials_have_jobs(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find active trials without a study or a job; they are written and deleted together."""
    rows = snapshot.rows
    for trial in rows.trials:
        if trial.study_uid not in rows.jobs:
            yield _trial_finding(trial, f"trial {trial.number} belongs to no study", _REPORT)
        elif not trial.state.is_final and trial.job_uid not in rows.jobs:
            study = rows.jobs[trial.study_uid]
            yield _trial_finding(trial, f"{study.label}: trial {trial.number} has no job", _REPORT)


@check("over-ends-its-trials", "A study that is over has no trial under way.", CheckPart.ROWS)
def over_ends_its_trials(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find active trials of ended studies, which the server would not stop."""
    rows = snapshot.rows
    for trial in rows.trials:
        study = rows.jobs.get(trial.study_uid)
        if study is None or not study.is_over:
            continue
        if not trial.state.is_final:
            text = f"{study.label} is over, and its trial {trial.number} is not"
            yield _trial_finding(trial, text, _REPORT)
        elif (job := rows.jobs.get(trial.job_uid)) and not job.is_over:
            text = f"{study.label} is over, and {job.label}, the job of its trial, is not"
            yield _trial_finding(trial, text, _CANCEL)


def _trial_finding(trial: AuditedTrial, text: str, advice: str) -> DoctorFinding:
    return DoctorFinding(subject=f"{trial.study_uid}/{trial.number}", text=text, advice=advice)


CHECKS: Final[tuple[Check, ...]] = (
    database_is_sound,
    every_job_has_its_story,
    waiting_says_why,
    over_has_an_end,
    over_holds_nothing,
    active_holds_places,
    attempts_have_seats,
    commands_are_performed,
    leases_are_valid,
    trials_have_jobs,
    over_ends_its_trials,
)
