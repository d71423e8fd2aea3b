"""A reducer accepts the workers of one job and sums the tensors that they send.

It runs as a process of worker pool 2 (``trainshed-reducer``), and inside of each worker if there
are fewer reducers than workers.  It has no state to save: when a group fails, the next group is a
new epoch, which ends the old one.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Callable

from trainshed_trainer.reduction.epoch import Epoch
from trainshed_trainer.reduction.errors import (
    Culprit,
    Kind,
    ReductionError,
    name_culprit,
    reducer_error,
)
from trainshed_trainer.reduction.frames import ALIGNMENT, error_frame
from trainshed_trainer.reduction.handshake import Hello
from trainshed_trainer.reduction.joining import authenticate_worker
from trainshed_trainer.reduction.links import Address, Link, close_in_children
from trainshed_trainer.reduction.members import TELL_S, WorkerChannel

#: Largest and smallest size of a ring, in bytes.
RING_MAX = 4 << 20
RING_MIN = 128 << 10
#: Handshakes at one time; further connections are refused.
PENDING_MAX = 128
#: Seconds between two checks for workers that the others wait for.
WATCH_S = 1.0


def _drop_line(_: str) -> None:
    """Drop a line of the log."""


class Reducer:
    """Accepts workers on ``listener`` and sums for them until it is closed."""

    def __init__(  # noqa: PLR0913 - a reducer has this many settings
        self,
        listener: socket.socket,
        token: bytes,
        *,
        index: int = 0,
        timeout: float = 60.0,
        max_memory: int = 1 << 30,
        report: Callable[[str], None] = _drop_line,
    ) -> None:
        """Listen on ``listener``, a bound TCP socket, for workers that hold ``token``.

        ``timeout`` (seconds of silence) bounds the handshakes; each group has its own timeout for
        the rest.  ``max_memory`` (bytes) bounds the rings of a group: ``(workers + 1) * ring``.
        """
        listener.listen(PENDING_MAX)
        close_in_children(listener)
        name = listener.getsockname()
        self.address: Address = (str(name[0]), int(name[1]))
        self._listener = listener
        self._token = token
        self._index = index
        self._timeout = timeout
        self._max_memory = max_memory
        self._report = report
        self._lock = threading.Lock()
        self._pending: set[socket.socket] = set()
        self._epoch: Epoch | None = None
        self._newest = -1
        self._idle_since = time.monotonic()
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._accept, self._watch)
        ]

    def start(self) -> None:
        """Start the threads that accept workers."""
        for thread in self._threads:
            thread.start()

    def wait_idle(self, idle_timeout: float) -> None:
        """Return after ``idle_timeout`` seconds without a group, or when the reducer is closed."""
        while not self._closed.wait(min(WATCH_S, idle_timeout)):
            if self._idle_s() > idle_timeout:
                return

    def _idle_s(self) -> float:
        """Return the seconds since the last group has ended; about 0 while there is a group."""
        now = time.monotonic()
        with self._lock:
            if self._epoch and not self._epoch.is_over():
                self._idle_since = now
            return now - self._idle_since

    def wait_over(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the end of the group; return whether it has ended."""
        with self._lock:
            epoch = self._epoch
        until = time.monotonic() + seconds
        while epoch and not epoch.is_over() and time.monotonic() < until:
            time.sleep(0.01)
        return not epoch or epoch.is_over()

    def close(self) -> None:
        """Send the workers an error and end."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            epoch, pending = self._epoch, list(self._pending)
        for sock in pending:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        if epoch:
            epoch.end(reducer_error("was asked to end"))
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(WATCH_S * 2)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                self._closed.wait(0.05)  # out of descriptors, or closed
                continue
            if not self._start_serving(sock):
                sock.close()

    def _start_serving(self, sock: socket.socket) -> bool:
        """Start a thread for a connection; return False if there are too many handshakes."""
        with self._lock:
            if len(self._pending) >= PENDING_MAX:
                return False
            self._pending.add(sock)
        try:
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()
        except RuntimeError:  # no more threads
            with self._lock:
                self._pending.discard(sock)
            return False
        return True

    def _watch(self) -> None:
        while not self._closed.wait(WATCH_S):
            with self._lock:
                epoch = self._epoch
            text = epoch.describe_stragglers() if epoch else None
            if epoch and text:
                self._report(text)
                epoch.say(text)

    def _serve(self, sock: socket.socket) -> None:
        """Serve one connection, from its handshake to its end."""
        try:
            joined = self._admit(sock)
        except (OSError, ValueError):
            joined = None  # a peer that cannot authenticate gets no answer
        finally:
            with self._lock:
                self._pending.discard(sock)
        if joined:
            epoch, member = joined
            epoch.receive(member)
            self._report_end(epoch)
        sock.close()

    def _admit(self, sock: socket.socket) -> tuple[Epoch, WorkerChannel] | None:
        """Authenticate a worker and add it to its epoch, or send it the error."""
        hello = authenticate_worker(sock, self._token, self._ring_for)
        link = Link(sock, hello.timeout_ms / 1000)
        try:
            epoch = self._epoch_of(hello)
            return epoch, epoch.join(hello.rank, link)
        except ReductionError as error:
            link.send(error_frame(error))
            link.finish_sending()
            link.drain(TELL_S)
            return None

    def _ring_for(self, world: int) -> int:
        """Return the bytes of a ring for ``world`` workers; 0 if the memory is not enough."""
        ring = min(RING_MAX, self._max_memory // (world + 1)) // ALIGNMENT * ALIGNMENT
        return ring if ring >= RING_MIN else 0

    def _epoch_of(self, hello: Hello) -> Epoch:
        ring = self._ring_for(hello.world)
        if not ring:
            raise reducer_error(
                f"has {self._max_memory} bytes of memory, and {hello.world} workers need at least"
                f" {RING_MIN * (hello.world + 1)}: raise --max-memory"
            )
        with self._lock:
            old, now = self._epoch, hello.epoch
            if now < self._newest:
                raise ReductionError("a newer epoch of this job has begun")
            if old and now == self._newest:
                return _check_group(old, hello)
            self._newest, self._idle_since = now, time.monotonic()
            timeout = hello.timeout_ms / 1000
            epoch = self._epoch = Epoch(now, hello.world, hello.index, ring, timeout)
        if old:
            old.end(ReductionError("a newer epoch of this job has begun"))
        return epoch

    def _report_end(self, epoch: Epoch) -> None:
        """Log the end of a group, once."""
        if not epoch.is_over() or not epoch.claim_end_report():
            return
        with self._lock:
            self._idle_since = time.monotonic()
        this = Culprit(Kind.REDUCER, self._index)
        reason = f": {name_culprit(this, epoch.error)}" if epoch.error else ""
        self._report(f"the group of {epoch.world} workers has ended{reason}")


def _check_group(epoch: Epoch, hello: Hello) -> Epoch:
    """Return ``epoch`` if the worker describes the same group.

    Raises :class:`ReductionError` if the epoch is over or the worker describes another group.  In
    the second case an incomplete epoch fails, because it would never be complete.
    """
    if epoch.is_over() and not epoch.error:
        raise ReductionError("this epoch is over")
    if (epoch.world, epoch.place) == (hello.world, hello.index):
        return epoch
    error = ReductionError(
        f"worker {hello.rank} has a group of {hello.world} workers with this reducer at index"
        f" {hello.index}, other workers have {epoch.world} workers and index {epoch.place}: give"
        " all workers the same list of reducers",
        blame=Culprit(Kind.WORKER, hello.rank),
    )
    if not epoch.is_complete():
        epoch.fail(error)
    raise error
