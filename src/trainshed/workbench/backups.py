"""Makes, checks and restores backups of a data directory, also while a server runs.

A backup is a folder like a data directory, with two files that describe its content.  The database
is copied first, so that files are at least as new as its rows.  Of an attempt the records are
copied before the log, which is then at least as complete as the records.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from trainshed import __version__
from trainshed.files.beneath import NOT_A_FILE, Beneath, FileKind
from trainshed.files.copies import Copied, Remarks, copy_file, copy_tree, measure_file
from trainshed.files.server_files import BACKUP_FILE, DATABASE_FILE, write_first
from trainshed.files.server_files import FILE as RUNNING_FILE
from trainshed.model.faults import UsageFault
from trainshed.model.log_line import LOG_FOLDER
from trainshed.service.ports.holder_client import NOTE, SOCKET
from trainshed.store import audit, backup
from trainshed.store.base import StoreFault
from trainshed.wire.native_v1 import json_name

DATABASE: Final = "trainshed.db"
_FILES: Final = "backup-files.jsonl"
#: Files of a running server or of its machine, and files that a server makes again.
_OF_A_SERVER: Final = frozenset(
    {RUNNING_FILE, DATABASE_FILE, SOCKET, NOTE, "gpus.json", "node_gpus.json", "uploads"}
)
_RECORDS: Final = "records.jsonl"
#: Files of an attempt: reserved space for its end, and the socket of its supervisor.
_OF_A_SUPERVISOR: Final = frozenset({"spare", "control"})
#: ``jobs/UID/ATTEMPT/NAME``.
_DEPTH: Final = 4
#: How many faulty files a message names; the others are counted.
_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """The description of a backup."""

    release: str
    time: str
    """The time at which the backup began (RFC 3339)."""
    data_dir: str
    jobs: int
    files: int
    bytes: int
    buckets: bool
    """Whether the backup has the objects of buckets."""
    remarks: list[str] = field(default_factory=list)
    """Sentences on files that were left out or changed."""


class Restored(NamedTuple):
    """The result of a restore."""

    backup: Backup
    before: Path | None
    """The new path of the earlier database; None if there was none."""
    remarks: list[str]
    """Sentences on files that were not restored."""


def make(data_dir: Path, url: str, target: Path, *, buckets: bool) -> Backup:
    """Back up into a new folder, or an empty one.

    Raises UsageFault for an unusable folder, StoreFault for a damaged database.
    """
    began = datetime.now(UTC).isoformat(timespec="seconds")
    backup.database_path(url)  # refuses before a folder is made
    _make_empty(target, data_dir)
    backup.copy_database(url, target / DATABASE)
    rows = _read_rows(target / DATABASE)
    size, digest = _measure(target, DATABASE)
    uids = {str(job.uid) for job in rows.jobs}
    is_left_out = _exclusion(data_dir, url, buckets=buckets)
    remarks = Remarks()
    files = [
        Copied(DATABASE, size, digest),
        *_copy_data(data_dir, target, uids, is_left_out, remarks),
    ]
    write_first(target / _FILES, "".join(f"{json.dumps(file)}\n" for file in files).encode())
    manifest = Backup(
        release=__version__,
        time=began,
        data_dir=str(data_dir),
        jobs=len(rows.jobs),
        files=len(files),
        bytes=sum(file.size for file in files),
        buckets=buckets,
        remarks=remarks.sentences(),
    )
    write_first(target / BACKUP_FILE, f"{json.dumps(asdict(manifest), indent=2)}\n".encode())
    return manifest


def is_backup(folder: Path) -> bool:
    """Return whether a folder is a backup and not a data directory of a server."""
    return (folder / BACKUP_FILE).is_file() or (folder / _FILES).is_file()


def wrong(folder: Path) -> Iterator[str]:
    """Read every file of a backup and yield its faults, a sentence each."""
    try:
        read(folder)
        bad = [
            f"{file.name} {why}"
            for file in _list_files(folder)
            if (why := _find_fault(folder, file))
        ]
    except (OSError, ValueError, TypeError) as error:
        yield f"a file is missing, or the description cannot be read ({error})"
        return
    yield from bad[:_NAMED_MAX]
    if len(bad) > _NAMED_MAX:
        yield f"and {len(bad) - _NAMED_MAX} more faults"


def read(folder: Path) -> Backup:
    """Read the description of a backup.  Raises OSError, ValueError or TypeError."""
    return Backup(**json.loads((folder / BACKUP_FILE).read_text("utf-8")))


def restore(folder: Path, data_dir: Path, url: str) -> Restored:
    """Restore the database of a backup, and the files that are missing.

    Moves the earlier database aside and removes nothing.  Raises UsageFault for an incomplete
    backup, StoreFault while a server uses the directory.
    """
    if not is_backup(folder):
        raise UsageFault(f"{folder} is not a backup: it has no {BACKUP_FILE}")
    if faults := "; ".join(wrong(folder)):
        raise UsageFault(f"the backup {folder} is incomplete: {faults}; use another backup")
    _read_rows(folder / DATABASE)
    path = backup.database_path(url)
    data_dir.mkdir(0o700, parents=True, exist_ok=True)
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    remarks = Remarks()
    with backup.database_away(path) as before:
        _put_back(folder, data_dir, remarks)
        _put_database_back(folder / DATABASE, path, data_dir.stat())
    return Restored(read(folder), before, remarks.sentences())


def _put_database_back(copy: Path, path: Path, owner: os.stat_result) -> None:
    draft = path.with_name(f".{path.name}.restored")
    draft.unlink(missing_ok=True)
    with copy.open("rb") as source, draft.open("xb") as target:
        os.fchmod(target.fileno(), 0o600)
        if os.geteuid() == 0:  # the server must own the file, also if root restores it
            os.fchown(target.fileno(), owner.st_uid, owner.st_gid)
        copy_file(source, target)
        target.flush()
        os.fsync(target.fileno())
    draft.rename(path)


def _put_back(folder: Path, data_dir: Path, remarks: Remarks) -> None:
    backup_names = {DATABASE, BACKUP_FILE, _FILES}
    existing_jobs = _job_folders(data_dir)

    def is_wanted(name: str, _kind: FileKind) -> bool:
        parts = name.split("/")
        is_existing_job = len(parts) == 2 and parts[0] == "jobs" and parts[1] in existing_jobs  # noqa: PLR2004
        return name not in backup_names and not is_existing_job

    for _ in copy_tree(folder, data_dir, is_wanted, remarks):
        pass


def _job_folders(data_dir: Path) -> set[str]:
    with Beneath(data_dir) as data:
        try:
            return {name for name, _ in data.entries("jobs")}
        except FileNotFoundError:
            return set()


def _make_empty(target: Path, data_dir: Path) -> None:
    if target.resolve().is_relative_to(data_dir.resolve()):
        raise UsageFault(
            f"{target} is in the data directory {data_dir}; name a folder outside of it"
        )
    try:
        target.mkdir(0o700, parents=True, exist_ok=True)
        target.chmod(0o700)
        is_empty = not any(target.iterdir())
    except OSError as error:
        raise UsageFault(f"{target} cannot be used: {error.strerror}") from error
    if not is_empty:
        raise UsageFault(f"{target} is not empty; name a new folder for each backup")


def _exclusion(data_dir: Path, url: str, *, buckets: bool) -> Callable[[str], bool]:
    """Return a function that says whether backups leave out a name of the data directory."""
    left_out = _OF_A_SERVER if buckets else _OF_A_SERVER | {"buckets"}
    path = backup.database_path(url)
    is_inside = path.parent.resolve() == data_dir.resolve()
    databases = (DATABASE, path.name) if is_inside else (DATABASE,)
    return lambda name: name in left_out or name.startswith(databases) or name.endswith(".lock")


def _copy_data(
    data_dir: Path,
    target: Path,
    uids: Collection[str],
    is_left_out: Callable[[str], bool],
    remarks: Remarks,
) -> Iterator[Copied]:
    def is_wanted(name: str, _kind: FileKind) -> bool:
        parts = name.split("/")
        if len(parts) == 1:
            return not is_left_out(name)
        if parts[0] == "jobs" and len(parts) == 2:  # noqa: PLR2004 - jobs/UID
            return parts[1] in uids
        is_of_attempt = parts[0] == "jobs" and len(parts) == _DEPTH
        return not (is_of_attempt and parts[-1] in _OF_A_SUPERVISOR)

    def is_record(name: str, kind: FileKind) -> bool:
        parts = name.split("/")
        if parts[0] != "jobs" or not is_wanted(name, kind):
            return False
        return parts[-1] == _RECORDS if len(parts) == _DEPTH else kind is FileKind.FOLDER

    yield from copy_tree(data_dir, target, is_record, remarks)
    yield from copy_tree(data_dir, target, is_wanted, remarks, _is_of_jobs)


def _is_of_jobs(name: str) -> bool:
    """Return whether programs of jobs may set the mode of a file: they run as the server's user."""
    top, *parts = name.split("/")
    if top == "jobs":
        return len(parts) >= _DEPTH - 1 and parts[_DEPTH - 2] not in {_RECORDS, LOG_FOLDER}
    return top == "buckets" and len(parts) > 1


def _read_rows(path: Path) -> audit.Audit:
    """Read the rows of a copy.  Raises StoreFault for a damaged one."""
    rows = audit.rows(f"sqlite:///{path}")
    if rows.damage:
        raise StoreFault(f"the copy of the database is damaged: {rows.damage[0]}")
    return rows


def _list_files(folder: Path) -> Iterator[Copied]:
    with (folder / _FILES).open(encoding="utf-8") as lines:
        yield from (Copied(*json.loads(line)) for line in lines)


def _find_fault(folder: Path, file: Copied) -> str:
    try:
        measured = _measure(folder, file.name, file.digest)
    except OSError as error:
        return "is missing" if error.errno in NOT_A_FILE else f"cannot be read ({error.strerror})"
    return "" if measured == (file.size, file.digest) else "has changed since the backup"


def _measure(folder: Path, name: str, digest: str = "") -> tuple[int, str]:
    with Beneath(folder) as backup_folder, backup_folder.read(name) as file:
        return measure_file(file, digest)


def as_json(manifest: Backup) -> Mapping[str, object]:
    """Return a backup as JSON fields, for scripts."""
    return {json_name(name): value for name, value in asdict(manifest).items()}
