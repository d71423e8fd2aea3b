"""Signals that ask the launcher to end, kept from ending it before the job is ended.

While packages install, a signal raises ``Interrupted`` at once.  While replicas run it only wakes
the loop, which then stops them in good order.  A signal that the launcher was started to ignore
(nohup, a background job of a script) stays ignored.
"""

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """A signal asked for the end; ``signum`` says which."""

    def __init__(self, signum: signal.Signals) -> None:
        """Remember the signal."""
        self.signum = signum
        super().__init__(signum.name)


class Interrupts:
    """The ending signals that have arrived; ``fileno`` is readable when there are new ones."""

    def __init__(self) -> None:
        """Listen to nothing yet."""
        self._heard, self._told = socket.socketpair()
        self._heard.setblocking(False)
        self._told.setblocking(False)
        self._pending: list[signal.Signals] = []
        self.raising = True
        """Whether a signal raises ``Interrupted`` (True) or waits to be taken."""

    def fileno(self) -> int:
        """A descriptor for a selector."""
        return self._heard.fileno()

    def take(self) -> list[signal.Signals]:
        """Give and forget the signals that have arrived."""
        with suppress(BlockingIOError):
            self._heard.recv(4096)
        taken, self._pending = self._pending, []
        return taken

    def handle(self, signum: int, _frame: FrameType | None) -> None:
        """Be the handler of a signal."""
        if self.raising:
            raise Interrupted(signal.Signals(signum))
        self._pending.append(signal.Signals(signum))

    def close(self) -> None:
        """Close both ends."""
        self._heard.close()
        self._told.close()

    def wake_descriptor(self) -> int:
        """Where the interpreter writes a byte at each signal."""
        return self._told.fileno()


@contextmanager
def listening() -> Iterator[Interrupts]:
    """Take over the ending signals for a while; a thread other than the main one takes none.

    Signals that the caller holds back are heard meanwhile, those that have arrived at once: as
    ``raising`` is True at first, entering may raise Interrupted.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        interrupts.close()
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    wake = signal.set_wakeup_fd(interrupts.wake_descriptor(), warn_on_full_buffer=False)
    try:
        for number, handler in before.items():
            if handler not in {signal.SIG_IGN, None}:
                signal.signal(number, interrupts.handle)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        yield interrupts
    finally:
        interrupts.raising = False
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        signal.set_wakeup_fd(wake)
        interrupts.close()


@contextmanager
def held() -> Iterator[None]:
    """Hold the ending signals back over a fork, so that none is handled in the wrong process."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def ignore_in_supervisor() -> socket.socket:
    """Leave the ending signals to the launcher, and be woken by the end of children.

    Handlers that do nothing, rather than SIG_IGN: what is ignored stays ignored in the replicas.
    """
    heard, told = socket.socketpair()
    heard.setblocking(False)
    told.setblocking(False)
    signal.set_wakeup_fd(told.detach(), warn_on_full_buffer=False)
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _do_nothing)
    signal.signal(signal.SIGCHLD, _do_nothing)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    return heard


def _do_nothing(_signum: int, _frame: FrameType | None) -> None:
    return
