"""A reducer of several processes (``--procs``): they start together and end together.

Nothing is restarted: a group of workers that has lost one reducer has lost its sums, and its job
decides what happens next.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn

from trainshed.reduction.endings import ENDING, Endings, ExitReason, ending_of
from trainshed.reduction.process import say, serve
from trainshed.reduction.settings import ReducerSettings

#: What a process gets from SIGTERM to SIGKILL, in seconds.
_GRACE_S: Final = 10.0
_LOOK_S: Final = 0.1
_SIGNAL_BASE: Final = 128
_FAULT: Final = 70


def run_all(
    listeners: Sequence[socket.socket],
    settings: ReducerSettings,
    token: bytes,
    *,
    endings: Endings,
    index: int,
) -> int:
    """Start a process a socket and wait; the status of the one that ended first, or of a signal."""
    starter, kept = os.pipe2(os.O_CLOEXEC)
    pids: set[int] = set()
    # a signal that came between a fork and its own handlers would be heard by the wrong process
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    for place, listener in enumerate(listeners):
        pid = os.fork()
        if pid == 0:
            os.close(kept)
            _be_one(listeners, listener, settings, token, index + place, starter)
        pids.add(pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    for listener in listeners:
        listener.close()
    status = _wait(endings, pids, index)
    _end(endings, pids)
    os.close(kept)
    return status


def _be_one(  # noqa: PLR0913, PLR0917 - what is different in each process
    listeners: Sequence[socket.socket],
    own: socket.socket,
    settings: ReducerSettings,
    token: bytes,
    index: int,
    starter: int,
) -> NoReturn:
    status = _FAULT
    try:
        for listener in listeners:
            if listener is not own:
                listener.close()
        status = serve(own, settings, token, endings=Endings(), index=index, starter=starter)
    except BaseException:  # noqa: BLE001 - a fork must not return into its parent's stack
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def _wait(endings: Endings, pids: set[int], index: int) -> int:
    """Until one of them ends; a signal is passed on, and its status is that of all."""
    reason: ExitReason | None = None
    while True:
        for number in endings.heard(_LOOK_S):
            if ending := ending_of(number):
                reason = reason or ending
                _tell(pids, signal.Signals(number))
        for pid, status in _ended(pids):
            if reason:
                return reason.status
            if status:
                say(f"reducer {index}: process {pid} has ended with {status}; so do the others")
            return status


def _end(endings: Endings, pids: set[int]) -> None:
    """Ask those that are left, and kill them when they take too long."""
    until = time.monotonic() + _GRACE_S
    _tell(pids, signal.SIGTERM)
    while pids:
        _ended(pids)
        if time.monotonic() > until:
            _tell(pids, signal.SIGKILL)
        if pids:
            endings.heard(_LOOK_S)


def _ended(pids: set[int]) -> list[tuple[int, int]]:
    """Those that have ended, with their exit statuses; they are ``pids`` no more."""
    found = []
    for pid in sorted(pids):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            pids.discard(pid)
            code = os.waitstatus_to_exitcode(status)
            found.append((pid, code if code >= 0 else _SIGNAL_BASE - code))
    return found


def _tell(pids: set[int], signum: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signum)
