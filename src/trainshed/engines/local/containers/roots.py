"""Whose a process in a container is: by the first process of each container, as its runtime says.

Docker's and podman's containers are no children of their supervisor.  The runtime is asked when a
process is not known, seldom enough that nobody keeps it busy by calling us.
"""

import subprocess
import threading
import time
from collections.abc import Mapping
from typing import Final

from trainshed.engines.container_runtime import CHILDREN_OF_CLIENT, Runtime
from trainshed.engines.local.containers.detect import first_processes
from trainshed.engines.processes.identity import Identity, find_identity, lives
from trainshed.model.attempt import AttemptKey

#: The runtime is asked no sooner again: what starts is known by then, or a moment later.
_ASKED_EVERY_S: Final = 0.5


class ContainerRoots:
    """The first processes of the containers of attempts, by pid."""

    def __init__(self, runtime: Runtime | None, environ: Mapping[str, str]) -> None:
        """Nothing is known yet; ``environ`` is what the runtime's command gets."""
        is_asked = runtime is not None and runtime.name not in CHILDREN_OF_CLIENT
        self._runtime = runtime if is_asked else None
        self._environ = environ
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._fault = ""
        self._roots: dict[Identity, AttemptKey] = {}

    def read_cached(self) -> dict[int, AttemptKey]:
        """Those that live of what the runtime said last."""
        return {root.pid: key for root, key in self._roots.items() if lives(root)}

    def refresh(self) -> dict[int, AttemptKey]:
        """Those that live now.  Blocks until the runtime has answered, for seconds at most.

        Raises OSError where it has not answered: a caller that is not found may be a job's then,
        and is to try again.
        """
        with self._lock:
            if self._runtime and time.monotonic() - self._asked_at > _ASKED_EVERY_S:
                self._fault = self._ask(self._runtime)
                self._asked_at = time.monotonic()
            if self._fault:
                raise OSError(self._fault)
        return self.read_cached()

    def _ask(self, runtime: Runtime) -> str:
        """Learn them; why the runtime does not say, or nothing."""
        try:
            marks = first_processes(runtime, self._environ)
        except (OSError, subprocess.SubprocessError) as error:
            return f"cannot list the containers of {runtime.name}: {error}"
        self._roots = {
            root: AttemptKey(*map(int, mark.split("/")))
            for pid, mark in marks.items()
            if (root := find_identity(pid)) is not None
        }
        return ""
