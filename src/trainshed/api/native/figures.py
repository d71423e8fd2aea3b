"""Native routes of the figures of jobs over time: use of machines, scalars, and progress."""

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import TypeAdapter

from trainshed.api.native.callers import ANY_PROJECT, Readable, project_or_all
from trainshed.api.native.limits import ATTEMPT_MAX
from trainshed.model.refusals import Code, Refusal
from trainshed.service.figures.answers import NAMES_MAX, JobProgress, JobScalars, JobUsage

if TYPE_CHECKING:
    from trainshed.service.figures.progress import ProgressReader
    from trainshed.service.figures.scalars import ScalarReader
    from trainshed.service.figures.usage import UsageReader

#: The most points of a series, and the fewest that can show a minimum and a maximum.
POINTS_MAX: Final = 2000
POINTS_MIN: Final = 2
#: The latest time, in seconds since 1970.
_TIME_MAX: Final = 1e11
_NAME_LENGTH_MAX: Final = 256

_Seconds = Annotated[float | None, Query(ge=0, le=_TIME_MAX, allow_inf_nan=False)]
_Points = Annotated[int, Query(ge=POINTS_MIN, le=POINTS_MAX)]
_Name = Annotated[str, Query(max_length=_NAME_LENGTH_MAX)]


def figure_router(
    usage: "Callable[[], UsageReader]",
    scalars: "Callable[[], ScalarReader]",
    progress: "Callable[[], ProgressReader]",
) -> APIRouter:
    """Return the routes of the figures of jobs."""
    router = APIRouter(prefix="/projects/{project}", tags=["jobs"])

    @router.get("/jobs/{job}/usage", response_model=JobUsage)
    def job_usage(  # noqa: PLR0913 - one parameter a word of the query
        project: Readable,
        job: str,
        *,
        attempt: Annotated[int | None, Query(ge=1, le=ATTEMPT_MAX)] = None,
        since: _Seconds = None,
        until: _Seconds = None,
        points: _Points = POINTS_MAX,
    ) -> Response:
        """Return what the replicas and GPUs of a job used, as curves of at most ``points`` points.

        ``since`` and ``until`` are seconds since 1970. A point is the time, the minimum, the mean
        and the maximum. What was not measured is in ``missing``.
        """
        from trainshed.service.figures.usage import UsageCall  # noqa: PLC0415 - with its reader

        call = UsageCall(
            attempt=attempt,
            since_s=-math.inf if since is None else since,
            until_s=math.inf if until is None else until,
            points_max=points,
        )
        return _write(JobUsage, usage().usage(project, job, call))

    @router.get("/jobs/{job}/scalars", response_model=JobScalars)
    def job_scalars(
        project: Readable,
        job: str,
        *,
        names: Annotated[list[_Name], Query(max_length=NAMES_MAX)] = [],  # noqa: B006
        points: _Points = POINTS_MAX,
    ) -> Response:
        """Return the values that a job's program gave to ``progress`` or wrote for TensorBoard.

        ``names`` may be repeated; without it, all names. A point is the step, the time, the
        minimum, the mean and the maximum. A call reads event files for at most some tenths of a
        second; while ``complete`` is false, the next call returns more.
        """
        return _write(JobScalars, scalars().scalars(project, job, names, points))

    @router.get("/progress", response_model=JobProgress)
    def list_progress(
        project: str, scope: Annotated[str | None, Depends(project_or_all)], job: str | None = None
    ) -> Response:
        """List how far the running jobs are; the project ``-`` means all visible projects.

        The server computes it at most once in 10 s, for the newest 1,000 jobs that run. With
        ``job``, the list has that job of the project alone, as it is now; none if it does not run.
        """
        if job is None:
            return _write(JobProgress, progress().progress(scope))
        if scope is None or project == ANY_PROJECT:
            message = f"project must be the one of job {job}, got {ANY_PROJECT}"
            raise Refusal(Code.INVALID_ARGUMENT, message)
        record = usage().stories.find(scope, job)
        return _write(JobProgress, progress().progress_of(record))

    return router


def _write(kind: Any, answer: object) -> Response:
    """Write a large answer without FastAPI's second check of its values."""
    return Response(_adapter_of(kind).dump_json(answer), media_type="application/json")


@cache
def _adapter_of(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
