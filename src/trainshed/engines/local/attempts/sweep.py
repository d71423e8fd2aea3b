"""Ends the leftover processes of killed supervisors, in a thread, because it may take seconds.

An attempt counts as clean only after a search found no process of it.
"""

import logging
import queue
import subprocess
import threading
from collections.abc import Mapping
from typing import Final

from trainshed.engines.container_runtime import Runtime
from trainshed.engines.local.attempts import plan_file
from trainshed.engines.local.containers.detect import end_containers
from trainshed.engines.processes import identity
from trainshed.engines.supervise.leftovers import end_leftovers
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.records import Began
from trainshed.model.attempt import AttemptKey

_LOG = logging.getLogger(__name__)

#: Seconds that ``close`` waits for the thread, which is a daemon.
_CLOSE_S_MAX: Final = 2.0

_Task = tuple[AttemptKey, Began, AttemptFolder]


class Sweeper:
    """One thread that ends the leftovers of attempts; it starts with the first attempt."""

    def __init__(self, runtime: Runtime | None, env: Mapping[str, str]) -> None:
        """``runtime`` lists and removes containers; ``env`` is the environment of its commands."""
        self._runtime = runtime
        self._env = env
        self._lock = threading.Condition()
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._under_way: set[AttemptKey] = set()
        self._clean: set[AttemptKey] = set()
        self._thread: threading.Thread | None = None

    def ensure_clean(
        self, key: AttemptKey, began: Began | None, folder: AttemptFolder, wait_s: float = 0.0
    ) -> bool:
        """End the processes of an attempt without a supervisor; return whether none runs.

        False: the thread has not finished, or processes remain; the caller calls again later.
        ``wait_s``: how long this call may wait, in seconds.
        """
        if began is None or began.boot_id != identity.boot_id():
            return True
        with self._lock:
            if key not in self._clean and key not in self._under_way:
                self._under_way.add(key)
                self._tasks.put((key, began, folder))
                self._ensure_thread()
            self._lock.wait_for(lambda: key not in self._under_way, wait_s)
            return key in self._clean

    def forget(self, key: AttemptKey) -> None:
        """Drop the result for an attempt."""
        with self._lock:
            self._clean.discard(key)

    def close(self) -> None:
        """End the thread after its current sweep; wait for it at most two seconds."""
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join(_CLOSE_S_MAX)

    def _ensure_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="sweeper", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            key, began, folder = task
            try:
                is_clean = self._sweep(key, began, folder)
            except Exception:  # noqa: BLE001 - the next attempt must be swept even so
                _LOG.warning("cannot end the leftover processes of attempt %s", key, exc_info=True)
                is_clean = False
            with self._lock:
                self._under_way.discard(key)
                if is_clean:
                    self._clean.add(key)
                self._lock.notify_all()

    def _sweep(self, key: AttemptKey, began: Began, folder: AttemptFolder) -> bool:
        remaining: list[object] = [*end_leftovers(began.places, str(key))]
        runtime = self._runtime_of(folder)
        if runtime is not None:
            try:
                remaining += end_containers(runtime, str(key), self._env)
            except (OSError, subprocess.SubprocessError) as error:
                _LOG.warning("cannot list the containers of attempt %s: %s", key, error)
                return False
        return not remaining

    def _runtime_of(self, folder: AttemptFolder) -> Runtime | None:
        """Return the runtime of the attempt's containers, which may differ from the server's.

        This reads the launch plan, since the supervisor's spec may have only outlines of its
        replicas.  None: no replica is a container.
        """
        try:
            preparation = plan_file.read(folder.plan)
        except (OSError, ValueError):
            return self._runtime
        if all(replica.container is None for replica in preparation.plan.replicas):
            return None
        current, planned = self._runtime, preparation.runtime
        is_same = current is not None and planned is not None and current.name == planned.name
        return current if planned is None or is_same else planned
