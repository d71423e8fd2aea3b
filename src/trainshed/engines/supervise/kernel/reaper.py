"""Runs a parent of the supervisor that is a second subreaper, on machines without usable cgroups.

The processes of a killed supervisor become children of its nearest ancestor that is a subreaper.
Without a second subreaper, that is the machine's init, which kills none of them.  Only the marks of
the attempt would then identify its processes (decision 0045).
"""

import gc
import os
import time
from collections.abc import Callable
from typing import Final, NoReturn

from trainshed.engines.processes import tree
from trainshed.model.exit_status import SIGNAL_BASE

TYPE_CHECKING = False  # for the modules that a reaper does not import, see processes.tree
if TYPE_CHECKING:
    import signal
    from types import FrameType
else:
    import _signal as signal

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: SIGUSR1 asks a launcher to read its stop order (``signals.LOOK``).
_FORWARDED: Final = (*_ENDING, signal.SIGUSR1)
_FIRST_PAUSE_S: Final = 0.005
_PAUSE_S_MAX: Final = 1.0


class StatusSwitch:
    """A switch that a process and its reaper share: whether the reaper passes the status on."""

    def __init__(self) -> None:
        """Switch it on.  Raises OSError if no descriptors are left."""
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def turn_off(self) -> None:
        """Let the reaper exit with status 0, however this process ends."""
        os.write(self._writer, b"-")

    @property
    def is_on(self) -> bool:
        """Whether it is still on; only the reaper may ask, and only once."""
        try:
            return not os.read(self._reader, 1)
        except BlockingIOError:
            return True


def fork_below_reaper(*, forwards_signals: bool = False, switch: StatusSwitch | None = None) -> int:
    """Continue in a child process; this process kills the processes that the child leaves behind.

    Return, in the child, the pid of this process, the reaper; 0: there is no reaper, and the caller
    continues in its own process.

    ``forwards_signals``: send each signal on to the child, because Slurm signals only this process,
    and a cluster of containers only their first process.  ``switch``: if it is on at the end of the
    child, this process exits with the child's status, 128 + N after signal N; otherwise with 0.
    """
    if not tree.can_list() or not tree.adopt_orphans(True):
        return 0
    reaper = os.getpid()
    gc.freeze()  # a collection in the child would write to shared pages, and so copy them
    try:
        child = os.fork()
    except OSError:
        tree.adopt_orphans(False)
        return 0
    if child:
        _reap_after(child, forwards_signals=forwards_signals, switch=switch)
    os.setsid()
    return reaper


def _reap_after(
    supervisor: int, *, forwards_signals: bool, switch: StatusSwitch | None
) -> NoReturn:
    """Wait for the supervisor's end, then kill until no process is left.  Never returns."""
    status = 0
    try:
        # the supervisor handles these signals, and gives its replicas their grace period
        _handle_signals(_make_forwarder(supervisor) if forwards_signals else signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)  # the start of an archive blocks them
        wait_status = _wait_for(supervisor)
        if switch is not None and switch.is_on:
            status = _shell_status(os.waitstatus_to_exitcode(wait_status))
        _handle_signals(signal.SIG_IGN)
        pause_s = _FIRST_PAUSE_S
        while _kill_descendants():
            time.sleep(pause_s)
            pause_s = min(_PAUSE_S_MAX, 2 * pause_s)
    finally:
        os._exit(status)


def _wait_for(pid: int) -> int:
    """Collect children, orphans of other processes included, until one; return its wait status."""
    while True:
        child, wait_status = os.wait()
        if child == pid:
            return wait_status


def _shell_status(code: int) -> int:
    return code if code >= 0 else SIGNAL_BASE - code


def _handle_signals(handler: "Callable[[int, FrameType | None], object] | signal.Handlers") -> None:
    for signum in _FORWARDED:
        signal.signal(signum, handler)


def _make_forwarder(supervisor: int) -> "Callable[[int, FrameType | None], object]":
    def forward(signum: int, _frame: "FrameType | None") -> None:
        try:
            os.kill(supervisor, signum)
        except ProcessLookupError:
            return

    return forward


def _kill_descendants() -> bool:
    """Kill and collect the descendants of this process; return whether a child remains."""
    tree.kill_listed(lambda: [child for _, child in tree.descendants(os.getpid())])
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
