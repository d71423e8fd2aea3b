"""One queue of keys for all controllers of the emulator, and the clock that it runs on.

Controllers take turns in one thread, so that none of them needs a lock.  A test either starts the
thread on the machine's clock, or moves a clock of its own and lets everything that is due happen.
"""

import heapq
import itertools
import threading
import time
from collections.abc import Callable

from k8s.emulator.statuses import Conflict, NotFound

CONFLICT_DELAY_S = 0.01


class WallClock:
    def now_s(self):
        return time.time()


class ManualClock:
    """A clock that stands still until somebody sets it."""

    def __init__(self, now_s=1_700_000_000.0):
        self._now_s = now_s

    def now_s(self):
        return self._now_s

    def set(self, now_s):
        self._now_s = max(self._now_s, now_s)


class ControllerLoop:
    """Calls ``controller.reconcile(key)`` for keys that ``controller.keys_of`` finds in changes.

    A key that waits already is not added a second time; the earlier time holds.
    """

    def __init__(self, store, clock=None):
        self.store = store
        self.clock = clock or WallClock()
        self.failures = []
        """Exceptions of controllers that are neither a conflict nor an object that has gone."""
        self.after_step = None
        """Called after each step of a manual clock: what else must follow the store."""
        self._controllers = []
        self._numbers = itertools.count()
        self._heap = []
        self._due_s = {}
        self._condition = threading.Condition()
        self._is_stopping = False
        self._thread = None
        store.subscribe(self._on_change)

    def add(self, controller):
        self._controllers.append(controller)
        return controller

    def wake(self, controller, key, delay_s=0.0):
        """Reconcile a key after a delay; any thread may call this."""
        due_s = self.clock.now_s() + delay_s
        with self._condition:
            if self._due_s.get((controller, key), float("inf")) <= due_s:
                return
            self._due_s[controller, key] = due_s
            heapq.heappush(self._heap, (due_s, next(self._numbers), controller, key))
            self._condition.notify()

    def start(self):
        self._thread = threading.Thread(target=self._run, name="emulator-controllers")
        self._thread.start()

    def stop(self):
        """End the thread; raise the first failure of a controller."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify()
        if self._thread:
            self._thread.join()
        if self.failures:
            raise self.failures[0]

    def run_until(self, until_s):
        """Set a manual clock step by step to ``until_s``, and do what falls due on the way."""
        while (due_s := self._next_due_s()) is not None and due_s <= until_s:
            self.clock.set(due_s)
            self._run_one()
            if self.failures:
                raise self.failures[0]
            if self.after_step:
                self.after_step()
        self.clock.set(until_s)

    def run_while(self, is_pending: Callable[[], object], limit_s=600.0):
        """Move a manual clock from one due key to the next as long as a condition holds."""
        deadline_s = self.clock.now_s() + limit_s
        while is_pending():
            due_s = self._next_due_s()
            assert due_s is not None, "nothing is due, and the condition still holds"
            assert due_s <= deadline_s, f"the condition still holds after {limit_s} s"
            self.run_until(due_s)

    def _on_change(self, change, obj):
        for controller in self._controllers:
            for key, delay_s in controller.keys_of(change, obj):
                self.wake(controller, key, delay_s)

    def _next_due_s(self):
        with self._condition:
            while self._heap and self._due_s.get(self._heap[0][2:]) != self._heap[0][0]:
                heapq.heappop(self._heap)
            return self._heap[0][0] if self._heap else None

    def _run(self):
        while True:
            due_s = self._next_due_s()
            with self._condition:
                if self._is_stopping:
                    return
                wait_s = None if due_s is None else due_s - self.clock.now_s()
                if wait_s is None or wait_s > 0:
                    if (self._heap[0][0] if self._heap else None) == due_s:
                        self._condition.wait(wait_s)
                    continue
            self._run_one()

    def _run_one(self):
        with self._condition:
            _, _, controller, key = heapq.heappop(self._heap)
            del self._due_s[controller, key]
        try:
            controller.reconcile(key)
        except Conflict:
            self.wake(controller, key, CONFLICT_DELAY_S)
        except NotFound:
            pass  # its deletion is a change of its own
        except Exception as error:  # noqa: BLE001 - ``stop`` raises it
            self.failures.append(error)
