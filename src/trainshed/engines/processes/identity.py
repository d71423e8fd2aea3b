"""Signals for a process that was noted down earlier, and never for a stranger with its pid."""

import os
import signal
from contextlib import suppress
from functools import cache
from typing import Final, NamedTuple

from trainshed.engines.processes.tree import read, stat_fields

#: Field 22 of proc(5)'s stat, counted behind the command's closing bracket.
_START_TICKS: Final = 22 - 3
#: States of a process that is over: zombie, dead.
_DEAD: Final = frozenset("ZX")
#: States of one that stands still: stopped by a signal, by a debugger.
_SUSPENDED: Final = frozenset("Tt")


class Identity(NamedTuple):
    """What tells a process from all others, on this machine and since its last start."""

    pid: int
    start_ticks: int
    """When the process was started (proc(5), field 22): tells it from a later one of its pid."""
    boot_id: str


def myself() -> Identity:
    """The identity of the calling process."""
    return of(os.getpid())


def of(pid: int) -> Identity:
    """The identity of a process that is there.  Raises OSError."""
    return Identity(pid=pid, start_ticks=_start_ticks(pid), boot_id=boot_id())


def noted(pid: int) -> Identity | None:
    """The identity of a process; None where there is none any more."""
    with suppress(OSError, ValueError, IndexError):
        return of(pid)
    return None


def send(to: Identity, signum: signal.Signals) -> None:
    """Send a signal to the process, if it is still there.  A pidfd pins it while it is checked."""
    if to.boot_id != boot_id():
        return
    with suppress(OSError, ValueError, IndexError):
        pinned = os.pidfd_open(to.pid)
        try:
            if _start_ticks(to.pid) == to.start_ticks:
                signal.pidfd_send_signal(pinned, signum)
        finally:
            os.close(pinned)


def lives(noted: Identity) -> bool:
    """Whether the process is there; one that has ended and was not collected is not."""
    return _state(noted) not in _DEAD


def is_suspended(noted: Identity) -> bool:
    """Whether the process is there and stands still (SIGSTOP): it hears nothing but SIGKILL."""
    return _state(noted) in _SUSPENDED


@cache
def boot_id() -> str:
    """What tells this start of the machine from all others."""
    return read("/proc/sys/kernel/random/boot_id").strip()


def _state(noted: Identity) -> str:
    """What proc(5) calls the state of a process; that of a dead one where it is not there."""
    if noted.boot_id != boot_id():
        return "X"
    try:
        fields = stat_fields(noted.pid)
    except OSError:
        return "X"
    return fields[0] if int(fields[_START_TICKS]) == noted.start_ticks else "X"


def _start_ticks(pid: int) -> int:
    return int(stat_fields(pid)[_START_TICKS])
