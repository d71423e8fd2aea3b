"""The native route that creates a tuning job with known results and first points.

Google's create requests have no field for them, and stay as they are.  The results are stored with
the job in one write, so that no trial begins without them.
"""

import json
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter

from trainshed.api.call import make_retry_key
from trainshed.api.handlers import WORDS
from trainshed.api.native import models
from trainshed.api.native.callers import Known, Submittable
from trainshed.api.native.services import Native
from trainshed.model.access import Caller
from trainshed.model.resource_names import ProjectId
from trainshed.model.study_start import PointRow, ResultRow, StartCall, UnnamedValue
from trainshed.service.jobs.job_service import CreateCall
from trainshed.service.jobs.study_answers import StudyStartReport
from trainshed.store.records.jobs import JobKind
from trainshed.wire.native_v1 import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedStudy(Answer):
    """A new tuning job in the words of its own API, and what it has before its first trial."""

    job: dict[str, Any]
    start: StudyStartReport | None = None
    """Absent if nothing was given."""


def new_study_router(native: Native) -> APIRouter:
    """Return the route that creates tuning jobs."""
    router = APIRouter(prefix="/projects/{project}", tags=["studies"])

    @router.post("/jobs:createStudy", response_model_exclude_none=True)
    def create_study(caller: Known, project: Submittable, study: models.NewStudy) -> CreatedStudy:
        """Create a tuning job with known results and points to try first.

        Its trials begin after all of them are stored. The answer says which results are used, and
        why others are not.
        """
        key = _retry_key(caller, project, study) if study.requestId else None
        call = create_call(project, study)
        call.check_location()
        record, report = native.dry_runs.jobs.create_study(call, creator=caller.name, retry_key=key)
        _, render = WORDS[call.kind]
        return CreatedStudy(job=render(record.job), start=report)

    return router


def create_call(project: str, given: models.DryRun | models.NewStudy) -> CreateCall:
    """Return the job of a request."""
    return CreateCall(
        kind=JobKind(given.collection),
        project=ProjectId(project),
        location=given.location,
        document=given.job,
        start=_start_call(given.start),
    )


def _start_call(given: models.GivenStart) -> StartCall:
    return StartCall(
        results=tuple(map(_result_row, given.results)),
        sources=tuple(given.sources),
        studies=tuple(given.studies),
        points=tuple(
            PointRow(name=p.name, parameters=p.parameters, source=p.source) for p in given.points
        ),
    )


def _result_row(given: models.GivenResult) -> ResultRow:
    return ResultRow(
        name=given.name,
        parameters=given.parameters,
        metrics=given.metrics,
        cells=given.cells,
        unnamed=tuple(UnnamedValue(value=one.value, goal=one.goal) for one in given.unnamed),
        fault=given.fault,
        source=given.source,
    )


def _retry_key(caller: Caller, project: str, study: models.NewStudy) -> str:
    parts = (caller.name, caller.project, project, study.location, study.requestId or "")
    body = json.dumps(study.model_dump(mode="json"), sort_keys=True)
    return make_retry_key(parts, body.encode("utf-8", "backslashreplace"))
