"""Native routes about the text of a job: check, submit, and a stored job as a text."""

from fastapi import APIRouter

from trainshed.api.call import make_retry_key
from trainshed.api.native import models
from trainshed.api.native.callers import Known, Readable, Submittable
from trainshed.model.access import Caller
from trainshed.model.resource_names import ProjectId
from trainshed.service.texts.answers import StoredDocument, StoredJobName, TextCheck
from trainshed.service.texts.job_texts import JobTexts


def text_router(texts: JobTexts) -> APIRouter:
    """Return the routes about the text of a job."""
    router = APIRouter(prefix="/projects/{project}", tags=["jobs"])

    @router.post("/jobs:check", response_model_exclude_none=True)
    def check_job(project: Submittable, job: models.JobText) -> TextCheck:
        """Check the text of a job, YAML or JSON of either API; nothing is stored or started.

        The answer has every violation with its lines and columns, the cluster, its price, and
        whether the job would start now. The check of an empty text makes the next one faster.
        """
        return texts.check(ProjectId(project), job.text, job.location)

    @router.post("/jobs", response_model_exclude_none=True)
    def submit_job(caller: Known, project: Submittable, job: models.NewJobText) -> StoredJobName:
        """Submit the text of a job, YAML or JSON of either API.

        A call that is sent again with the same ``requestId`` returns the job of the first call.
        """
        key = _retry_key(caller, project, job) if job.requestId else None
        owner = ProjectId(project)
        return texts.submit(owner, job.text, job.location, creator=caller.name, retry_key=key)

    @router.get("/jobs/{job}/document", response_model_exclude_none=True)
    def show_document(project: Readable, job: str) -> StoredDocument:
        """Return a stored job in the words of its own API, and as a text to submit again."""
        return texts.document(ProjectId(project), job)

    return router


def _retry_key(caller: Caller, project: str, job: models.NewJobText) -> str:
    parts = (caller.name, caller.project, project, job.location, job.requestId or "")
    return make_retry_key(parts, job.text.encode("utf-8", "backslashreplace"))
