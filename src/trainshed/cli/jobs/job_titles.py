"""Replaces the resource names of jobs in explanations by display names and numbers."""

import re
from dataclasses import dataclass, field
from typing import Final

from trainshed.cli.jobs.job_names import id_of_row, title_of
from trainshed.client.collections import native_path
from trainshed.client.faults import Json, ServerRefusal, Unreachable
from trainshed.client.http import Server

#: The most jobs that are read; later ones keep their resource names.
_READS_MAX: Final = 20
_COLLECTIONS: Final = "jobs|customJobs|trainingPipelines|hyperparameterTuningJobs"
_JOB: Final = re.compile(rf"projects/[^\s,;/]+/(?:locations/[^\s,;/]+/)?(?:{_COLLECTIONS})/[\w-]+")


@dataclass(frozen=True, slots=True)
class JobTitles:
    """The titles of jobs, as the console shows them; a job is read from the server once."""

    server: Server
    _titles: dict[str, str] = field(default_factory=dict, init=False)

    def name_jobs(self, text: str) -> str:
        """Return the text with ``NAME (NUMBER)`` for each job that the server shows the caller."""
        return _JOB.sub(lambda match: self._find_title(match[0]), text)

    def name_waiting(self, waiting: Json) -> Json:
        """Return why a job waits, with the titles of other jobs; empty if it does not wait."""
        if not waiting:
            return waiting
        blockers = [self.name_jobs(blocker) for blocker in waiting.get("blockers", ())]
        return {**waiting, "message": self.name_jobs(waiting["message"]), "blockers": blockers}

    def _find_title(self, name: str) -> str:
        if name not in self._titles and len(self._titles) < _READS_MAX:
            self._titles[name] = self._read_title(name)
        return self._titles.get(name, name)

    def _read_title(self, name: str) -> str:
        try:
            job = self.server.call("GET", native_path(name, ""))
        except (ServerRefusal, Unreachable):
            return name
        return title_of(job["displayName"], id_of_row(job))
