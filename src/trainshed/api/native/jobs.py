"""Native routes about one job: its summary, explanation, events, goodput and manifest."""

from typing import Annotated

from fastapi import APIRouter, Query

from trainshed.api.native import models
from trainshed.api.native.callers import Readable, Submittable
from trainshed.api.native.limits import ATTEMPT_MAX, SEQ_MAX
from trainshed.api.native.new_studies import create_call
from trainshed.api.native.services import Native
from trainshed.service.goodput.answers import JobGoodput
from trainshed.service.jobs.manifests import Manifest, Manifests
from trainshed.service.jobs.story_answers import JobEvents, JobExplanation, JobSummary

#: The most events of one response.
EVENTS_MAX = 1000


def job_router(native: Native) -> APIRouter:
    """Return the routes about one job."""
    router = APIRouter(prefix="/projects/{project}", tags=["jobs"])
    stories = native.stories
    manifests = Manifests(stories, native.attempts.engines)

    @router.post("/jobs:dryRun", response_model_exclude_none=True)
    def dry_run(project: Submittable, call: models.DryRun) -> Manifest:
        """Return what the server would send to the engine for a job; nothing is stored or started.

        The job is checked as at its creation.  The fleet counts as empty.
        """
        return native.dry_runs.manifest(create_call(project, call))

    @router.get("/jobs/{job}", response_model_exclude_none=True)
    def describe(project: Readable, job: str) -> JobSummary:
        """Return a job's summary, by its AI Platform id or its Vertex number."""
        return stories.job(project, job)

    @router.get("/jobs/{job}/explain", response_model_exclude_none=True)
    def explain(project: Readable, job: str) -> JobExplanation:
        """Explain the job's state, what blocks it, and one change that would admit it."""
        return stories.explain(project, job)

    @router.get("/jobs/{job}/events")
    def events(
        project: Readable,
        job: str,
        after: Annotated[int, Query(ge=0, le=SEQ_MAX)] = 0,
        limit: Annotated[int, Query(ge=1, le=EVENTS_MAX)] = EVENTS_MAX,
    ) -> JobEvents:
        """List the events of the job after the event ``after``, oldest first."""
        return stories.events(project, job, after=after, limit=limit)

    @router.get("/jobs/{job}/goodput")
    def goodput(project: Readable, job: str) -> JobGoodput:
        """Return how a job used the time in which it held its machines, its energy and its cost.

        Times are seconds. `goodput` is productive over held time; it is null for a job that reports
        no steps, and `at_most` is then its upper bound. A study has the sums of its newest 1,000
        trials, weighted with their GPUs.
        """
        return native.goodput().goodput(project, job)

    @router.get("/jobs/{job}/manifest")
    def manifest(
        project: Readable,
        job: str,
        attempt: Annotated[int | None, Query(ge=1, le=ATTEMPT_MAX)] = None,
    ) -> Manifest:
        """Return what the server sent to the engine for the newest attempt, or another one."""
        return manifests.manifest(project, job, attempt)

    return router
