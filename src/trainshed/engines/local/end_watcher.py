"""Watches the supervisors that are children of the server, so that it notices an end at once."""

import os
import select
import threading
from collections.abc import Callable, Collection
from typing import Final

from trainshed.model.attempt import AttemptKey

#: Each watched supervisor costs a file descriptor.  The server notices the end of a
#: supervisor that is not watched when it next observes its attempts.
_WATCHED_MAX: Final = 256
_CLOSE_S_MAX: Final = 2.0


class EndWatcher:
    """Calls the server when a supervisor has ended; the thread starts at the first ``listen``."""

    def __init__(self) -> None:
        """Watch nothing before ``listen``."""
        self._callback: Callable[[Collection[AttemptKey]], None] | None = None
        self._keys: dict[int, AttemptKey] = {}
        self._thread: threading.Thread | None = None

    def listen(self, callback: Callable[[Collection[AttemptKey]], None]) -> None:
        """Replace the callback; the first call starts the thread."""
        self._callback = callback
        if self._thread is None:
            self._poll = select.epoll()
            self._stop = os.eventfd(0)
            self._poll.register(self._stop, select.EPOLLIN)
            self._thread = threading.Thread(target=self._work, name="engine-ends", daemon=True)
            self._thread.start()

    def watch(self, key: AttemptKey, pid: int) -> None:
        """Call the callback with the key when the child ``pid`` of this process ends."""
        if self._thread is None or len(self._keys) >= _WATCHED_MAX:
            return
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:  # the child has ended and was waited for
            if self._callback is not None:
                self._callback([key])
        except OSError:  # there are no descriptors left
            pass
        else:
            self._keys[descriptor] = key
            self._poll.register(descriptor, select.EPOLLIN)

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            os.eventfd_write(self._stop, 1)
            self._thread.join(_CLOSE_S_MAX)
            self._thread = None

    def _work(self) -> None:
        while self._stop not in (ended := [descriptor for descriptor, _ in self._poll.poll()]):
            keys = [self._keys.pop(descriptor) for descriptor in ended]
            for descriptor in ended:
                self._poll.unregister(descriptor)  # a child that was forked meanwhile keeps it open
                os.close(descriptor)
            if self._callback is not None:
                self._callback(keys)
        for descriptor in (*self._keys, self._stop):
            os.close(descriptor)
        self._poll.close()
        self._keys.clear()
