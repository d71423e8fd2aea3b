"""Gets the gateway's sockets in the networks of jobs from their supervisors.

Each attempt with a network of its own has sockets that listen in it, which its supervisor keeps.
A server requests them when the attempt begins; a server that starts requests them of all living
attempts.
"""

import logging
import math
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from trainshed.engines.base import JobListeners
from trainshed.engines.capabilities import SupportsGateway
from trainshed.model.attempt import AttemptKey
from trainshed.service.gateway.job_sockets import Changes, JobSocket
from trainshed.store.base import StoreFault

#: Sockets of all attempts together; an attempt has three, or three for each replica.
SOCKETS_MAX: Final = 4096
#: Seconds until the server queries a silent attempt again: its supervisor has to start.  The
#: pauses grow.
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.1, 10.0
_PAUSES: Final = 10
_FAULT_S: Final = 2.0
#: For how long a new attempt may be missing from the list of living attempts.
_BEGIN_S: Final = 60.0
#: Seconds between look-ups of the attempts of all servers.
_LOOK_UP_S: Final = 2.0
_CLOSE_S: Final = 3.0

_log: Final = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    """An attempt whose supervisor has not answered yet."""

    since_s: float
    next_s: float


class JobNetworks:
    """Runs a thread after ``start``; one consumer calls ``take``.

    Only the consumer closes sockets, because its event loop may use them.
    """

    def __init__(
        self,
        engine: SupportsGateway,
        living: Callable[[], Iterable[AttemptKey]],
        *,
        are_begun: bool = True,
        sockets_max: int = SOCKETS_MAX,
    ) -> None:
        """``living`` returns the attempts of all servers that may run.  It may raise StoreFault.

        ``are_begun``: servers now start attempts with networks; otherwise only earlier servers did.
        """
        self._engine = engine
        self._living = living
        self._are_begun = are_begun
        self._sockets_max = sockets_max
        self._lock = threading.Lock()
        self._waiting: dict[AttemptKey, _Waiting] = {}
        self._without: set[AttemptKey] = set()
        """Attempts that have the machine's network."""
        self._held: dict[AttemptKey, JobListeners] = {}
        self._changes = Changes([], [])
        self._changed = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._woken = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._look_up_s = 0.0
        self._thread: threading.Thread | None = None
        self._is_closed = False
        engine.on_network(self.expect)

    def start(self) -> None:
        """Start the thread that queries supervisors."""
        self._thread = threading.Thread(target=self._work, name="gateway-networks", daemon=True)
        self._thread.start()

    def expect(self, key: AttemptKey) -> None:
        """Query the supervisor of an attempt that begins now.  Thread-safe."""
        now_s = time.monotonic()
        with self._lock:
            if not self._is_closed:
                self._waiting[key] = _Waiting(now_s, now_s)
                os.eventfd_write(self._woken, 1)

    def add(self, sockets: Iterable[socket.socket]) -> None:
        """Pass sockets of the machine's own network to the consumer.  Thread-safe."""
        with self._lock:
            self._changes.opened.extend(JobSocket(None, listener) for listener in sockets)
        os.eventfd_write(self._changed, 1)

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are changes."""
        return self._changed

    def take(self) -> Changes:
        """Return what has changed."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._changed)
        with self._lock:
            changes, self._changes = self._changes, Changes([], [])
        return changes

    def close(self) -> None:
        """End the thread and close untaken sockets.  Call it after the consumer has ended."""
        with self._lock:
            self._is_closed = True
            os.eventfd_write(self._woken, 1)
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
            if self._thread.is_alive():
                return
        for listeners in self._held.values():
            listeners.lifeline.close()
        changes = self.take()
        for listener in (*changes.ended, *(opened.socket for opened in changes.opened)):
            listener.close()
        os.close(self._changed)
        os.close(self._woken)

    def _work(self) -> None:
        while not self._is_closed:
            try:
                self._look_up()
                self._ask_waiting()
                self._wait()
            except Exception:  # noqa: BLE001  # logged; the thread continues
                _log.exception("getting the gateway's sockets from jobs failed; retrying in 2 s")
                time.sleep(_FAULT_S)

    def _look_up(self) -> None:
        """Find attempts that another or an earlier server started, and those that ended."""
        now_s = time.monotonic()
        if now_s < self._look_up_s:
            return
        self._look_up_s = now_s + _LOOK_UP_S
        try:
            living = set(self._living())
        except StoreFault:
            return
        self._without &= living
        served = self._without | self._held.keys()
        with self._lock:
            for key, waiting in list(self._waiting.items()):
                if key not in living and waiting.since_s + _BEGIN_S < now_s:
                    del self._waiting[key]
            for key in living - served - self._waiting.keys():
                self._waiting[key] = _Waiting(now_s, now_s)
            if not self._waiting and not self._are_begun:
                self._look_up_s = math.inf

    def _ask_waiting(self) -> None:
        with self._lock:
            waiting = dict(self._waiting)
        for key, (since_s, next_s) in waiting.items():
            if self._is_closed or next_s > time.monotonic():
                continue
            listeners = self._engine.ask_listeners(key) if key not in self._held else None
            if listeners is not None:
                self._hold(key, listeners)
            waited_s = time.monotonic() - since_s
            pause_s = min(max(_PAUSE_S_MIN, waited_s / _PAUSES), _PAUSE_S_MAX)
            with self._lock:
                if key in self._held or key in self._without:
                    self._waiting.pop(key, None)
                else:
                    self._waiting[key] = _Waiting(since_s, since_s + waited_s + pause_s)

    def _hold(self, key: AttemptKey, listeners: JobListeners) -> None:
        count = sum(len(held.sockets) for held in self._held.values())
        if not listeners.sockets or count + len(listeners.sockets) > self._sockets_max:
            if listeners.sockets:
                _log.warning(
                    "cannot serve attempt %s in its network: its %d sockets would be more than %d",
                    key, len(listeners.sockets), self._sockets_max,
                )  # fmt: skip
            self._without.add(key)
            for unused in (listeners.lifeline, *listeners.sockets):
                unused.close()
            return
        self._held[key] = listeners
        with self._lock:
            self._changes.opened.extend(JobSocket(key, listener) for listener in listeners.sockets)
        os.eventfd_write(self._changed, 1)

    def _wait(self) -> None:
        """Wait until an attempt begins or ends, or a pause is over."""
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        ends = {}
        for key, held in self._held.items():
            poll.register(held.lifeline, select.POLLIN)
            ends[held.lifeline.fileno()] = key
        with self._lock:
            times_s = [self._look_up_s, *(attempt.next_s for attempt in self._waiting.values())]
        wait_s = max(0.0, min(times_s) - time.monotonic())
        ready = poll.poll(None if math.isinf(wait_s) else wait_s * 1000)
        for number, _ in ready:
            if number == self._woken:
                os.eventfd_read(self._woken)
            else:
                self._end(ends[number])

    def _end(self, key: AttemptKey) -> None:
        ended = self._held.pop(key)
        ended.lifeline.close()
        self._without.add(key)
        with self._lock:
            opened = [job_socket for job_socket in self._changes.opened if job_socket.key != key]
            is_taken = len(opened) == len(self._changes.opened)
            self._changes.opened[:] = opened
            if is_taken:
                self._changes.ended.extend(ended.sockets)
        if not is_taken:
            for listener in ended.sockets:
                listener.close()
        os.eventfd_write(self._changed, 1)
