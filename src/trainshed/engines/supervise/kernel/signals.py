"""What a supervisor hears, and what it does not take over from whoever started it."""

import os
import signal
from contextlib import suppress
from typing import Final

#: Somebody wants the attempt to end.
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: There may be an order.
LOOK: Final = signal.SIGUSR1
_STDERR: Final = 2


def close_inherited() -> None:
    """What the server, or whoever started that, has left open is nothing to a job."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > _STDERR:
            with suppress(OSError):
                os.close(int(name))


def hear_signals() -> int:
    """Have signals wake the loop, and do nothing else; where their numbers can be read.

    Handlers that do nothing, rather than SIG_IGN: what is ignored stays ignored in the replicas.
    """
    heard, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    for signum in (*ENDING, LOOK, signal.SIGCHLD):
        signal.signal(signum, lambda *_: None)
    return heard
