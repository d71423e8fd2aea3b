"""Identifies processes by more than the pid, so that a signal never hits a later process."""

import os
import signal
from contextlib import suppress
from functools import cache
from typing import Final, NamedTuple

from trainshed.engines.processes.tree import read, stat_fields

#: Position of field 22 of /proc/PID/stat (proc(5)) after the command's closing bracket.
_START_TICKS: Final = 22 - 3
#: States of a process that has ended: zombie, dead.
_DEAD: Final = frozenset("ZX")
#: States of a suspended process: stopped by a signal, by a debugger.
_SUSPENDED: Final = frozenset("Tt")


class Identity(NamedTuple):
    """Identifies a process of this machine: no other one has the same values."""

    pid: int
    start_ticks: int
    """The start time of the process in clock ticks since boot (proc(5), field 22)."""
    boot_id: str
    """The id of the machine's boot."""


def read_own_identity() -> Identity:
    """Return the identity of the calling process."""
    return read_identity(os.getpid())


def read_identity(pid: int) -> Identity:
    """Return the identity of a process.  Raises OSError if it has ended."""
    return Identity(pid=pid, start_ticks=_read_start_ticks(pid), boot_id=boot_id())


def find_identity(pid: int) -> Identity | None:
    """Return the identity of a process; None if it has ended."""
    with suppress(OSError, ValueError, IndexError):
        return read_identity(pid)
    return None


def send_signal(process: Identity, signum: signal.Signals) -> None:
    """Send a signal to the process, if it still exists.  A pidfd pins it during the check."""
    if process.boot_id != boot_id():
        return
    with suppress(OSError, ValueError, IndexError):
        pinned = os.pidfd_open(process.pid)
        try:
            if _read_start_ticks(process.pid) == process.start_ticks:
                signal.pidfd_send_signal(pinned, signum)
        finally:
            os.close(pinned)


def is_alive(process: Identity) -> bool:
    """Return whether the process lives; a zombie does not."""
    return _read_state(process) not in _DEAD


def is_suspended(process: Identity) -> bool:
    """Return whether the process is suspended (SIGSTOP): it reacts to no signal but SIGKILL."""
    return _read_state(process) in _SUSPENDED


@cache
def boot_id() -> str:
    """Return the id of the machine's present boot."""
    return read("/proc/sys/kernel/random/boot_id").strip()


def _read_state(process: Identity) -> str:
    """Return the state letter of a process (proc(5)); X (dead) if the process does not exist."""
    if process.boot_id != boot_id():
        return "X"
    try:
        fields = stat_fields(process.pid)
    except OSError:
        return "X"
    return fields[0] if int(fields[_START_TICKS]) == process.start_ticks else "X"


def _read_start_ticks(pid: int) -> int:
    return int(stat_fields(pid)[_START_TICKS])
