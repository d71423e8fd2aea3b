"""Runs a command as a child, passes signals on to it, and ends with its exit status or signal."""

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from trainshed.model.faults import UsageFault

#: Signals that are passed on.  SIGTSTP and SIGCONT reach the whole process group.
_FORWARDED: Final = frozenset(
    {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
)
_WAITED: Final = _FORWARDED | {signal.SIGCHLD}
#: ``si_code`` of a signal of the kernel, such as Ctrl-C, which the child gets from the terminal.
_SI_KERNEL: Final = 0x80

SignalMask = Collection[int]


def check_command(argv: Sequence[str]) -> None:
    """Raise UsageFault if there is no such program."""
    if shutil.which(argv[0]) is None:
        raise UsageFault(
            f"{argv[0]}: there is no such command; give a program on the PATH or an executable file"
        )


@contextlib.contextmanager
def block_signals() -> Iterator[SignalMask]:
    """Block the signals that ``run_command`` waits for; yields the mask from before.

    Call it on the main thread before other threads start: a thread that does not block the signals
    would get them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_command(argv: Sequence[str], environ: Mapping[str, str], mask: SignalMask) -> int:
    """Run a command to its end; return its exit status, or the negative number of its signal.

    Call it within ``block_signals``, which yields the command's ``mask``.  Raises UsageFault if
    the command cannot be started.
    """
    return _wait(_spawn(argv, environ, mask))


def end_as(status: int) -> int:
    """End this process by the signal that ended the command, or return the exit status."""
    if status >= 0:
        return status
    sys.stdout.flush()
    sys.stderr.flush()
    if -status not in {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
    return 128 - status


def _spawn(argv: Sequence[str], environ: Mapping[str, str], mask: SignalMask) -> int:
    defaults = [signal.SIGPIPE, signal.SIGXFSZ]  # Python ignores them
    try:
        return os.posix_spawnp(
            argv[0], list(argv), environ, setsigmask=list(mask), setsigdef=defaults
        )
    except OSError as error:
        raise UsageFault(f"cannot start {argv[0]}: {error.strerror}") from error


def _wait(pid: int) -> int:
    while True:
        info = signal.sigwaitinfo(_WAITED)
        if info.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
        elif info.si_code != _SI_KERNEL:
            os.kill(pid, info.si_signo)
