"""Invariants of the files of the data directory, and of its machine."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from trainshed.store.clock_jumps import ClockJump
from trainshed.workbench.doctor.snapshot import (
    Check,
    CheckPart,
    DoctorFinding,
    FolderFacts,
    LogFacts,
    Snapshot,
    check,
)

_NS: Final = 1_000_000_000
_DAY_NS: Final = 86_400 * _NS
#: The greatest age of a clock jump that is reported.
_JUMPS_NS: Final = 7 * _DAY_NS
#: Values below MIN are failures: the server soon stops working.  Values below LOW are noted.
FREE_BYTES_MIN, FREE_BYTES_LOW = 64 << 20, 1 << 30
FREE_FILES_MIN, FREE_FILES_LOW = 1_000, 20_000
FILES_MIN, FILES_LOW = 256, 1_024
#: The most seconds by which two clocks may differ.
SKEW_S_MAX: Final = 5.0


@check(
    "logs-are-whole",
    "Every line that a replica wrote can be read: segments are whole, stamps ascend in the job.",
    CheckPart.DISK,
)
def logs_are_whole(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find damaged logs.  The last line may be torn during a write or by a kill.

    A fenced attempt whose processes still run may write while the next attempt runs.
    """
    last: dict[int, int] = {}
    for key, folder in sorted(snapshot.folders.items()):
        for wrong in _wrong_log(folder, folder.log, last.get(key.uid)):
            yield DoctorFinding(
                subject=f"{key}: {wrong}",
                text=f"the log of attempt {key}: {wrong}",
                advice=f"look at the files in {folder.path / 'log'}; the other lines can be read",
            )
        if folder.log.last_ns is not None and key not in snapshot.rows.fenced:
            last[key.uid] = max(folder.log.last_ns, last.get(key.uid, 0))


def _wrong_log(folder: FolderFacts, log: LogFacts, before_ns: int | None) -> Iterator[str]:
    yield from log.wrong
    if log.is_torn and folder.has("Ended"):
        yield "its last line is incomplete though the end of the attempt is recorded"
    if before_ns is not None and log.first_ns is not None and log.first_ns <= before_ns:
        yield "it begins before the end of the log of an earlier attempt"


