"""Notifies the program that its replica will be stopped, in time to save a checkpoint and end.

A notice arrives as SIGTERM or as a file that the launcher names.  A program that asks for notices
must end by itself: SIGTERM no longer ends it.  Callbacks run in a thread of this library, which the
signal handler only wakes, because few operations are safe in a handler.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from trainshed_trainer import contract

#: Seconds between two looks for the file.
POLL_S = 1.0
#: The reason of a SIGTERM without a notice file.
SIGNAL = "signal"
#: The reason if the file names none.
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Notice:
    """The reason why this replica will be stopped, and the time at which it will be killed.

    ``reason`` is one word (``maintenance``, ``cancel``, ``timeout``, ``hang``, ``pause``;
    ``signal`` for a SIGTERM without a notice file).  ``until`` is in seconds since 1970, None if
    unknown.
    """

    reason: str = SIGNAL
    message: str = ""
    until: float | None = None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until this replica is killed, never negative; None if unknown."""
        return None if self.until is None else max(0.0, self.until - time.time())


Callback = Callable[[Notice], object]


def on_notice(callback: Callback) -> None:
    """Call a function once, with the notice, when this replica will be stopped.

    The callback runs in a thread of its own, at once if the notice has already arrived.  After this
    call SIGTERM does not end the program: the callback must end it, or the program must check a
    value that the callback sets.  A program that does not end is killed when the notice period is
    over.  A SIGTERM handler that was installed before is called as well.

    Python installs handlers only from the main thread; called from another thread, this watches
    only the file.  SIGTERM still ends processes that are forked later.
    """
    _WATCH.begin()
    _WATCH.add(callback)


def notice() -> Notice | None:
    """Return the notice, or None if none has arrived; for training loops that check every step.

    The first call starts to watch as ``on_notice`` does: SIGTERM no longer ends the program.
    """
    _WATCH.begin()
    return _WATCH.notice()


class _Watch:
    """Watches for the notice of one process; a forked child that calls it starts a new watch."""

    def __init__(self) -> None:
        self._pid = 0
        self._previous: Any = None
        self._reset()

    def begin(self) -> None:
        """Start to watch, unless this process already does."""
        if self._pid != os.getpid():
            self._reset()
            self._pid = os.getpid()
            threading.Thread(target=self._run, name="trainshed-notice", daemon=True).start()
        if not self._is_installed and threading.current_thread() is threading.main_thread():
            self._install_handler()

    def add(self, callback: Callback) -> None:
        """Pass a callback to the thread, which calls it when the notice arrives."""
        self._events.put(callback)

    def notice(self) -> Notice | None:
        """Return the notice if the thread has read one or a signal has arrived."""
        if self._notice is None and self._is_signalled:
            self._check_for_notice()
        return self._notice

    def _reset(self) -> None:
        self._lock = threading.Lock()
        # put() of a SimpleQueue is reentrant, which a signal handler needs
        self._events: queue.SimpleQueue[Callback | None] = queue.SimpleQueue()
        self._is_installed = self._is_signalled = False
        self._notice: Notice | None = None

    def _install_handler(self) -> None:
        previous = signal.getsignal(signal.SIGTERM)
        if previous != self._on_signal:  # a forked child inherits its parent's handler
            self._previous = previous
        signal.signal(signal.SIGTERM, self._on_signal)
        self._is_installed = True

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._pid == os.getpid():
            self._is_signalled = True
            self._events.put(None)
            if callable(self._previous):
                self._previous(number, frame)
        elif callable(self._previous):
            self._previous(number, frame)
        else:  # a forked child that does not watch: the signal ends it as usual
            signal.signal(number, self._previous or signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _run(self) -> None:
        waiting: list[Callback] = []
        while True:
            self._check_for_notice()
            if self._notice is not None:
                for callback in waiting:
                    _call(callback, self._notice)
                waiting.clear()
            try:
                event = self._events.get(timeout=POLL_S if self._notice is None else None)
            except queue.Empty:
                continue
            waiting += [] if event is None else [event]

    def _check_for_notice(self) -> None:
        """Create the notice from the file or from the signal, once."""
        with self._lock:
            if self._notice is None:
                # the file exists before the signal: reading the flag first never misses the file
                is_signalled = self._is_signalled
                self._notice = _read_notice_file() or (Notice() if is_signalled else None)


_WATCH = _Watch()


def _call(callback: Callback, new_notice: Notice) -> None:
    try:
        callback(new_notice)
    except Exception:  # noqa: BLE001  # the other callbacks must run, one may save a checkpoint
        traceback.print_exc()


def _read_notice_file() -> Notice | None:
    """Read the notice; a file with any content counts as a notice."""
    path = os.environ.get(contract.TRAINSHED_NOTICE_FILE)
    if not path:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return _parse_notice(text)


def _parse_notice(text: str) -> Notice:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        return Notice(UNKNOWN, text.strip())
    until = document.get("until")
    return Notice(
        reason=str(document.get("reason") or UNKNOWN),
        message=str(document.get("message") or ""),
        until=float(until) if isinstance(until, (int, float)) else None,
    )
