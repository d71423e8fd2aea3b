"""Native routes of predictions: outcomes, and calibrations that jobs measured."""

from typing import Annotated

from fastapi import APIRouter, Query

from trainshed.api.native.callers import Readable
from trainshed.api.native.services import Native
from trainshed.service.learning import calibrations as learned
from trainshed.service.learning.calibrations import (
    CalibrationFile,
    Calibrations,
    PredictionScores,
)


def plan_router(native: Native) -> APIRouter:
    """Return the routes of predictions and calibrations."""
    router = APIRouter(prefix="/projects/{project}", tags=["plans"])
    limit = Query(ge=1, le=learned.LIST_MAX)

    @router.get("/outcomes", response_model_exclude_none=True)
    def outcomes(
        project: Readable,
        limit: Annotated[int, limit] = learned.LIST_MAX,
        pageToken: str = "",  # noqa: N803 - Google's word
    ) -> PredictionScores:
        """List the predictions of the project's jobs and their actual figures, page by page."""
        return learned.outcomes(native.store, project, limit, pageToken)

    @router.get("/calibrations")
    def calibrations(
        project: Readable, limit: Annotated[int, limit] = learned.LIST_MAX
    ) -> Calibrations:
        """List the calibrations that jobs measured, by trainer and kind of machine."""
        return learned.calibrations(native.store, project, limit)

    @router.get("/calibrations/{key}")
    def calibration(project: Readable, key: str) -> CalibrationFile:
        """Return the calibration of one trainer, which its jobs measured, as an input of plans."""
        return learned.calibration(native.store, project, key)

    return router
