"""Lists the first process of each container, to find the attempt of a process in a container.

Containers of docker and podman are not children of their supervisor, so their runtime has to list
them.  ``refresh`` calls the runtime at most twice a second, so that requests to the server
cannot keep it busy; callers first search the last list (``read_cached``).
"""

import subprocess
import threading
import time
from collections.abc import Collection, Mapping
from typing import Final

from trainshed.engines.base import Endpoint
from trainshed.engines.container_runtime import CHILDREN_OF_CLIENT, Runtime
from trainshed.engines.local.containers.detect import first_processes
from trainshed.engines.processes import peers
from trainshed.engines.processes.identity import Identity, find_identity, is_alive
from trainshed.model.attempt import AttemptKey

#: The shortest time between two calls of the runtime.
_LIST_PAUSE_S: Final = 0.5


class ContainerRoots:
    """The first processes of the containers of attempts, by pid."""

    def __init__(self, runtime: Runtime | None, environ: Mapping[str, str]) -> None:
        """Do not call the runtime yet; ``environ`` is the environment of its commands."""
        is_needed = runtime is not None and runtime.name not in CHILDREN_OF_CLIENT
        self._runtime = runtime if is_needed else None
        self._environ = environ
        self._lock = threading.Lock()
        self._listed_s = float("-inf")
        self._fault = ""
        self._roots: dict[Identity, AttemptKey] = {}

    def read_cached(self) -> dict[int, AttemptKey]:
        """Return the processes of the last list that still run; does not call the runtime."""
        return {root.pid: key for root, key in self._roots.items() if is_alive(root)}

    def refresh(self) -> dict[int, AttemptKey]:
        """Return the processes that run now.  Blocks for some seconds at most.

        Raises OSError if the runtime does not answer.  Then a process that is not in the list may
        be of a job, and must repeat its request.
        """
        with self._lock:
            if self._runtime and time.monotonic() - self._listed_s > _LIST_PAUSE_S:
                self._fault = self._list(self._runtime)
                self._listed_s = time.monotonic()
            if self._fault:
                raise OSError(self._fault)
        return self.read_cached()

    def find_holder(
        self, remote: Endpoint, local: Endpoint, running: Collection[AttemptKey]
    ) -> AttemptKey | None:
        """Return the attempt with the container at the remote end of a connection."""
        for list_roots in (self.read_cached, self.refresh):
            own = {pid: key for pid, key in list_roots().items() if key in running}
            if holder := peers.holder_in(remote, local, own):
                return holder
        return None

    def _list(self, runtime: Runtime) -> str:
        """Call the runtime; return why it did not answer, or an empty text."""
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
