"""Loads a snapshot of the database, the folders and the engines.  Writes nothing."""

import json
import os
import resource
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from trainshed.engines.base import ListedAttempt
from trainshed.engines.network.leftovers import JobNetworkCounts, count_job_networks
from trainshed.engines.processes.identity import is_alive
from trainshed.files.beneath import Beneath
from trainshed.files.caches import default_cache_dir
from trainshed.files.server_files import read_running
from trainshed.model.attempt import ALIVE, AttemptKey
from trainshed.model.log_line import LOG_FOLDER, SEGMENT_PATTERN, decode
from trainshed.model.resources import Demand, Seat
from trainshed.model.roles import Role
from trainshed.service.ports.holder_client import noted_holder
from trainshed.service.upkeep.file_modes import open_to_others
from trainshed.storage.bucket_folders import unreadable_notes
from trainshed.storage.buckets import buckets_of, cache_dir
from trainshed.storage.uploads import SESSION_AGE_S_MAX
from trainshed.store import audit
from trainshed.store.audit import Audit
from trainshed.store.base import StoreFault
from trainshed.store.codec import to_ns
from trainshed.store.records.jobs import Holding, JobRecord
from trainshed.workbench import backups
from trainshed.workbench.doctor.snapshot import (
    CheckPart,
    DiskFacts,
    FolderFacts,
    JobFacts,
    LogFacts,
    RowsFacts,
    SeatFacts,
    Snapshot,
)

