"""Why a reducer ends: a signal, a time without work, or the end of the process that started it.

All of them arrive at one place, in the main thread, which does nothing else: a handler that raised
would do so in the middle of whatever the thread does.
"""

import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final, NamedTuple

#: Signals that end a reducer.  A job's own end is SIGTERM, and no failure.
ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SIGNAL_BASE: Final = 128
_EVENT: Final = 0


class ExitReason(NamedTuple):
    """The exit status, and the reason as text."""

    status: int
    words: str
    is_patient: bool = False
    """Whether those who reduce may finish: after SIGTERM a job saves what it has, and its
    workers come to the end of their step only while their reducers serve them."""


class Endings:
    """To be made in the main thread, before anything else is started."""

    def __init__(self, *, children: bool = False) -> None:
        """Read signals from a pipe; with ``children`` the ends of processes too."""
        self._heard, self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        for signum in (*ENDING, *((signal.SIGCHLD,) if children else ())):
            signal.signal(signum, _nothing)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)  # whoever forked may have held them back

    def when(self, waited: Callable[[], object]) -> None:
        """Have the return of a function that waits end ``wait``."""

        def wait() -> None:
            waited()
            with suppress(OSError):
                os.write(self._wakeup, bytes([_EVENT]))

        threading.Thread(target=wait, daemon=True).start()

    def wait(self, starter: int | None, event: str, *, patience: bool = True) -> ExitReason:
        """Wait for the first reason to end; ``starter`` is a pipe that its process keeps open.

        ``event`` says what has happened when a function of ``when`` returns.  Without ``patience``
        signals that have it are not heard.
        """
        readers = [self._heard] if starter is None else [self._heard, starter]
        while True:
            if starter in select.select(readers, (), ())[0]:
                return ExitReason(0, "the process that started it has ended")
            for number in self.heard():
                found = ExitReason(0, event) if number == _EVENT else ending_of(number)
                if found and (patience or not found.is_patient):
                    return found

    def heard(self, timeout_s: float = 0.0) -> bytes:
        """The signals and ends so far, a byte each; waits up to ``timeout_s`` for the first."""
        select.select([self._heard], (), (), timeout_s)
        try:
            return os.read(self._heard, 4096)
        except BlockingIOError:
            return b""


def ending_of(number: int) -> ExitReason | None:
    """What a signal makes of a process; None where it is not to end."""
    if number not in ENDING:
        return None
    is_patient = number == signal.SIGTERM
    status = 0 if is_patient else _SIGNAL_BASE + number
    return ExitReason(status, f"received {signal.Signals(number).name}", is_patient)


def _nothing(_signum: int, _frame: FrameType | None) -> None:
    """The byte in the pipe is what was wanted."""
