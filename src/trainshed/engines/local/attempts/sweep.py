"""Ends what killed supervisors have left, beside the calls of the controller: it may take a while.

Nothing of an attempt is claimed to be gone before it was looked for in vain.
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

#: How long closing waits; the thread is a daemon.
_CLOSE_S_MAX: Final = 2.0

_Task = tuple[AttemptKey, Began, AttemptFolder]


class Sweeper:
    """One thread that sweeps attempt after attempt; it is started when there is one."""

    def __init__(self, runtime: Runtime | None, env: Mapping[str, str]) -> None:
        """``runtime`` is asked for containers; ``env`` is what its command gets."""
        self._runtime = runtime
        self._env = env
        self._lock = threading.Condition()
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._under_way: set[AttemptKey] = set()
        self._clean: set[AttemptKey] = set()
        self._thread: threading.Thread | None = None

    def is_clean(
        self, key: AttemptKey, began: Began | None, folder: AttemptFolder, wait_s: float = 0.0
    ) -> bool:
        """Whether nothing of an attempt without a supervisor lives; False: not yet, or unknown.

        To be asked again; ``wait_s`` is how long the answer may be waited for.
        """
        if began is None or began.boot_id != identity.boot_id():
            return True
        with self._lock:
            if key not in self._clean and key not in self._under_way:
                self._under_way.add(key)
                self._tasks.put((key, began, folder))
                self._have_thread()
            self._lock.wait_for(lambda: key not in self._under_way, wait_s)
            return key in self._clean

    def forget(self, key: AttemptKey) -> None:
        """Nobody asks for this attempt any more."""
        with self._lock:
            self._clean.discard(key)

    def close(self) -> None:
        """End the thread, or leave it to end after what it is at."""
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join(_CLOSE_S_MAX)

    def _have_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="sweeper", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            key, began, folder = task
            try:
                is_clean = self._sweep(key, began, folder)
            except Exception:  # noqa: BLE001 - the next one must be swept all the same
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
        """What ran the attempt's containers, if it had any; also one that the server has no more.

        The launch plan tells: where there is a preparer, the supervisor's part has only outlines.
        """
        try:
            begun = plan_file.read(folder.plan)
        except (OSError, ValueError):
            return self._runtime
        if all(replica.container is None for replica in begun.plan.replicas):
            return None
        now, then = self._runtime, begun.runtime
        return now if then is None or (now is not None and now.name == then.name) else then
