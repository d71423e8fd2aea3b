"""A thread that takes one step again and again, and outlives every failure of the step."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from trainshed.store.base import StoreFault

_LOG = logging.getLogger(__name__)

#: After a failure a worker waits this many ticks: asking faster does not fix what is broken.
TICKS_AFTER_FAILURE: Final = 4
#: But never longer than this: a lease that cannot be renewed once must not end because of it.
AFTER_FAILURE_S_MAX: Final = 1.0
#: How often it is logged that the store cannot be used, while that lasts.
LOG_EVERY_S: Final = 10.0
REST_S_MAX: Final = 0.5
#: Woken at every submit, a thread takes fewer and larger steps; the first one is taken at once.
REST_S_MIN: Final = 0.05


class Worker:
    """Takes a step when it is woken, and at least every ``tick_s``.

    ``rest`` bounds what the thread may take of the machine: after a step that took d seconds it
    rests ``rest * d`` seconds, whoever wakes it.
    """

    def __init__(
        self, name: str, step: Callable[[], object], *, tick_s: float, rest: float = 0.0
    ) -> None:
        """The thread starts with ``start``."""
        self._name = name
        self._step = step
        self._tick_s = tick_s
        self._rest = rest
        self._woken = threading.Event()
        self._ending = threading.Event()
        self._logged_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name=f"controller-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Take a step soon; cheap, for any thread."""
        self._woken.set()

    def end(self) -> None:
        """Take no further step; returns at once."""
        self._ending.set()
        self._woken.set()

    @property
    def is_ending(self) -> bool:
        """Whether the step under way should come to its end soon."""
        return self._ending.is_set()

    def join(self) -> None:
        """Wait for the step under way."""
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            self._woken.clear()
            began = time.monotonic()
            if self._attempt():
                took = time.monotonic() - began
                self._ending.wait(min(REST_S_MAX, max(REST_S_MIN, self._rest * took)))
                self._woken.wait(self._tick_s)
            else:
                self._ending.wait(min(AFTER_FAILURE_S_MAX, TICKS_AFTER_FAILURE * self._tick_s))

    def _attempt(self) -> bool:
        try:
            self._step()
        except StoreFault as fault:  # it comes and goes, and is logged again while it lasts
            if time.monotonic() - self._logged_at >= LOG_EVERY_S:
                self._logged_at = time.monotonic()
                _LOG.warning("the controller's step %r waits: %s", self._name, fault)
            return False
        except Exception:  # noqa: BLE001 - logged; the thread outlives it
            _LOG.exception(
                "the controller's step %r has failed and will be taken again", self._name
            )
            return False
        return True
