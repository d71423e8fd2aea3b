"""Finds all attempts of an installation: by their folders, and by the marks of processes."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from trainshed.engines.base import ListedAttempt, LivingProcess
from trainshed.engines.local.attempts.fence import find_suspended, has_living_supervisor
from trainshed.engines.processes import mark as marks
from trainshed.engines.supervise.leftovers import list_below, reaper_of
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.observe import AttemptRecords, compose_observation
from trainshed.engines.supervise.record.records import Began
from trainshed.model.attempt import AttemptKey, Phase

_DEVICES: Final = b"NVIDIA_VISIBLE_DEVICES="
#: Values of that variable that name no device.
_NO_DEVICE: Final = frozenset({"", "void", "all", "none"})
_COMMAND_LENGTH: Final = 200


def list_attempts(root: Path) -> Sequence[ListedAttempt]:
    """List the attempts of the installation with its folders below ``root``.  Raises OSError."""
    living: defaultdict[AttemptKey, list[LivingProcess]] = defaultdict(list)
    keys = {key for uid in _list_numbers(root) for key in attempts_of(root / str(uid))}
    for process in _list_marked(root, {marks.limit_of(str(key)): key for key in keys}):
        living[process.key].append(process)
    return [
        _inspect_attempt(key, AttemptFolder(_path(root, key)), living[key])
        for key in sorted(keys.union(living))
    ]


def attempts_of(folder: Path) -> Iterator[AttemptKey]:
    """Yield the attempts that have a folder in the folder of their job."""
    for attempt in _list_numbers(folder):
        yield AttemptKey(int(folder.name), attempt)


def _inspect_attempt(
    key: AttemptKey, folder: AttemptFolder, living: Sequence[LivingProcess]
) -> ListedAttempt:
    """Return the state of an attempt by its folder and lock, without any change to them."""
    records = AttemptRecords()
    records.read(folder.records)
    is_supervised = has_living_supervisor(folder, records.began)
    stopped = find_suspended(folder, records.began) if is_supervised else None
    records.read(folder.records)  # the attempt may have ended between the two reads
    phase = (
        compose_observation(key, records).phase if is_supervised or records.ended else Phase.UNKNOWN
    )
    marked = {process.pid for process in living}
    unmarked = _list_inherited(records.began) - marked if records.began else set()
    more = (LivingProcess(key, pid, _read_command(pid)) for pid in unmarked)
    return ListedAttempt(key, phase, (*living, *more), stopped and stopped.pid)


def _list_inherited(began: Began) -> set[int]:
    """List the processes below the second subreaper of an attempt, also those without a mark."""
    return list_below(reaper_of(began.places)) - {began.pid}


def _read_command(pid: int) -> str:
    """Return the command line of a process; empty if it has ended."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        return words.decode(errors="replace").strip()[:_COMMAND_LENGTH]
    return ""


def _list_marked(root: Path, limits: Mapping[int, AttemptKey]) -> Iterator[LivingProcess]:
    """Yield the other processes that have the mark of an attempt of this installation."""
    for pid in _list_numbers(Path("/proc")):
        if pid == os.getpid():
            continue
        environ = marks.read_environment(pid)
        key = _find_named(root, environ) or limits.get(marks.read_limit(pid) or 0)
        if key is not None:
            devices = frozenset(_read_devices(environ)) - _NO_DEVICE
            yield LivingProcess(key=key, pid=pid, command=_read_command(pid), devices=devices)


def _find_named(root: Path, environ: list[bytes]) -> AttemptKey | None:
    """Return the attempt that an environment names; None if it is of another installation."""
    key = _parse_key(marks.find_variable(environ))
    prefix = f"{root}/".encode()
    is_ours = key and (_path(root, key).exists() or any(prefix in entry for entry in environ))
    return key if is_ours else None


def _path(root: Path, key: AttemptKey) -> Path:
    return root / str(key.uid) / str(key.attempt)


def _read_devices(environ: list[bytes]) -> list[str]:
    values = (entry[len(_DEVICES) :] for entry in environ if entry.startswith(_DEVICES))
    return next(values, b"").decode(errors="replace").split(",")


def _parse_key(text: str) -> AttemptKey | None:
    uid, _, attempt = text.partition("/")
    is_key = uid.isdecimal() and attempt.isdecimal()
    return AttemptKey(int(uid), int(attempt)) if is_key else None


def _list_numbers(folder: Path) -> list[int]:
    with suppress(FileNotFoundError, NotADirectoryError):
        return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal())
    return []
