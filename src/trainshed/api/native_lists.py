"""Native routes that list jobs of all kinds, and quotas, for one project or all of a caller's."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from trainshed.api.native_callers import project_or_all
from trainshed.model.status import JobState
from trainshed.placement.jobs import QuotaRule
from trainshed.service.jobs.job_lists import PAGE_SIZE, PAGE_SIZE_MAX, JobListCall, JobLists
from trainshed.service.jobs.quotas import QuotaUse, list_quotas
from trainshed.store.listed_jobs import ListedKind
from trainshed.store.opening import Store

Json = dict[str, Any]


class Shown(BaseModel):
    """A value of an answer, whose names are in camelCase there."""

    model_config = ConfigDict(alias_generator=to_camel)


class JobRow(Shown):
    """A job of any kind in a list; of a study ``gpus`` and ``replicas`` are those of one trial.

    ``reason`` says why a job waits; ``node`` is the first of the ``nodes`` that it is on.
    """

    uid: str
    name: str
    display_name: str
    project: str
    kind: ListedKind
    state: JobState
    reason: str | None = None
    attempt: int
    restarts: int
    gpus: dict[str, int]
    replicas: int
    node: str | None = None
    nodes: int
    creator: str
    create_time: str
    start_time: str | None = None
    end_time: str | None = None


class JobList(Shown):
    """A page of jobs, newest first; ``counts``, on the first page, are of jobs that are not over.

    They are by state and of all jobs of the project or projects, whatever the filters are.
    """

    jobs: list[JobRow]
    counts: dict[str, int] | None = None
    next_page_token: str | None = None


class Quota(Shown):
    """How many of an accelerator a project may use at once in a region, and how many it uses.

    A rule for ``*`` counts projects, or regions, separately; without ``limit`` no rule counts them.
    """

    project: str
    region: str
    accelerator: str
    limit: int | None = None
    in_use: int
    jobs: int


class Quotas(Shown):
    """The quotas of a project, or of all, by project, region and accelerator."""

    quotas: list[Quota]


def job_list_router(lists: JobLists) -> APIRouter:
    """Return the route that lists jobs of all kinds."""
    router = APIRouter(prefix="/projects/{project}", tags=["jobs"])

    @router.get("/jobs", response_model=JobList)
    def list_jobs(  # noqa: PLR0913 - one parameter a word of the query
        scope: Annotated[str | None, Depends(project_or_all)],
        *,
        state: Annotated[list[JobState], Query()] = [],  # noqa: B006 - FastAPI copies it
        kind: Annotated[list[ListedKind], Query()] = [],  # noqa: B006
        creator: str = "",
        label: str = "",
        q: str = "",
        since: str = "",
        pageSize: Annotated[int, Query(ge=1, le=PAGE_SIZE_MAX)] = PAGE_SIZE,  # noqa: N803
        pageToken: str = "",  # noqa: N803 - Google's words
    ) -> JSONResponse:
        """List jobs of all kinds, newest first; the project ``-`` is all that the caller may see.

        ``state`` and ``kind`` may be repeated. ``label`` is KEY or KEY:VALUE, ``q`` a part of a
        name or id, ``since`` the earliest time of creation. A training pipeline stands for the
        custom job behind it, and a study for its trials, which ``kind=TRIAL`` lists.
        """
        call = JobListCall(
            project=scope,
            states=frozenset(state),
            kinds=frozenset(kind),
            creator=creator,
            label=label,
            text=q,
            since=since,
            page_size=pageSize,
            page_token=pageToken,
        )
        return JSONResponse(lists.page(call))  # of thousands of rows: not validated once more

    return router


def quota_router(store: Store, rules: Sequence[QuotaRule]) -> APIRouter:
    """Return the route that lists quotas with their use."""
    router = APIRouter(prefix="/projects/{project}", tags=["fleet"])

    @router.get("/quotas", response_model=Quotas, response_model_exclude_none=True)
    def quotas(project: Annotated[str | None, Depends(project_or_all)]) -> Json:
        """List how many accelerators may be in use at once, and how many are."""
        uses = list_quotas(store, rules, project)
        return {"quotas": [_quota(use) for use in uses]}

    return router


def _quota(use: QuotaUse) -> Json:
    names = {"project": use.project, "region": use.region, "accelerator": use.accelerator}
    return names | {"limit": use.limit, "inUse": use.in_use, "jobs": use.jobs}
