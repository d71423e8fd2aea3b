"""A second subreaper, above the supervisor, where the machine offers no cgroup to us.

What a killed supervisor has forked falls to its nearest ancestor that adopts orphans.  That would
be the machine's init, which ends nothing, and of an attempt only its marks would tell
(decision 0045).
"""

import os
import signal
import time
from contextlib import suppress
from typing import Final, NoReturn

from trainshed.engines.processes import identity, tree
from trainshed.engines.processes.identity import Identity

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FIRST_PAUSE_S: Final = 0.005
_PAUSE_S_MAX: Final = 1.0


def fork_below_reaper() -> Identity | None:
    """Go on in a child, and have this process end whatever the child leaves; gives this process.

    None: it cannot be had, and the caller goes on as it was.
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
        _stand_behind(child)
    os.setsid()
    return reaper


def _stand_behind(supervisor: int) -> NoReturn:
    """Wait for its end, then kill until nothing is left.  Never returns."""
    try:
        for signum in _ENDING:  # the supervisor hears of them itself, and has a grace to give
            signal.signal(signum, signal.SIG_IGN)
        while os.wait()[0] != supervisor:
            pass
        pause_s = _FIRST_PAUSE_S
        while _any_left():
            time.sleep(pause_s)
            pause_s = min(_PAUSE_S_MAX, 2 * pause_s)
    finally:
        os._exit(0)


def _any_left() -> bool:
    """Kill and collect what lives below; False: nothing did."""
    tree.kill_listed(lambda: [child for _, child in tree.descendants(os.getpid())])
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False
