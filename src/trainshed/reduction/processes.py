"""The processes of a reducer: each runs a ``Reducer`` on its own socket until a reason to end.

Several processes (``--procs``) start together and end together.  None is restarted: a group of
workers that has lost one reducer has lost its sums, and its job decides what happens next.
"""

import math
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Final, NamedTuple, NoReturn

from trainshed.reduction.settings import ReducerSettings

#: Signals that end a reducer.  SIGTERM is the job's end, not a failure.
ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_EVENT: Final = 0


class ExitReason(NamedTuple):
    """The exit status, and the reason as text."""

    status: int
    text: str
    is_patient: bool = False
    """Whether workers may finish: after SIGTERM a job saves its state, and workers end their step
    only while reducers serve them."""


class Endings:
    """Waits for the end of a reducer: a signal, idle time, or the end of its starter.

    All are handled in the main thread, which does nothing else: an exception in a signal handler
    could interrupt other work anywhere.  Create the object first, in the main thread.
    """

    def __init__(self, *, children: bool = False) -> None:
        """Read signals from a pipe; with ``children`` the ends of processes too."""
        self._signal_pipe, self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        for signum in (*ENDING, *((signal.SIGCHLD,) if children else ())):
            signal.signal(signum, _ignore)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)  # the parent may have blocked them

    def end_after(self, function: Callable[[], object]) -> None:
        """Call ``function`` in a thread; its return ends ``wait``."""

        def wait() -> None:
            function()
            with suppress(OSError):
                os.write(self._wakeup, bytes([_EVENT]))

        threading.Thread(target=wait, daemon=True).start()

    def wait(self, starter: int | None, event: str, *, patience: bool = True) -> ExitReason:
        """Wait for the first reason to end.

        ``starter`` is a pipe that the starting process keeps open; None: there is none.  ``event``
        is the reason if a function of ``end_after`` returns.  Without ``patience`` SIGTERM is
        ignored.
        """
        readers = [self._signal_pipe] if starter is None else [self._signal_pipe, starter]
        while True:
            if starter in select.select(readers, (), ())[0]:
                return ExitReason(0, "the process that started this reducer has ended")
            for number in self.read_events():
                reason = ExitReason(0, event) if number == _EVENT else ending_of(number)
                if reason and (patience or not reason.is_patient):
                    return reason

    def read_events(self, timeout_s: float = 0.0) -> bytes:
        """Return signals and events so far, a byte each; wait up to ``timeout_s`` for the first."""
        select.select([self._signal_pipe], (), (), timeout_s)
        try:
            return os.read(self._signal_pipe, 4096)
        except BlockingIOError:
            return b""


def ending_of(number: int) -> ExitReason | None:
    """Return the exit reason of a signal; None if the process goes on."""
    if number not in ENDING:
        return None
    is_patient = number == signal.SIGTERM
    status = 0 if is_patient else _SIGNAL_BASE + number
    return ExitReason(status, f"received {signal.Signals(number).name}", is_patient)


def _ignore(_signum: int, _frame: FrameType | None) -> None:
    """Do nothing: the byte in the pipe reports the signal."""


#: A BLAS library would start a thread with its own memory for each core; a reducer needs none.
_BLAS_THREADS: Final = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
#: Seconds from SIGTERM to SIGKILL.
_GRACE_S: Final = 10.0
_POLL_S: Final = 0.1
_SIGNAL_BASE: Final = 128
_FAULT: Final = 70


