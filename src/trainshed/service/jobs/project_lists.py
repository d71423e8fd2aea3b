"""Lists the projects that a caller may see, with the number of their open jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainshed.store.opening import Store
from trainshed.wire.native_v1 import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSummary(Answer):
    """A project, and its jobs that have not ended."""

    id: str
    open: Mapping[str, int]
    """The number of jobs that have not ended, by state; states without jobs are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Projects(Answer):
    """The projects of a caller, by id."""

    projects: Sequence[ProjectSummary]


def list_projects(store: Store, project: str | None) -> Projects:
    """Return one project; None lists all projects with jobs or tokens, at most 5,000 of them."""
    if project is not None:
        return Projects(projects=[ProjectSummary(id=project, open=store.open_counts(project))])
    counts = store.open_counts_by_project()
    names = sorted({*store.projects_in_use(), *counts})
    return Projects(projects=[ProjectSummary(id=name, open=counts.get(name, {})) for name in names])