_T = TypeVar("_T")

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def look(  # noqa: PLR0913 - the sources of a snapshot
    data_dir: Path,
    url: str,
    local_attempts: Callable[[], Sequence[ListedAttempt]],
    clock: Callable[[], int] = time.time_ns,
    *,
    elsewhere: Callable[[], Sequence[ListedAttempt]] = tuple,
    roots: Iterable[Path] = (),
) -> Snapshot:
    """Load a snapshot.  Rows are read first, so that files are at least as new.

    ``local_attempts`` asks the engine of this machine (``engines.base.Engine``), ``elsewhere`` all
    others; ``roots`` are their folders of jobs.
    """
    unseen: dict[str, str] = {}

    def read_part(part: CheckPart, read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except (StoreFault, OSError) as error:
            unseen[part.name] = str(error)
        except Exception as error:  # noqa: BLE001  # damaged data raises any exception
            unseen[part.name] = f"{type(error).__name__}: {error}"
        return None

    is_backup = backups.is_backup(data_dir)
    running = None if is_backup else read_running(data_dir)
    server = running.pid if running and running.is_alive else None
    rows = read_part(CheckPart.ROWS, lambda: _rows(audit.rows(url)))
    attempts = () if is_backup else read_part(CheckPart.PROCESSES, local_attempts)
    attended = {attempt.key: attempt for attempt in attempts or () if attempt.phase in ALIVE}
    remote_attempts = () if is_backup else read_part(CheckPart.ENGINES, elsewhere)
    attended |= {
        attempt.key: attempt for attempt in remote_attempts or () if attempt.phase in ALIVE
    }
    jobs = [data_dir / "jobs", *([] if is_backup else roots)]
    folders = read_part(
        CheckPart.DISK, lambda: {k: f for at in jobs for k, f in _folders(at, attended)}
    )
    now_ns = clock()
    return Snapshot(
        now_ns=now_ns,
        machine=os.uname().nodename,
        server_pid=server,
        files_max=_files_max(server),
        rows=rows or RowsFacts(),
        folders=folders or {},
        processes=tuple(
            process
            for attempt in (*(attempts or ()), *(remote_attempts or ()))
            for process in attempt.living
        ),
        networks=JobNetworkCounts() if is_backup else count_job_networks(),
        lost_holder=None if is_backup else _lost_holder(data_dir),
        elsewhere={attempt.key: attempt.phase for attempt in remote_attempts or ()},
        disk=read_part(CheckPart.DISK, lambda: _disk(data_dir, now_ns / 1e9)),
        is_backup=is_backup,
        unseen=unseen,
    )


def _lost_holder(data_dir: Path) -> int | None:
    holder = noted_holder(data_dir)
    return holder.pid if holder and not is_alive(holder) else None


def _rows(database: Audit) -> RowsFacts:
    return RowsFacts(
        jobs={record.uid: _job(record, database.held.get(record.uid)) for record in database.jobs},
        attempts=dict(_attempts(database)),
        claims=frozenset(AttemptKey(*key) for key in database.claims),
        fenced=frozenset(AttemptKey(*key) for key in database.fenced),
        replicas={AttemptKey(*key): len(rows) for key, rows in database.replicas.items()},
        commands=database.commands,
        trials=database.trials,
        nodes=database.nodes,
        stamps={uid: event.stamp_ns for uid, event in database.last_events.items()},
        leases=database.leases,
        buckets=frozenset(database.buckets),
        jumps=database.jumps,
        damage=database.damage,
    )


def _job(record: JobRecord, holding: Holding | None) -> JobFacts:
    job, status = record.job, record.job.status
    create_ns = to_ns(status.create_time) if status.create_time else 0
    return JobFacts(
        uid=record.uid,
        name=record.name,
        state=status.state,
        attempt=record.attempt,
        holds=holding is not None,
        create_ns=create_ns,
        update_ns=to_ns(status.update_time) if status.update_time else create_ns,
        end_ns=to_ns(status.end_time) if status.end_time else None,
        has_error=bool(status.error and status.error.message),
        is_explained=job.explanation is not None,
        owner=record.owner,
        is_study=job.spec.is_study,
    )


def _attempts(database: Audit) -> Iterator[tuple[AttemptKey, tuple[SeatFacts, ...]]]:
    for (uid, attempt), seats in database.attempts.items():
        holding = database.held.get(uid)
        groups = holding.demand.groups if holding and holding.attempt == attempt else ()
        demands = {group.role: group.each for group in groups}
        yield AttemptKey(uid, attempt), tuple(_seat(seat, demands) for seat in seats)


def _seat(seat: Seat, demands: Mapping[Role, Demand]) -> SeatFacts:
    demand = demands.get(seat.role, Demand())
    return SeatFacts(
        node=seat.node,
        engine=seat.engine,
        vcpus=demand.vcpus,
        memory_gb=demand.memory_gb,
        gpus=demand.gpu_count,
    )


def _folders(
    root: Path, attended: Mapping[AttemptKey, ListedAttempt]
) -> Iterator[tuple[AttemptKey, FolderFacts]]:
    for uid in _numbers(root):
        for attempt in _numbers(root / str(uid)):
            path = root / str(uid) / str(attempt)
            with suppress(FileNotFoundError):  # a server deleted the folder
                key = AttemptKey(uid, attempt)
                yield key, _folder(path, root, attended.get(key))


def _folder(path: Path, root: Path, attended: ListedAttempt | None) -> FolderFacts:
    records, wrong = read_records(_content(path / "records.jsonl"))
    return FolderFacts(
        path=path,
        is_private=any(not _mode(folder) & _OTHERS for folder in (path, path.parent, root)),
        is_held=attended is not None,
        suspended=attended and attended.suspended,
        records=records,
        wrong_records=wrong,
        log=read_log(sorted((path / LOG_FOLDER).glob(SEGMENT_PATTERN))),
    )


def _disk(data_dir: Path, now_s: float) -> DiskFacts:
    room = os.statvfs(data_dir)
    return DiskFacts(
        free_bytes=room.f_bavail * room.f_frsize,
        free_files=room.f_favail if room.f_files else None,
        open_modes=dict(_open_modes(data_dir)),
        future_s=_newest_s(data_dir, now_s) - now_s,
        buckets=tuple(_names(buckets_of(data_dir).root)),
        old_uploads=tuple(_old_uploads(data_dir / "uploads", now_s)),
        unreadable_notes=tuple(map(str, unreadable_notes(data_dir))),
        wrong_backup=tuple(backups.wrong(data_dir)) if backups.is_backup(data_dir) else (),
    )


def _open_modes(data_dir: Path) -> Iterator[tuple[str, int]]:
    """Yield the paths that other users can use, with their modes.

    These are paths in the data directory, supervisors' sockets and caches of environments.
    """
    private_paths = [*data_dir.glob("jobs/*/*/control"), default_cache_dir()]
    if (user_cache_dir := cache_dir(os.environ)) is not None:
        private_paths.append(user_cache_dir)
    open_paths = [path for path in private_paths if path.exists() and _mode(path) & _OTHERS]
    for path in dict.fromkeys([*open_to_others(data_dir), *open_paths]):
        with suppress(FileNotFoundError):
            yield str(path), _mode(path)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _newest_s(data_dir: Path, default: float) -> float:
    """Return the newest write time of the files that a server or a supervisor writes."""
    paths = [*data_dir.glob("*"), *(data_dir / "jobs").glob("*/*/records.jsonl")]
    return max((_changed_s(path) for path in paths), default=default)


def _old_uploads(root: Path, now_s: float) -> Iterator[str]:
    for path in sorted(root.glob("sessions/*/data")):
        if _changed_s(path) < now_s - SESSION_AGE_S_MAX:
            yield str(path.parent)


def _files_max(server: int | None) -> int:
    """Return the open-file limit of the server, or the limit to which a new server raises it."""
    with suppress(OSError, ValueError, IndexError):
        lines = Path(f"/proc/{server}/limits").read_text(encoding="ascii").splitlines()
        limit = next(line for line in lines if line.startswith("Max open files")).split()[3]
        return int(limit)
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def _numbers(folder: Path) -> list[int]:
    with suppress(FileNotFoundError, NotADirectoryError):
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())
    return []


