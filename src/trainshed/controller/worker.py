"""A thread that takes one step again and again, however often the step fails, and the pace."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trainshed.store.base import StoreFault
from trainshed.store.front import FRONT_MAX

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The controller's settings; tests make them small."""

    tick_s: float = 0.25
    """How long a thread waits when nobody wakes it."""
    observe_s: float = 0.1
    """How long a change at the engine may stay unseen on an idle server."""
    lease_ttl_s: float = 3.5
    """How long a server that says nothing is taken for alive.  What a dead one had goes on within
    5 s: this, a renewal's time until another looks, and what taking over costs."""
    fleet_s: float = 5.0
    """How often the engine is asked for its nodes."""
    deadlines_s: float = 1.0
    """How much longer than it may a job may wait or run."""
    maintain_s: float = 0.5
    """How long jobs on a node that goes into maintenance may wait for their notice."""
    studies_s: float = 1.0
    """How long what a trial has reported may stay unread."""
    slow_s: float = 5.0
    """How often waiting jobs are looked at though nothing has changed: time alone ends
    reservations."""
    grace_s: float = 10.0
    """What replicas get between being asked to end and being killed."""
    window: int = FRONT_MAX
    """How many waiting jobs one pass of the scheduler looks at; reads explain those behind."""
    batch: int = 100
    """Steps a transaction: the one writer of SQLite is shared with those who submit."""


class Worker:
    """Takes a step when it is woken, and at least every ``tick_s``.

    ``rest`` bounds what the thread may take of the machine: after a step that took d seconds it
    rests ``rest * d`` seconds, whoever wakes it.  ``end_s`` bounds how long its end is waited for,
    in seconds; None: as long as the step takes.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], object],
        *,
        tick_s: float,
        rest: float = 0.0,
        end_s: float | None = None,
    ) -> None:
        """The thread starts with ``start``."""
        self.name = name
        self._step = step
        self._tick_s = tick_s
        self._rest = rest
        self._end_s = end_s
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

    def join(self) -> None:
        """Wait for the step under way, ``end_s`` at most."""
        if self._thread.ident is not None:
            self._thread.join(self._end_s)

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
                _LOG.warning("the controller's step %r waits: %s", self.name, fault)
            return False
        except Exception:  # noqa: BLE001 - logged; the thread outlives it
            _LOG.exception("the controller's step %r has failed and will be taken again", self.name)
            return False
        return True
