"""Performs launches in threads of their own, with a limit for each engine.

A launch into the queue of a cluster is a command over the network, so several run at once; the
performer confirms them together.  A thread ends when there is nothing more to launch.
"""

import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable

from trainshed.model.attempt import AttemptKey
from trainshed.store.base import StoreFault

_LOG = logging.getLogger(__name__)


_Launch = Callable[[], object]


class Launches:
    """Runs launches in threads; keeps the launches that wait for a thread."""

    def __init__(self, at_once: Callable[[str], int], ended: Callable[[], None]) -> None:
        """``at_once`` gives an engine's limit; any thread calls ``ended`` after a launch."""
        self._at_once = at_once
        self._ended = ended
        self._lock = threading.Lock()
        self._counts = Counter[str]()
        self._under_way: set[AttemptKey] = set()
        self._next: defaultdict[str, dict[AttemptKey, _Launch]] = defaultdict(dict)
        self._threads: set[threading.Thread] = set()

    def are_of(self, engine: str) -> bool:
        """Return whether this class performs the launches of an engine."""
        return self._at_once(engine) > 1

    def forget_next(self) -> None:
        """Forget launches that have not begun; the caller passes them to ``begin`` again."""
        with self._lock:
            self._next.clear()

    def begin(self, engine: str, key: AttemptKey, launch: _Launch) -> None:
        """Launch as soon as a thread is free, in call order; ignore a launch under way."""
        at_once = self._at_once(engine)
        with self._lock:
            if key in self._under_way:
                return
            self._next[engine][key] = launch
            if self._counts[engine] >= at_once:
                return
            self._counts[engine] += 1
            thread = threading.Thread(
                target=self._run, args=(engine,), name=f"launch-{engine}", daemon=True
            )
            self._threads.add(thread)
        thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait up to ``timeout_s`` for launches under way; begin no other."""
        self.forget_next()
        until = time.monotonic() + timeout_s
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self, engine: str) -> None:
        while launch := self._take(engine):
            self._perform(*launch)
            self._ended()

    def _take(self, engine: str) -> tuple[AttemptKey, _Launch] | None:
        """Return the next launch of an engine; None ends the thread."""
        with self._lock:
            for key in tuple(self._next[engine]):
                launch = self._next[engine].pop(key)
                if key not in self._under_way:
                    self._under_way.add(key)
                    return key, launch
            self._counts[engine] -= 1
            self._threads.discard(threading.current_thread())
            return None

    def _perform(self, key: AttemptKey, launch: _Launch) -> None:
        try:
            launch()
        except StoreFault as fault:
            _LOG.warning("cannot confirm the launch of %s: %s; retrying", key, fault)
        except Exception:  # noqa: BLE001 - logged; its command is still stored
            _LOG.exception("launching %s failed; retrying", key)
        finally:
            with self._lock:
                self._under_way.discard(key)
