"""Limits the active jobs of a project.

The store is queried at most once a second for each project, and again before a job is refused.
Several servers together may exceed the limit by the jobs of one second.
"""

import threading
import time
from collections.abc import Callable

from trainshed.model.bounded import BoundedDict
from trainshed.model.refusals import Code, Refusal

#: How old a count may be, in seconds.
COUNTED_S_MAX = 1.0
#: The most projects in the cache.
KNOWN_MAX = 1024


class OpenJobs:
    """Admits jobs one by one.  Thread-safe."""

    def __init__(
        self,
        count: Callable[[str], int],
        most: int | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``count`` queries the store; ``most`` None is no limit."""
        self._count = count
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._counts = BoundedDict[str, tuple[float, int]](KNOWN_MAX)

    def admit(self, project: str, *, new_jobs: int = 1) -> None:
        """Count ``new_jobs`` more jobs of a project; 0 only checks that one more is allowed.

        Raises Refusal (RESOURCE_EXHAUSTED).
        """
        if self._most is None:
            return
        with self._lock:
            counted_at, open_jobs = self._counts.get(project, (0.0, self._most))
            if open_jobs >= self._most or self._clock() - counted_at > COUNTED_S_MAX:
                counted_at, open_jobs = self._clock(), self._count(project)
            if open_jobs >= self._most:
                raise Refusal(Code.RESOURCE_EXHAUSTED, _full(project, open_jobs, self._most))
            self._counts[project] = counted_at, open_jobs + new_jobs


def _full(project: str, open_jobs: int, most: int) -> str:
    return (
        f"project {project} has {open_jobs} jobs that are not over, and may have {most} "
        "(limits.project_jobs_max): wait for some to end, or cancel them"
    )