def _content(path: Path) -> bytes:
    with suppress(FileNotFoundError), _open_file(path) as file:
        return file.read(_RECORDS_BYTES_MAX)
    return b""


def _open_file(path: Path) -> BinaryIO:
    """Open a file that a program may have replaced: follows no link, waits for no pipe."""
    with Beneath(path.parent) as folder:
        return folder.read(path.name)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _changed_s(path: Path) -> float:
    with suppress(FileNotFoundError):
        return path.lstat().st_mtime
    return 0.0


_RECORDS_BYTES_MAX: Final = 1 << 26
_LINE_BYTES_MAX: Final = 1 << 24
#: The number of faults of a file that are listed; the others are counted.
_NAMED_MAX: Final = 3
#: The beginning of every record: an incomplete line that begins so was torn, and is ignored.
_RECORD_HEAD: Final = b'{"is": "'


class LogReader:
    """Reads the segments of one attempt in their order."""

    def __init__(self) -> None:
        self._first_ns: int | None = None
        self._last_ns: int | None = None
        self._lines = 0
        self._is_torn = False
        self._wrong: list[str] = []

    def read_segment(self, name: str, lines: Iterable[bytes]) -> None:
        """Read the lines of a segment, each with its newline."""
        if self._is_torn:
            self._wrong.append("a segment that is not the last ends with an incomplete line")
            self._is_torn = False
        wrong = []
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                self._is_torn = True
            elif text := self._wrong_line(line):
                wrong.append(f"line {number} of segment {name} {text}")
        self._wrong += _limit_faults(wrong)

    def summarize(self) -> LogFacts:
        return LogFacts(
            first_ns=self._first_ns,
            last_ns=self._last_ns,
            lines=self._lines,
            is_torn=self._is_torn,
            wrong=tuple(self._wrong),
        )

    def _wrong_line(self, line: bytes) -> str:
        self._lines += 1
        try:
            stamp = decode(line).stamp_ns
        except (ValueError, TypeError):
            return "cannot be read"
        if not isinstance(stamp, int):
            return "has no timestamp"
        before, self._last_ns = self._last_ns, stamp
        if self._first_ns is None:
            self._first_ns = stamp
        return (
            ""
            if before is None or stamp > before
            else "has a timestamp that is not after the previous line's"
        )


def read_log(segments: Iterable[Path]) -> LogFacts:
    """Read the segments of an attempt, except those that a server removes at the same time."""
    reader = LogReader()
    for path in segments:
        with suppress(FileNotFoundError), _open_file(path) as file:
            reader.read_segment(path.name, iter(partial(file.readline, _LINE_BYTES_MAX), b""))
    return reader.summarize()


def read_records(data: bytes) -> tuple[tuple[Mapping[str, Any], ...], tuple[str, ...]]:
    """Read the records of an attempt and their faults."""
    records, wrong = [], []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line:
            continue
        try:
            record = json.loads(line)
            records.append({**record, "is": str(record["is"])})
        except (ValueError, TypeError, KeyError, RecursionError):
            if not line.startswith(_RECORD_HEAD) and not _RECORD_HEAD.startswith(line):
                wrong.append(f"line {number} cannot be read")
    return tuple(records), tuple(_limit_faults(wrong))


def _limit_faults(faults: list[str]) -> Iterator[str]:
    yield from faults[:_NAMED_MAX]
    if len(faults) > _NAMED_MAX:
        yield f"and {len(faults) - _NAMED_MAX} more faults"
