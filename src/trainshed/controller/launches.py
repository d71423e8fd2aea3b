"""Launches that are performed beside the performer's own thread, so many at once for each engine.

A launch into the queue of a cluster is a command over the network: others go on meanwhile, and each
is confirmed alone.  Threads are not kept: such a launch takes longer than to begin a thread.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable

from trainshed.model.attempt import AttemptKey
from trainshed.store.base import StoreFault

_LOG = logging.getLogger(__name__)


class Launches:
    """Which launches are under way."""

    def __init__(self, at_once: Callable[[str], int], ended: Callable[[], None]) -> None:
        """``at_once`` of an engine; ``ended`` is called from any thread when there is room."""
        self._at_once = at_once
        self._ended = ended
        self._lock = threading.Lock()
        self._counts = Counter[str]()
        self._threads: dict[AttemptKey, threading.Thread] = {}

    def are_of(self, engine: str) -> bool:
        """Whether launches of this engine are performed here."""
        return self._at_once(engine) > 1

    def begin(self, engine: str, key: AttemptKey, launch: Callable[[], object]) -> None:
        """Launch unless that is under way, or as many others are as may be: then later."""
        with self._lock:
            if key in self._threads or self._counts[engine] >= self._at_once(engine):
                return
            self._counts[engine] += 1
            name = f"launch-{key}"
            thread = threading.Thread(
                target=self._run, args=(engine, key, launch), name=name, daemon=True
            )
            self._threads[key] = thread
        thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait for those under way, each so long at most."""
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
            thread.join(timeout_s)

    def _run(self, engine: str, key: AttemptKey, launch: Callable[[], object]) -> None:
        try:
            launch()
        except StoreFault as fault:
            _LOG.warning("the launch of %s is not confirmed and will be repeated: %s", key, fault)
        except Exception:  # noqa: BLE001 - logged; its command is still there
            _LOG.exception("the launch of %s has failed and will be repeated", key)
        finally:
            with self._lock:
                self._counts[engine] -= 1
                del self._threads[key]
            self._ended()
