"""Waits for descriptors and timers in one thread, and reaps children; makes registered calls."""

import heapq
import os
import selectors
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

_WAIT_S_MAX: Final = 3600.0


class Timer:
    """A call that the loop makes at a later time, unless it is cancelled."""

    __slots__ = ("_call", "at_s")

    def __init__(self, at_s: float, call: Callable[[], object]) -> None:
        """``at_s`` is the time of the call, by ``Loop.now``, in seconds."""
        self.at_s = at_s
        self._call: Callable[[], object] | None = call

    def __lt__(self, other: "Timer") -> bool:
        """Order timers by time."""
        return self.at_s < other.at_s

    def cancel(self) -> None:
        """Cancel the call; no effect after the call."""
        self._call = None

    def ring(self) -> None:
        """Make the call, once."""
        call, self._call = self._call, None
        if call is not None:
            call()


class Loop:
    """Waits for events and makes the registered calls; each ``turn`` is one wait."""

    def __init__(self) -> None:
        """Start without descriptors and timers."""
        self._selector = selectors.DefaultSelector()
        self._timers: list[Timer] = []

    def now(self) -> float:
        """Return the time of the monotonic clock, in seconds."""
        return time.monotonic()

    def on_readable(self, source: Any, call: Callable[[], object]) -> None:
        """Call ``call`` whenever ``source`` is readable.

        ``source`` is a descriptor, or an object with the method ``fileno``.
        """
        self._selector.register(source, selectors.EVENT_READ, call)

    def watch(self, source: Any, call: Callable[[], object], *, reads: bool, writes: bool) -> None:
        """Call ``call`` whenever ``source`` is readable (``reads``) or writable (``writes``).

        This replaces an earlier registration of ``source``; with neither flag, remove that one.
        """
        events = selectors.EVENT_READ * reads | selectors.EVENT_WRITE * writes
        is_registered = source in self._selector.get_map()
        if not events:
            if is_registered:
                self._selector.unregister(source)
        elif is_registered:
            self._selector.modify(source, events, call)
        else:
            self._selector.register(source, events, call)

    def forget(self, source: Any) -> None:
        """Stop waiting for a descriptor; call this before closing it."""
        self._selector.unregister(source)

    def at(self, at_s: float, call: Callable[[], object]) -> Timer:
        """Call ``call`` at the time ``at_s``, by the clock of ``now``."""
        timer = Timer(at_s, call)
        heapq.heappush(self._timers, timer)
        return timer

    def after(self, delay_s: float, call: Callable[[], object]) -> Timer:
        """Call ``call`` after ``delay_s`` seconds."""
        return self.at(self.now() + delay_s, call)

    def turn(self) -> None:
        """Wait until a descriptor is ready or a timer is due, and make the calls."""
        for key, _ in self._selector.select(self._wait_s()):
            if self._is_awaited(key):
                key.data()
        while self._timers and self._timers[0].at_s <= self.now():
            heapq.heappop(self._timers).ring()

    def close(self) -> None:
        """Stop waiting for all descriptors and timers."""
        self._selector.close()

    def _is_awaited(self, key: selectors.SelectorKey) -> bool:
        """Return False if an earlier call of this turn has unregistered the descriptor.

        By then, another open file may have the same descriptor number.
        """
        try:
            return self._selector.get_key(key.fileobj) is key
        except (KeyError, ValueError):  # ValueError: a closed file object has no number
            return False

    def _wait_s(self) -> float:
        if not self._timers:
            return _WAIT_S_MAX
        return max(0.0, min(_WAIT_S_MAX, self._timers[0].at_s - self.now()))


class Death(NamedTuple):
    """The status of an ended child, its CPU time, and its largest resident memory."""

    exit_code: int | None
    signal: int | None
    cpu_s: float
    max_rss_kib: int

    @property
    def status(self) -> int:
        """The exit code, or the negated signal, as ``os.waitstatus_to_exitcode`` returns it."""
        return -self.signal if self.signal is not None else self.exit_code or 0


class Children:
    """Reaps the ended children of this process and makes the registered calls."""

    def __init__(self) -> None:
        self._owners: dict[int, Callable[[Death], object]] = {}
        self.any_left = False
        """Whether the last ``reap`` saw a living child, adopted orphans included."""

    def expect(self, pid: int, call: Callable[[Death], object]) -> None:
        """Register ``call``, which ``reap`` makes after the end of this child."""
        self._owners[pid] = call
        self.any_left = True

    def reap(self) -> None:
        """Reap every child that has ended, and make the calls registered for these children."""
        self.any_left = True
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self.any_left = False
                return
            if pid == 0:
                return
            call = self._owners.pop(pid, None)
            if call is not None:
                code = os.waitstatus_to_exitcode(status)
                call(
                    Death(
                        exit_code=code if code >= 0 else None,
                        signal=-code if code < 0 else None,
                        cpu_s=used.ru_utime + used.ru_stime,
                        max_rss_kib=used.ru_maxrss,
                    )
                )
