"""Native routes that list jobs of all kinds, and quotas, for one or all projects of a caller."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import TypeAdapter

from trainshed.api.native.callers import project_or_all
from trainshed.model.status import JobState
from trainshed.placement.jobs import QuotaRule
from trainshed.service.jobs.job_lists import (
    PAGE_SIZE,
    PAGE_SIZE_MAX,
    JobList,
    JobListCall,
    JobLists,
)
from trainshed.service.jobs.quotas import QuotaUses, list_quotas
from trainshed.store.listed_jobs import ListedKind
from trainshed.store.opening import Store

_JOB_LIST: Final = TypeAdapter(JobList)


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
        is_open: Annotated[bool, Query(alias="open")] = False,
        pageSize: Annotated[int, Query(ge=1, le=PAGE_SIZE_MAX)] = PAGE_SIZE,  # noqa: N803
        pageToken: str = "",  # noqa: N803 - Google's words
    ) -> Response:
        """List jobs of all kinds, newest first; the project ``-`` means all visible projects.

        ``state`` and ``kind`` may be repeated. ``label`` is KEY or KEY:VALUE, ``q`` a part of a
        name or id, ``since`` the earliest time of creation; ``open=true`` leaves out jobs that
        have ended. A training pipeline stands for the custom job behind it, and a study for its
        trials, which ``kind=TRIAL`` lists.
        """
        call = JobListCall(
            project=scope,
            states=frozenset(state),
            kinds=frozenset(kind),
            creator=creator,
            label=label,
            text=q,
            since=since,
            is_open=is_open,
            page_size=pageSize,
            page_token=pageToken,
        )
        page = _JOB_LIST.dump_json(lists.page(call), by_alias=True, exclude_none=True)
        return Response(page, media_type="application/json")

    return router


def quota_router(store: Store, rules: Sequence[QuotaRule]) -> APIRouter:
    """Return the route that lists quotas with their use."""
    router = APIRouter(prefix="/projects/{project}", tags=["fleet"])

    @router.get("/quotas", response_model_exclude_none=True)
    def quotas(project: Annotated[str | None, Depends(project_or_all)]) -> QuotaUses:
        """List the limits of accelerators in use at once, and the current use."""
        return QuotaUses(quotas=list_quotas(store, rules, project))

    return router
