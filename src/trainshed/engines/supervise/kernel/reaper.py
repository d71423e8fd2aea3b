"""A second subreaper, above the supervisor, where the machine offers no cgroup to us.

What a killed supervisor has forked falls to its nearest ancestor that adopts orphans.  That would
be the machine's init, which ends nothing, and of an attempt only its marks would tell
(decision 0045).
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


def fork_below_reaper(*, hands_on: bool = False) -> Identity | None:
    """Continue in a child; this process kills the processes that the child leaves.

    The child gets the identity of this process, the reaper.

    ``hands_on``: pass signals on to the child, because the sender (Slurm) knows only this process.
    None: there is no reaper here, and the caller continues in its own process.
    """
    if not tree.can_list() or not tree.adopt_orphans(True):
        return None
    reaper = identity.myself()
    try:
        child = os.fork()
    except OSError:
        tree.adopt_orphans(False)
        return None
    if child:
        _stand_behind(child, hands_on=hands_on)
    os.setsid()
    return reaper


def _stand_behind(supervisor: int, *, hands_on: bool) -> NoReturn:
    """Wait for its end, then kill until nothing is left.  Never returns."""
    try:
        # the supervisor has a grace to give; where it hears of them itself they are not for us
        _on_ending(partial(_hand_on, supervisor) if hands_on else signal.SIG_IGN)
        while os.wait()[0] != supervisor:
            pass
        _on_ending(signal.SIG_IGN)
        pause_s = _FIRST_PAUSE_S
        while _any_left():
            time.sleep(pause_s)
            pause_s = min(_PAUSE_S_MAX, 2 * pause_s)
    finally:
        os._exit(0)


def _on_ending(what: "Callable[[int, FrameType | None], object] | signal.Handlers") -> None:
    for signum in _ENDING:
        signal.signal(signum, what)


def _hand_on(supervisor: int, signum: int, _frame: "FrameType | None") -> None:
    with suppress(ProcessLookupError):
        os.kill(supervisor, signum)


def _any_left() -> bool:
    """Kill and collect what lives below; False: nothing did."""
    tree.kill_listed(lambda: [child for _, child in tree.descendants(os.getpid())])
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False