@check("records-are-whole", "The records of supervisors can be read.", CheckPart.DISK)
def records_are_whole(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find damaged records.  A record torn by a full disk is written again."""
    for key, folder in sorted(snapshot.folders.items()):
        for wrong in folder.wrong_records:
            yield DoctorFinding(
                subject=f"{key}: {wrong}",
                text=f"the records of attempt {key}: {wrong}",
                advice=f"look at {folder.path / 'records.jsonl'}; if the end of the attempt was in "
                "it, the server treats the attempt as lost and restarts the job",
            )


@check(
    "secrets-are-private",
    "Only the owner can use secrets, jobs' folders, uploads, caches and sockets; only the group "
    "can use buckets.",
    CheckPart.DISK,
)
def secrets_are_private(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find files that give other users an administrator's rights."""
    modes = snapshot.disk.open_modes if snapshot.disk else {}
    for name, mode in sorted(modes.items()):
        yield DoctorFinding(
            subject=name,
            text=f"other users can use {name} (mode {mode:o})",
            advice=f"chmod {'o' if '/buckets/' in name else 'go'}= {name}; or start the server, "
            "which removes other users' access",
        )
    for key, folder in sorted(snapshot.folders.items()):
        if not folder.is_private:
            yield DoctorFinding(
                subject=str(key),
                text=f"other users can use the folder of attempt {key}",
                advice=f"chmod go= {folder.path}",
            )


@check("folders-have-jobs", "Every job's folder belongs to a job.", CheckPart.ROWS, CheckPart.DISK)
def folders_have_jobs(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find folders of deleted jobs, which only use space."""
    jobs = snapshot.rows.jobs
    for uid in sorted({key.uid for key in snapshot.folders} - jobs.keys()):
        folder = next(f.path.parent for key, f in snapshot.folders.items() if key.uid == uid)
        yield DoctorFinding(
            subject=str(uid),
            text=f"{folder} belongs to no job of the database",
            advice="if the database is the right one, the folder may be removed",
            is_failure=False,
        )


@check(
    "buckets-have-projects", "Every bucket belongs to a project.", CheckPart.ROWS, CheckPart.DISK
)
def buckets_have_projects(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find buckets that no job may name: made by hand or by a local run."""
    for name in snapshot.disk.buckets if snapshot.disk else ():
        if name not in snapshot.rows.buckets:
            yield DoctorFinding(
                subject=name,
                text=f"the bucket {name} belongs to no project, and no job may name it",
                advice=f"trainshed buckets adopt {name} --project PROJECT",
                is_failure=False,
            )


@check("uploads-are-finished", "No old unfinished upload is left.", CheckPart.DISK)
def uploads_are_finished(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find unfinished uploads, which the next upload removes."""
    old = snapshot.disk.old_uploads if snapshot.disk else ()
    if old:
        yield DoctorFinding(
            subject="uploads",
            text=f"{len(old)} uploads were never finished, such as {old[0]}",
            advice="the next upload removes them",
            is_failure=False,
        )


@check("notes-are-readable", "The metadata of objects can be read.", CheckPart.DISK)
def notes_are_readable(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Find unreadable metadata; such objects are listed without it."""
    for path in snapshot.disk.unreadable_notes if snapshot.disk else ():
        yield DoctorFinding(
            subject=path,
            text=f"{path} cannot be read: the object has no metadata",
            advice="remove the file; then set the metadata again, or store the object again",
        )


@check("backups-are-whole", "A backup has every file that it lists, unchanged.", CheckPart.DISK)
def backups_are_whole(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Compare the files of a backup with its list; a data directory has none."""
    for wrong in snapshot.disk.wrong_backup if snapshot.disk else ():
        yield DoctorFinding(
            subject=wrong,
            text=f"the backup: {wrong}",
            advice="do not rely on this backup: make another one, and check the disk",
        )


@check("disk-has-room", "There is disk space for logs, records and the database.", CheckPart.DISK)
def disk_has_room(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Compare free bytes and free inodes with limits."""
    if snapshot.disk is None:
        return
    if (room := snapshot.disk.free_bytes) < FREE_BYTES_LOW:
        yield DoctorFinding(
            subject="bytes",
            text=f"{room >> 20} MiB are free in the data directory",
            advice="free disk space: nothing new can be recorded on a full disk",
            is_failure=room < FREE_BYTES_MIN,
        )
    if (left := snapshot.disk.free_files) is not None and left < FREE_FILES_LOW:
        yield DoctorFinding(
            subject="files",
            text=f"{left} more files fit on the file system of the data directory",
            advice="remove files: each attempt creates some",
            is_failure=left < FREE_FILES_MIN,
        )


@check("files-can-be-opened", "The server may open the files that it needs.")
def files_can_be_opened(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Compare the limit of open files, of which every client and job uses some."""
    if snapshot.files_max < FILES_LOW:
        subject = "the server" if snapshot.server_pid else "a server started in this shell"
        yield DoctorFinding(
            subject="files",
            text=f"{subject} may have {snapshot.files_max} files open at once",
            advice="raise the limit where the server starts: ulimit -n 65536, or LimitNOFILE=",
            is_failure=snapshot.files_max < FILES_MIN,
        )


@check("clocks-agree", "The clocks of machine, files and database agree.")
def clocks_agree(snapshot: Snapshot) -> Iterator[DoctorFinding]:
    """Compare clocks.  A clock that was set back does not harm jobs, but shows wrong times."""
    ahead = {
        "the newest file": snapshot.disk.future_s if snapshot.disk else 0.0,
        "the newest event": _ahead_s(snapshot),
    }
    for source, skew_s in ahead.items():
        if skew_s > SKEW_S_MAX:
            yield DoctorFinding(
                subject=source,
                text=f"{source} is {skew_s:.0f} s ahead of the machine's clock",
                advice="synchronise the clock by NTP, and restart the server once it is right",
                is_failure=False,
            )
    for jump in snapshot.rows.jumps:
        if 0 <= snapshot.now_ns - jump.at_ns < _JUMPS_NS:
            yield _jump_finding(jump)


def _jump_finding(jump: ClockJump) -> DoctorFinding:
    time = datetime.fromtimestamp(jump.at_ns / _NS, UTC)
    return DoctorFinding(
        subject="the clock",
        text=f"when a server started on {time:%Y-%m-%d at %H:%M} UTC, the clock had moved by "
        f"{jump.by_ns / _DAY_NS:+.1f} days since the last one; limits of jobs do not count that",
        advice="synchronise the clock by NTP; ignore this if no server ran for so long",
        is_failure=False,
    )


def _ahead_s(snapshot: Snapshot) -> float:
    stamps = snapshot.rows.stamps.values()
    return (max(stamps, default=0) - snapshot.now_ns) / _NS


CHECKS: Final[tuple[Check, ...]] = (
    logs_are_whole,
    records_are_whole,
    folders_have_jobs,
    buckets_have_projects,
    secrets_are_private,
    uploads_are_finished,
    notes_are_readable,
    backups_are_whole,
    disk_has_room,
    files_can_be_opened,
    clocks_agree,
)