def serve(  # noqa: PLR0913 - what one process is made of
    listener: socket.socket,
    settings: ReducerSettings,
    token: bytes,
    *,
    endings: Endings,
    index: int,
    starter: int | None = None,
) -> int:
    """Serve workers until there is a reason to end; return the exit status of the process.

    ``starter`` is the reading end of a pipe that the starting process holds open.
    """
    for name in _BLAS_THREADS:
        os.environ.setdefault(name, "1")
    # imports numpy, which is slow, and which reads the variables set above
    from trainshed_trainer.reduction.reducer import Reducer  # noqa: PLC0415  # see above

    def report(text: str) -> None:
        say(f"reducer {index}: {text}")

    reducer = Reducer(
        listener,
        token,
        index=index,
        timeout=settings.timeout_s,
        max_memory=settings.max_memory,
        report=report,
    )
    reducer.start()
    host, port = reducer.address
    report(f"listening on {host}:{port}")
    if settings.idle_timeout_s:
        endings.end_after(partial(reducer.wait_idle, settings.idle_timeout_s))
    ending = endings.wait(starter, "no worker has used the reducer for the time of --idle-timeout")
    if ending.is_patient and not reducer.wait_over(0.0):
        report(f"{ending.text}; serves its workers until they leave")
        endings.end_after(partial(reducer.wait_over, math.inf))
        endings.wait(starter, "its workers have left", patience=False)
    reducer.close()
    report(f"ends: {ending.text}")
    return ending.status


def say(line: str) -> None:
    """Write a whole line at once; the reader may be gone."""
    with suppress(OSError, ValueError):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def run_all(
    listeners: Sequence[socket.socket],
    settings: ReducerSettings,
    token: bytes,
    *,
    endings: Endings,
    index: int,
) -> int:
    """Start one process per socket; return the status of the first that ends, or of a signal."""
    starter, write_end = os.pipe2(os.O_CLOEXEC)
    pids: set[int] = set()
    # otherwise a signal between the fork and the handlers of the child would reach the parent
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    for offset, listener in enumerate(listeners):
        pid = os.fork()
        if pid == 0:
            os.close(write_end)
            _run_child(listeners, listener, settings, token, index + offset, starter)
        pids.add(pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    for listener in listeners:
        listener.close()
    status = _wait(endings, pids, index)
    _end(endings, pids)
    os.close(write_end)
    return status


def _run_child(  # noqa: PLR0913, PLR0917 - what is different in each process
    listeners: Sequence[socket.socket],
    own_listener: socket.socket,
    settings: ReducerSettings,
    token: bytes,
    index: int,
    starter: int,
) -> NoReturn:
    status = _FAULT
    try:
        for listener in listeners:
            if listener is not own_listener:
                listener.close()
        status = serve(
            own_listener, settings, token, endings=Endings(), index=index, starter=starter
        )
    except BaseException:  # noqa: BLE001 - a fork must not return into its parent's stack
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def _wait(endings: Endings, pids: set[int], index: int) -> int:
    """Wait until a process ends; return its status, or the status of a signal, sent to all."""
    reason: ExitReason | None = None
    while True:
        for number in endings.read_events(_POLL_S):
            if ending := ending_of(number):
                reason = reason or ending
                _send_signal(pids, signal.Signals(number))
        for pid, status in _ended(pids):
            if reason:
                return reason.status
            if status:
                ended = f"process {pid} has ended with the exit status {status}"
                say(f"{ended}; the other processes from reducer {index} on end too")
            return status


def _end(endings: Endings, pids: set[int]) -> None:
    """End the remaining processes: SIGTERM, and SIGKILL after the grace period."""
    deadline = time.monotonic() + _GRACE_S
    _send_signal(pids, signal.SIGTERM)
    while pids:
        _ended(pids)
        if time.monotonic() > deadline:
            _send_signal(pids, signal.SIGKILL)
        if pids:
            endings.read_events(_POLL_S)


def _ended(pids: set[int]) -> list[tuple[int, int]]:
    """Return ended processes with their exit statuses, and remove them from ``pids``."""
    statuses = []
    for pid in sorted(pids):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            pids.discard(pid)
            code = os.waitstatus_to_exitcode(status)
            statuses.append((pid, code if code >= 0 else _SIGNAL_BASE - code))
    return statuses


def _send_signal(pids: set[int], signum: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signum)
