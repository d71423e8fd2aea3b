"""Signals for a process that was noted down earlier, and never for a stranger with its pid."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from trainshed.engines.local.records import Began

#: Field 22 of proc(5)'s stat, counted behind the command's closing bracket.
_START_TICKS = 22 - 3
#: States of a process that is over: zombie, dead.
_DEAD = frozenset("ZX")


def myself() -> Began:
    """What tells this process from all others, on this machine and since its last start."""
    pid = os.getpid()
    return Began(pid=pid, start_ticks=_start_ticks(pid), boot_id=_boot_id())


def send(to: Began, signum: signal.Signals) -> None:
    """Send a signal to the process, if it is still there.  A pidfd pins it while it is checked."""
    if to.boot_id != _boot_id():
        return
    with suppress(OSError, ValueError, IndexError):
        pinned = os.pidfd_open(to.pid)
        try:
            if _start_ticks(to.pid) == to.start_ticks:
                signal.pidfd_send_signal(pinned, signum)
        finally:
            os.close(pinned)


def lives(noted: Began) -> bool:
    """Whether the process is there; one that has ended and was not collected is not."""
    if noted.boot_id != _boot_id():
        return False
    try:
        fields = _fields(noted.pid)
    except OSError:
        return False
    return fields[0] not in _DEAD and int(fields[_START_TICKS]) == noted.start_ticks


def _start_ticks(pid: int) -> int:
    return int(_fields(pid)[_START_TICKS])


def _fields(pid: int) -> list[str]:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return stat.rpartition(")")[2].split()


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
