"""The collections of resources of a server: their commands, names and paths."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from trainshed.client.faults import Json
from trainshed.model.faults import UsageFault
from trainshed.model.resource_names import (
    CUSTOM_JOBS,
    JOBS,
    PIPELINES,
    TUNING_JOBS,
    ProjectId,
    ResourceName,
    resource_name,
)

if TYPE_CHECKING:
    from trainshed.client.http import Server

#: The native API's states of jobs whose replicas have no nodes yet.
WAITING_STATES: Final = frozenset({"QUEUED", "ENQUEUED"})
#: The final states of a resource, without the prefix of their dialect.
FINAL_STATES: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
PAGE_SIZE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCollection:
    """One collection of resources, such as the custom jobs of a project."""

    group: str
    """The words of its commands, such as ``ai custom-jobs``."""
    noun: str
    """The noun for one resource in messages, such as ``custom job``."""
    word: str
    """The name of the collection in paths, such as ``customJobs``."""
    located: bool = True
    """Whether the names of its resources contain a location, as in Vertex AI."""

    def parent(self, project: str, region: str) -> str:
        """Return the path at which resources are created and listed."""
        location = ("locations", region) if self.located else ()
        return path_of("v1", "projects", project, *location, self.word)

    def path(self, name: str, project: str, region: str) -> str:
        """Return the path of one resource by its id or its full name.  Raises UsageFault."""
        if "/" not in name:
            return f"{self.parent(project, region)}/{quote(name, safe='')}"
        try:
            resource = ResourceName.parse(name)
        except ValueError:
            raise self._refuse_name(name) from None
        if resource.collection != self.word or "/" in resource.id:
            raise self._refuse_name(name)
        return path_of("v1", *name.split("/"))

    def _refuse_name(self, name: str) -> UsageFault:
        form = resource_name(self.word, "P", "L", self.word[0].upper())
        return UsageFault(
            f"the name of a {self.noun} must be an id or a full name such as {form}, got {name}"
        )


COLLECTIONS: Final[Mapping[str, JobCollection]] = {
    collection.group: collection
    for collection in (
        JobCollection(group="ai-platform jobs", noun="job", word=JOBS, located=False),
        JobCollection(group="ai custom-jobs", noun="custom job", word=CUSTOM_JOBS),
        JobCollection(group="ai hp-tuning-jobs", noun="tuning job", word=TUNING_JOBS),
        JobCollection(group="ai pipelines", noun="pipeline", word=PIPELINES),
    )
}


def collection_of(group: str) -> JobCollection:
    """Return the collection for command words; gcloud's older name is accepted, too."""
    return COLLECTIONS[group.replace("ml-engine", "ai-platform", 1)]


def commands_of(name: str) -> tuple[str, str]:
    """Return the command group for a full name, and the job's name in its commands."""
    resource = ResourceName.parse(name)
    group = next(
        collection.group
        for collection in COLLECTIONS.values()
        if collection.word == resource.collection
    )
    return group, name if resource.location else resource.id.rpartition("/")[2]


def state_of(resource: Json) -> str:
    """Return the state of a resource of any dialect, such as RUNNING."""
    state = str(resource.get("state", ""))
    return state.removeprefix("JOB_STATE_").removeprefix("PIPELINE_STATE_")


def id_of(resource: Json) -> str:
    """Return the job id of a resource, or else the last part of its name."""
    return str(resource.get("jobId") or resource.get("name", "")).rpartition("/")[2]


def native_path(name: str, project: str) -> str:
    """Return the native path of a job of either dialect, from its id or its full name."""
    try:
        resource = ResourceName.parse(name)
    except ValueError:
        resource = ResourceName(project=ProjectId(project), collection=JOBS, id=name)
    job_id = resource.id.rpartition("/")[2]
    return path_of("trainshed", "v1", "projects", resource.project, "jobs", job_id)


def path_of(*parts: str) -> str:
    """Join parts to a URL path; slashes in a part are percent-encoded."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def pages(
    server: "Server", path: str, key: str, query: Mapping[str, object] | None = None
) -> Iterator[Json]:
    """Yield all resources of a list; ``key`` is the field of a page that contains them."""
    token = None
    while True:
        page = server.call("GET", path, query={**(query or {}), "pageToken": token})
        yield from page.get(key, ())
        token = page.get("nextPageToken")
        if not token:
            return
