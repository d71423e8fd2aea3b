"""Native routes of tuning jobs: the study, its trials, their curves, and importances."""

from typing import Annotated, Final

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import TypeAdapter

from trainshed.api.native.callers import Readable
from trainshed.api.native.limits import ATTEMPT_MAX
from trainshed.service.jobs.story_answers import Trials
from trainshed.service.jobs.study_answers import Importances, MetricCurves, StudyDescription
from trainshed.service.jobs.study_reads import CurveCall, StudyReader

#: The most trials of one response.
TRIALS_MAX: Final = 5000
#: The most curves of one response, and the most points of a curve.
CURVES_MAX: Final = 1000
POINTS_MAX: Final = 200

_TRIALS: Final = TypeAdapter(Trials)
_CURVES: Final = TypeAdapter(MetricCurves)


def study_router(reader: StudyReader) -> APIRouter:
    """Return the routes of tuning jobs."""
    router = APIRouter(prefix="/projects/{project}/jobs/{job}", tags=["studies"])

    @router.get("/trials", response_model=Trials)
    def trials(
        project: Readable,
        job: str,
        after: Annotated[int, Query(ge=0, le=ATTEMPT_MAX)] = 0,
        limit: Annotated[int, Query(ge=1, le=TRIALS_MAX)] = TRIALS_MAX,
    ) -> Response:
        """List the trials of a tuning job after the trial ``after``, by number.

        They have fields that Google's documents do not have.  Any other job has no trials.
        """
        return _write(_TRIALS, reader.trials(project, job, after=after, limit=limit))

    @router.get("/study", response_model_exclude_none=True)
    def study(project: Readable, job: str) -> StudyDescription:
        """Describe a tuning job: its metrics, parameters and rules, and how far it is."""
        return reader.describe(project, job)

    @router.get("/trials:curves", response_model=MetricCurves)
    def curves(  # noqa: PLR0913 - one parameter a word of the query
        project: Readable,
        job: str,
        *,
        metric: str | None = None,
        byTime: bool = False,  # noqa: N803 - the words of the API
        trialCount: Annotated[int, Query(ge=1, le=CURVES_MAX)] = CURVES_MAX,  # noqa: N803
        pointCount: Annotated[int, Query(ge=3, le=POINTS_MAX)] = POINTS_MAX,  # noqa: N803
    ) -> Response:
        """Return the measurements of the newest trials as curves, thinned out to ``pointCount``.

        Without ``metric``, those of the first objective.
        """
        call = CurveCall(
            metric=metric, by_time=byTime, trial_count=trialCount, point_count=pointCount
        )
        return _write(_CURVES, reader.curves(project, job, call))

    @router.get("/study:importances")
    def importances(project: Readable, job: str, metric: str | None = None) -> Importances:
        """Return how much each parameter decides a metric, by default the first objective."""
        return reader.importances(project, job, metric)

    return router


def _write(adapter: TypeAdapter[Trials] | TypeAdapter[MetricCurves], answer: object) -> Response:
    """Write a large answer without FastAPI's second check of its values."""
    content = adapter.dump_json(answer, by_alias=True, exclude_none=True)  # type: ignore[arg-type]
    return Response(content, media_type="application/json")
