"""Native routes of the figures of jobs over time: use of machines, scalars, and progress."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import TypeAdapter

from trainshed.api.native.callers import Readable, project_or_all
from trainshed.api.native.limits import ATTEMPT_MAX
from trainshed.service.figures.answers import JobProgress, JobScalars, JobUsage
from trainshed.service.figures.progress import ProgressReader
from trainshed.service.figures.scalars import NAMES_MAX, ScalarReader
from trainshed.service.figures.usage import UsageCall, UsageReader

#: The most points of a series, and the fewest that can show a minimum and a maximum.
POINTS_MAX: Final = 2000
POINTS_MIN: Final = 2
#: The latest time, in seconds since 1970.
_TIME_MAX: Final = 1e11
_NAME_LENGTH_MAX: Final = 256

_USAGE: Final = TypeAdapter(JobUsage)
_SCALARS: Final = TypeAdapter(JobScalars)
_PROGRESS: Final = TypeAdapter(JobProgress)

_Seconds = Annotated[float | None, Query(ge=0, le=_TIME_MAX, allow_inf_nan=False)]
_Points = Annotated[int, Query(ge=POINTS_MIN, le=POINTS_MAX)]
_Name = Annotated[str, Query(max_length=_NAME_LENGTH_MAX)]


def figure_router(usage: UsageReader, scalars: ScalarReader, progress: ProgressReader) -> APIRouter:
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
        call = UsageCall(attempt=attempt, since_s=since, until_s=until, points_max=points)
        return _write(_USAGE, usage.usage(project, job, call))

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
        return _write(_SCALARS, scalars.scalars(project, job, names, points))

    @router.get("/progress", response_model=JobProgress)
    def list_progress(scope: Annotated[str | None, Depends(project_or_all)]) -> Response:
        """List how far the running jobs are; the project ``-`` means all visible projects.

        The server computes it at most once in 10 s, for the newest 1,000 jobs that run.
        """
        return _write(_PROGRESS, progress.progress(scope))

    return router


def _write(adapter: TypeAdapter[Any], answer: object) -> Response:
    """Write a large answer without FastAPI's second check of its values."""
    return Response(adapter.dump_json(answer), media_type="application/json")
