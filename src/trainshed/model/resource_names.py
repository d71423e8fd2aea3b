"""Builds and parses the names of resources.

``projects/P/jobs/J`` is a job of AI Platform, and ``projects/P/jobs/J/trials/N`` the job of one of
its trials, whose id is ``J/trials/N``.  Vertex's resources have a location:
``projects/P/locations/L/COLLECTION/ID``.
"""

import re
from dataclasses import dataclass
from typing import Final, NewType, Self

ProjectId = NewType("ProjectId", str)
JobId = NewType("JobId", str)
"""The id of a job for clients: the caller's own in AI Platform, a number in Vertex AI."""
JobUid = NewType("JobUid", int)
"""The id of a job in the store and in folders of attempts, in both dialects."""
AttemptNumber = NewType("AttemptNumber", int)
OperationId = NewType("OperationId", str)

JOBS: Final = "jobs"
TRIALS: Final = "trials"
CUSTOM_JOBS: Final = "customJobs"
TUNING_JOBS: Final = "hyperparameterTuningJobs"
PIPELINES: Final = "trainingPipelines"
MODELS: Final = "models"
OPERATIONS: Final = "operations"

_NAME: Final = re.compile(
    r"projects/(?P<project>[^/]+)/(?:"
    r"jobs/(?P<job>[^/]+(?:/trials/[^/]+)?)"
    r"|locations/(?P<location>[^/]+)/(?P<collection>[^/]+)/(?P<id>[^/]+))"
)
#: Databases hold no larger numbers.
_NUMBER: Final = re.compile("[1-9][0-9]{0,18}", re.ASCII)
_NUMBER_LIMIT: Final = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceName:
    """The parts of a name; ``location`` is empty for the jobs of AI Platform."""

    project: ProjectId
    location: str = ""
    collection: str
    id: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a name.  Raises ValueError for any other text."""
        match = _NAME.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a valid resource name")
        project = ProjectId(match["project"])
        if match["job"]:
            return cls(project=project, collection=JOBS, id=match["job"])
        return cls(
            project=project,
            location=match["location"],
            collection=match["collection"],
            id=match["id"],
        )

    def __str__(self) -> str:
        """Return the name as clients write it."""
        return f"{parent_name(self.project, self.location)}/{self.collection}/{self.id}"


def number_of(resource_id: str) -> int:
    """Return the number of a Vertex id; 0, which no resource has, for any other text."""
    is_number = _NUMBER.fullmatch(resource_id)
    return int(resource_id) if is_number and int(resource_id) < _NUMBER_LIMIT else 0


def parent_name(project: str, location: str = "") -> str:
    """Return ``projects/P/locations/L``, or ``projects/P`` if the location is empty."""
    return f"projects/{project}/locations/{location}" if location else f"projects/{project}"


def resource_name(collection: str, project: str, location: str, resource_id: str) -> str:
    """Return the name of a resource; jobs of AI Platform and their trials have no location."""
    if collection in (JOBS, TRIALS):
        return f"{parent_name(project)}/{JOBS}/{resource_id}"
    return f"{parent_name(project, location)}/{collection}/{resource_id}"
