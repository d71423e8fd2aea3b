"""A notice that this replica is about to be stopped, in time to save a checkpoint and end.

A notice comes on two ways: SIGTERM, and a file that the launcher names.  Whoever asks for notices
here says that the program will end by itself: SIGTERM then no longer ends it.  The signal's handler
only passes a word to a thread of ours, since hardly anything may safely be done in a handler, and
callbacks run in that thread.
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

#: How often the file is looked for, in seconds.
POLL_S = 1.0
#: The reason of a SIGTERM that came without a word.
SIGNAL = "signal"
#: The reason of a file that names none.
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Notice:
    """Why this replica is about to be stopped, and until when it may go on.

    ``reason`` is one word (``maintenance``, ``cancel``, ``timeout``, ``hang``; ``signal`` for a
    SIGTERM without a word); ``until`` is in seconds since 1970, None where nobody has said.
    """

    reason: str = SIGNAL
    message: str = ""
    until: float | None = None

    @property
    def seconds_left(self) -> float | None:
        """How long until this replica is killed, in seconds, never negative; None if unknown."""
        return None if self.until is None else max(0.0, self.until - time.time())


Callback = Callable[[Notice], object]


def on_notice(callback: Callback) -> None:
    """Have a function called once, with the notice, when this replica is about to be stopped.

    It is called in a thread of its own while the program goes on, at once if the notice has already
    come.  From now on SIGTERM does not end the program: the callback, or a loop that looks at what
    it has set, must.  Who does not end is killed when the notice is over.  A handler that was
    installed for SIGTERM before is called as well.

    A handler can only be installed from the main thread; called elsewhere, this watches the file
    alone.  Processes forked later end at SIGTERM as if nobody had asked here.
    """
    _WATCH.begin()
    _WATCH.add(callback)


def notice() -> Notice | None:
    """Give the notice once it has come, else None: for loops that look after every step.

    The first call begins to watch as ``on_notice`` does: SIGTERM no longer ends the program then.
    """
    _WATCH.begin()
    return _WATCH.notice()


class _Watch:
    """The watch of one process; a forked child that asks for notices begins one of its own."""

    def __init__(self) -> None:
        self._pid = 0
        self._previous: Any = None
        self._reset()

    def begin(self) -> None:
        """Watch from now on; where that is done already, nothing happens."""
        if self._pid != os.getpid():
            self._reset()
            self._pid = os.getpid()
            threading.Thread(target=self._run, name="trainshed-notice", daemon=True).start()
        if not self._is_installed and threading.current_thread() is threading.main_thread():
            self._install()

    def add(self, callback: Callback) -> None:
        """Hand a callback to the thread, which calls it now or later."""
        self._events.put(callback)

    def notice(self) -> Notice | None:
        """Give the notice if the thread has seen one, or if there was a signal."""
        if self._notice is None and self._is_signalled:
            self._look()
        return self._notice

    def _reset(self) -> None:
        self._lock = threading.Lock()
        # its put() may interrupt itself, which is what a signal's handler needs
        self._events: queue.SimpleQueue[Callback | None] = queue.SimpleQueue()
        self._is_installed = self._is_signalled = False
        self._notice: Notice | None = None

    def _install(self) -> None:
        previous = signal.getsignal(signal.SIGTERM)
        if previous != self._on_signal:  # a forked child has its parent's handler
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
        else:  # a forked child that never asked: it ends as it would have
            signal.signal(number, self._previous or signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _run(self) -> None:
        waiting: list[Callback] = []
        while True:
            self._look()
            if self._notice is not None:
                for callback in waiting:
                    _call(callback, self._notice)
                waiting.clear()
            try:
                event = self._events.get(timeout=POLL_S if self._notice is None else None)
            except queue.Empty:
                continue
            waiting += [] if event is None else [event]

    def _look(self) -> None:
        """Make the one notice there is, from whichever way brought it first."""
        with self._lock:
            if self._notice is None:
                # asked before the file, which is there before the signal: no word is missed
                is_signalled = self._is_signalled
                self._notice = _read() or (Notice() if is_signalled else None)


_WATCH = _Watch()


def _call(callback: Callback, new_notice: Notice) -> None:
    try:
        callback(new_notice)
    except Exception:  # noqa: BLE001  # the next callback may be the one that saves
        traceback.print_exc()


def _read() -> Notice | None:
    """Read the file; that it is there is the notice, whatever it says."""
    path = os.environ.get(contract.TRAINSHED_NOTICE_FILE)
    if not path:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return _parsed(text)


def _parsed(text: str) -> Notice:
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
