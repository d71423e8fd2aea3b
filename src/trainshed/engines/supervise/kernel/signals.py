"""Sets up the signals and closes the inherited descriptors of a supervisor."""

import os
from typing import Final

TYPE_CHECKING = False  # for the modules that a reaper does not import, see processes.tree
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

#: Signals that ask the supervisor to end the attempt.
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: The signal that asks the supervisor to read the file of the order to stop.
LOOK: Final = signal.SIGUSR1
_STDERR: Final = 2


def close_inherited() -> None:
    """Close the descriptors that the server, or the parent of the server, has left open."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > _STDERR:
            try:
                os.close(int(name))
            except OSError:
                continue


def wake_on_signals() -> int:
    """Let signals only wake the loop; return the descriptor from which to read their numbers.

    The handlers do nothing.  SIG_IGN cannot replace them: the replicas would inherit it.
    """
    reader, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    for signum in (*ENDING, LOOK, signal.SIGCHLD):
        signal.signal(signum, lambda *_: None)
    # the start of an archive blocks some, and Slurm 25.05 blocks SIGCHLD in tasks
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*ENDING, LOOK, signal.SIGCHLD))
    return reader
