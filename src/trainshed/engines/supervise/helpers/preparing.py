"""Functions for programs that prepare an attempt as children of its supervisor (``preparer``).

The supervisor writes their stdout to the job's log; the last line of stderr is the reason of a
failure.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import IO, Any, Final

from trainshed.engines.supervise.helpers.preparer import REQUEST, WARNING_MARK
from trainshed.model.faults import EngineFault

#: The exit status if other jobs hold the devices: EX_TEMPFAIL of sysexits.h, "try again later".
HELD: Final = os.EX_TEMPFAIL
FAILED: Final = 1
CHANNEL: Final = 3
#: Packages that compile for a GPU take two or three hours on few cores.
_INSTALL_S_MAX: Final = 6 * 3600.0


@contextmanager
def installing() -> Iterator[None]:
    """Bound the time of an installation; SIGTERM exits, so that its unfinished files are removed.

    Raises EngineFault after six hours.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(FAILED))
    with at_most(_INSTALL_S_MAX):
        yield
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise EngineFault if the installation in the ``with`` block takes more than ``seconds``."""

    def end(signum: int, frame: FrameType | None) -> None:
        del signum, frame
        raise EngineFault(f"the packages were not installed within {seconds / 3600:g} hours")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def take_request() -> str:
    """Take the path of the request from the environment; builders do not inherit the variable.

    Supervisors of earlier versions pass it as the only argument.
    """
    return sys.argv[1] if len(sys.argv) > 1 else os.environ.pop(REQUEST)


def answer(message: Any, locks: Iterable[IO[Any] | None]) -> None:
    """Send a message of any length to the supervisor, with the descriptors of the lock files."""
    data = json.dumps(message).encode()
    with socket.socket(fileno=CHANNEL) as channel:
        descriptors = [lock.fileno() for lock in locks if lock is not None]
        socket.send_fds(channel, [data[:1]], descriptors)
        channel.sendall(data[1:])


def note(text: str) -> None:
    """Write a line into the job's log."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def warn(text: str) -> None:
    """Write a line into the job's log as a warning."""
    note(f"{WARNING_MARK}{text}")


def say(fault: EngineFault, status: int) -> int:
    """Print a fault on one line of stderr; return ``status``.

    If the text of the fault has several lines, write them to the job's log too.
    """
    lines = str(fault).splitlines()
    for line in lines if len(lines) > 1 else ():
        note(line)
    sys.stderr.write(" ".join(line.strip() for line in lines) + "\n")
    return status
