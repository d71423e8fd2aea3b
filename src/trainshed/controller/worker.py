"""A thread that repeats one step, also after failures; and the controller's intervals."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trainshed.lifecycle.deadlines import RUNNING_S_DEFAULT
from trainshed.store.base import StoreFault
from trainshed.store.front import FRONT_MAX

_LOG = logging.getLogger(__name__)

#: Ticks that a worker waits after a failure.
TICKS_AFTER_FAILURE: Final = 4
#: The longest such wait in seconds: one failed renewal must not let a lease expire.
AFTER_FAILURE_S_MAX: Final = 1.0
#: Seconds between log lines while the store is unavailable.
LOG_EVERY_S: Final = 10.0
REST_S_MAX: Final = 0.5
#: Seconds between steps of a thread that every submission wakes; the first step is immediate.
REST_S_MIN: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The controller's settings; tests make them small."""

    tick_s: float = 0.25
    """Seconds that a thread waits when it is not woken."""
    observe_s: float = 0.1
    """Seconds after which an idle server observes a change at the engine."""
    lease_ttl_s: float = 3.5
    """Seconds after which a server that does not renew counts as dead.  Another server takes over
    its jobs within 5 s: this time, one renewal interval, and the takeover."""
    fleet_s: float = 5.0
    """Seconds between queries of the engine's nodes."""
    deadlines_s: float = 1.0
    """Seconds by which a job may exceed its limit of waiting or running time."""
    maintain_s: float = 0.5
    """Seconds until jobs on a node that goes into maintenance get notice."""
    studies_s: float = 1.0
    """Seconds until a trial's report is read."""
    slow_s: float = 5.0
    """Seconds between scheduling passes without a change, because reservations end with time."""
    grace_s: float = 10.0
    """Seconds between a replica's SIGTERM and its SIGKILL."""
    running_s_default: float | None = RUNNING_S_DEFAULT
    """The limit of running time, in seconds, of a job that sets none; None: no limit."""
    window: int = FRONT_MAX
    """The most waiting jobs that one scheduling pass considers."""
    batch: int = 100
    """The most steps in one transaction, because submissions wait for SQLite's single writer."""


class Worker:
    """Runs a step when it is woken, and at least every ``tick_s``.

    ``rest`` limits the thread's use of the machine.  After a step that took d seconds, the
    thread waits ``rest * d`` seconds, even if woken: at least REST_S_MIN, at most REST_S_MAX.
    ``end_s`` is the most that ``join`` waits, in seconds; None: until the step has ended.
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
        """Make the thread; ``start`` starts it.  For the parameters see the class."""
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
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the thread runs and ``end`` was not called."""
        return self._thread.is_alive() and not self._ending.is_set()

    def wake(self) -> None:
        """Run the step soon; cheap, callable from any thread."""
        self._woken.set()

    def end(self) -> None:
        """Run no further step; returns at once."""
        self._ending.set()
        self._woken.set()

    def join(self) -> None:
        """Wait for the current step, at most ``end_s``."""
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
        except StoreFault as fault:  # transient; logged again at an interval while it lasts
            if time.monotonic() - self._logged_at >= LOG_EVERY_S:
                self._logged_at = time.monotonic()
                _LOG.warning("the controller's step %r failed: %s; retrying", self.name, fault)
            return False
        except Exception:  # noqa: BLE001 - logged; the thread continues
            _LOG.exception("the controller's step %r failed; retrying", self.name)
            return False
        return True
