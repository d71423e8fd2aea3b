"""Finds a job by its id alone, whatever its kind."""

from dataclasses import dataclass

from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import PIPELINES, number_of, resource_name
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind, JobRecord
from trainshed.store.records.models import Pipeline


@dataclass(frozen=True, slots=True)
class JobMatch:
    """A job, and the training pipeline whose id was given; None for the id of a job."""

    record: JobRecord
    pipeline: Pipeline | None = None

    @property
    def name(self) -> str:
        """The resource name of the job, or of the pipeline."""
        pipeline = self.pipeline
        if pipeline is None:
            return self.record.name
        return resource_name(PIPELINES, pipeline.project, pipeline.location, str(pipeline.uid))


def find_job(store: Store, project: str, job_id: str) -> JobMatch:
    """Return the job of an id in either dialect; for a training pipeline's id, its job.

    A trial of ml v1 has its job's uid, because its own id has slashes.  Raises Refusal (NOT_FOUND).
    """
    for kind in JobKind:
        if record := store.job(project, kind, job_id):
            return JobMatch(record)
    number = number_of(job_id)
    if number and (pair := store.pipeline(project, number)):
        return JobMatch(pair[1], pair[0])
    if number and (record := _find_trial(store, project, number)):
        return JobMatch(record)
    raise Refusal(Code.NOT_FOUND, f"project {project} has no job {job_id}")


def _find_trial(store: Store, project: str, uid: int) -> JobRecord | None:
    """Return the job of a trial of ml v1 by its uid; None for other jobs and deleted ones."""
    record = store.job_by_uid(uid)
    if record is None or record.kind is not JobKind.TRIAL or record.job.project != project:
        return None
    current = store.job(project, JobKind.TRIAL, record.job.job_id)
    return current if current and current.uid == uid else None
