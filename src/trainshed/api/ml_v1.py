"""``ml/v1`` over the use cases: a job's document in, the Job out."""

from trainshed.api.call import Call, Json
from trainshed.api.lists import page, page_size_of
from trainshed.model.resource_names import JobId, ProjectId
from trainshed.service.jobs import JobService
from trainshed.store.records import Kind
from trainshed.wire.ml_v1 import render


class MlJobs:
    """The methods of ``projects.jobs``."""

    def __init__(self, jobs: JobService) -> None:
        """Ask this service."""
        self._jobs = jobs

    def create(self, call: Call) -> Json:
        """Submit; a repetition of gcloud's gets the job that is there."""
        project, key = _project(call), call.retry_key
        record = self._jobs.create(
            Kind.ML_JOB, project, "", call.document, creator=call.caller.name, retry_key=key
        )
        return render.job(record.job)

    def get(self, call: Call) -> Json:
        """One job; a tuning job with its trials."""
        record = self._jobs.get(Kind.ML_JOB, _project(call), "", JobId(call.params["job"]))
        return render.job(record.job, self._jobs.trials(record))

    def list(self, call: Call) -> Json:
        """One page of jobs, newest first."""
        records, token = self._jobs.list(
            Kind.ML_JOB,
            _project(call),
            "",
            filter_text=call.query.get("filter", ""),
            page_size=page_size_of(call.query),
            page_token=call.query.get("pageToken", ""),
        )
        return page("jobs", [render.job(record.job) for record in records], token)

    def cancel(self, call: Call) -> Json:
        """Ask for the end; a finished job stays as it is (contracts/gcloud.md 3.3)."""
        project, job = _project(call), JobId(call.params["job"])
        self._jobs.cancel(Kind.ML_JOB, project, "", job, by=call.caller.name)
        return {}

    def patch(self, call: Call) -> Json:
        """Replace the labels."""
        mask = call.query.get("updateMask", "")
        record = self._jobs.patch(_project(call), JobId(call.params["job"]), call.document, mask)
        return render.job(record.job)


def _project(call: Call) -> ProjectId:
    return ProjectId(call.params["project"])
