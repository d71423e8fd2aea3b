"""Runs a parent of the supervisor that is a second subreaper, on machines without usable cgroups.

The processes of a killed supervisor become children of its nearest ancestor that is a subreaper.
Without a second subreaper, that is the machine's init, which kills none of them.  Only the marks of
the attempt would then identify its processes (decision 0045).
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Final, NoReturn

from trainshed.engines.processes import identity, tree
from trainshed.engines.processes.identity import Identity

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FIRST_PAUSE_S: Final = 0.005
_PAUSE_S_MAX: Final = 1.0


def fork_below_reaper(*, forwards_signals: bool = False) -> Identity | None:
    """Continue in a child process; this process kills the processes that the child leaves behind.

    Return, in the child, the identity of this process, the reaper.  None: there is no reaper, and
    the caller continues in its own process.

    ``forwards_signals``: send each signal on to the child, because Slurm signals only this process.
    """
    if not tree.can_list() or not tree.adopt_orphans(True):
        return None
    reaper = identity.read_own_identity()
    try:
        child = os.fork()
    except OSError:
        tree.adopt_orphans(False)
        return None
    if child:
        _reap_after(child, forwards_signals=forwards_signals)
    os.setsid()
    return reaper


def _reap_after(supervisor: int, *, forwards_signals: bool) -> NoReturn:
    """Wait for the supervisor's end, then kill until no process is left.  Never returns."""
    try:
        # the supervisor handles these signals, and gives its replicas their grace period
        _handle_ending(partial(_forward, supervisor) if forwards_signals else signal.SIG_IGN)
        while os.wait()[0] != supervisor:
            pass
        _handle_ending(signal.SIG_IGN)
        pause_s = _FIRST_PAUSE_S
        while _kill_descendants():
            time.sleep(pause_s)
            pause_s = min(_PAUSE_S_MAX, 2 * pause_s)
    finally:
        os._exit(0)


def _handle_ending(handler: "Callable[[int, FrameType | None], object] | signal.Handlers") -> None:
    for signum in _ENDING:
        signal.signal(signum, handler)


def _forward(supervisor: int, signum: int, _frame: "FrameType | None") -> None:
    with suppress(ProcessLookupError):
        os.kill(supervisor, signum)


def _kill_descendants() -> bool:
    """Kill and collect the descendants of this process; return whether a child remains."""
    tree.kill_listed(lambda: [child for _, child in tree.descendants(os.getpid())])
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False
