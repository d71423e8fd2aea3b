"""Looks at everything once: the database, the folders, the processes.  Writes nothing."""

import os
import resource
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from trainshed.engines.base import AttemptKey
from trainshed.engines.local.attempts.folder import AttemptFolder
from trainshed.model.log_line import LOG_FOLDER, SEGMENT_PATTERN
from trainshed.model.trainer_contract import JOB
from trainshed.service.server_files import ADMIN_FILE, read_running
from trainshed.storage.uploads import SESSION_AGE_S_MAX
from trainshed.store.base import StoreFault
from trainshed.workbench.doctor.audited import rows_seen
from trainshed.workbench.doctor.logs import look_at_log, look_at_records
from trainshed.workbench.doctor.snapshot import DiskSeen, FolderSeen, ProcessSeen, Snapshot
from trainshed.workbench.doctor.values import Part

_T = TypeVar("_T")

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_SECRETS: Final = (ADMIN_FILE, "tls/ca.key", "tls/server.key", "trainshed.db")
_DEVICES: Final = b"NVIDIA_VISIBLE_DEVICES="
_MARK: Final = f"{JOB}=".encode()
#: Words in that variable that name no device.
_NO_DEVICE: Final = frozenset({"", "void", "all", "none"})


def look(data_dir: Path, url: str, clock: Callable[[], int] = time.time_ns) -> Snapshot:
    """Everything as it is now.  Rows are read first: what they say has happened before."""
    unseen: dict[str, str] = {}

    def tried(part: Part, read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except (StoreFault, OSError) as error:
            unseen[part.name] = str(error)
        except Exception as error:  # noqa: BLE001  # damage takes any form, and is not ours to raise
            unseen[part.name] = f"it holds what cannot be read ({type(error).__name__}: {error})"
        return None

    running = read_running(data_dir)
    server = running.pid if running and running.is_alive else None
    rows = tried(Part.ROWS, lambda: rows_seen(url))
    folders = tried(Part.DISK, lambda: dict(_folders(data_dir / "jobs")))
    processes = tried(Part.PROCESSES, lambda: tuple(_processes()))
    now_ns = clock()
    return Snapshot(
        now_ns=now_ns,
        machine=os.uname().nodename,
        server_pid=server,
        files_max=_files_max(server),
        rows=rows,
        folders=folders,
        processes=processes,
        disk=tried(Part.DISK, lambda: _disk(data_dir, now_ns / 1e9)),
        unseen=unseen,
    )


def _folders(root: Path) -> Iterator[tuple[AttemptKey, FolderSeen]]:
    for uid in _numbers(root):
        for attempt in _numbers(root / str(uid)):
            path = root / str(uid) / str(attempt)
            with suppress(FileNotFoundError):  # forgotten meanwhile
                yield AttemptKey(uid, attempt), _folder(path, root)


def _folder(path: Path, root: Path) -> FolderSeen:
    folder = AttemptFolder(path)
    is_held = folder.is_held()
    records, wrong = look_at_records(_content(path / "records.jsonl"))
    if not is_held:  # it may have ended between the two looks
        records, wrong = look_at_records(_content(path / "records.jsonl"))
    return FolderSeen(
        path=path,
        is_private=any(not _mode(each) & _OTHERS for each in (path, path.parent, root)),
        is_held=is_held,
        records=records,
        wrong_records=wrong,
        log=look_at_log(sorted((path / LOG_FOLDER).glob(SEGMENT_PATTERN))),
    )


def _processes() -> Iterator[ProcessSeen]:
    """Every process whose environment names an attempt, but this one."""
    for pid in _numbers(Path("/proc")):
        if pid == os.getpid():
            continue
        with suppress(OSError):  # it has ended, or is somebody else's
            environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if key := _key(_value(environ, _MARK)):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                yield ProcessSeen(
                    pid=pid,
                    key=key,
                    words=words.decode(errors="replace").strip()[:200],
                    devices=frozenset(_value(environ, _DEVICES).split(",")) - _NO_DEVICE,
                )


def _value(environ: list[bytes], head: bytes) -> str:
    found = (entry[len(head) :] for entry in environ if entry.startswith(head))
    return next(found, b"").decode(errors="replace")


def _key(text: str) -> AttemptKey | None:
    uid, _, attempt = text.partition("/")
    is_one = uid.isdecimal() and attempt.isdecimal()
    return AttemptKey(int(uid), int(attempt)) if is_one else None


def _disk(data_dir: Path, now_s: float) -> DiskSeen:
    room = os.statvfs(data_dir)
    paths = [path for name in _SECRETS if (path := data_dir / name).exists()]
    return DiskSeen(
        free_bytes=room.f_bavail * room.f_frsize,
        free_files=room.f_favail if room.f_files else None,
        open_modes={str(path): _mode(path) for path in paths if _mode(path) & _OTHERS},
        future_s=_newest_s(data_dir, now_s) - now_s,
        old_uploads=tuple(_old_uploads(data_dir / "uploads", now_s)),
    )


def _newest_s(data_dir: Path, default: float) -> float:
    """When the newest file was written that a server or a supervisor keeps at hand."""
    found = [*data_dir.glob("*"), *(data_dir / "jobs").glob("*/*/records.jsonl")]
    return max((_changed_s(path) for path in found), default=default)


def _old_uploads(root: Path, now_s: float) -> Iterator[str]:
    for path in sorted(root.glob("sessions/*/data")):
        if _changed_s(path) < now_s - SESSION_AGE_S_MAX:
            yield str(path.parent)


def _files_max(server: int | None) -> int:
    """The limit of the server's process, or of one that was started from here."""
    with suppress(OSError, ValueError, IndexError):
        lines = Path(f"/proc/{server}/limits").read_text(encoding="ascii").splitlines()
        limit = next(line for line in lines if line.startswith("Max open files")).split()[3]
        return int(limit)
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _numbers(folder: Path) -> list[int]:
    with suppress(FileNotFoundError, NotADirectoryError):
        return sorted(int(each.name) for each in folder.iterdir() if each.name.isdecimal())
    return []


def _content(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return b""


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _changed_s(path: Path) -> float:
    with suppress(FileNotFoundError):
        return path.lstat().st_mtime
    return 0.0
