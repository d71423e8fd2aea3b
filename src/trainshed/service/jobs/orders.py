"""Carries out orders for jobs of every kind, by id: cancel one or many, change labels, delete.

The same rules as Google's routes: a job that has ended does not change when it is cancelled, and
only a job that has ended can be deleted.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trainshed.admission.rules.job import label_violations
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import JobId, ProjectId, ResourceName
from trainshed.service.jobs.job_lookup import find_job
from trainshed.service.jobs.job_service import JobService
from trainshed.service.jobs.pipelines import PipelineService
from trainshed.service.jobs.refusing import invalid, not_found
from trainshed.store.base import StaleEtag
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind, JobRecord
from trainshed.wire.native_v1 import Answer

#: The most jobs of one call.
NAMES_MAX: Final = 500
OK: Final = "OK"
_LABEL_TRIES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderResult(Answer):
    """What became of one of several jobs."""

    name: str
    """The resource name, as in the call."""
    code: str
    """``OK``, or the name of a google.rpc code, such as ``NOT_FOUND``."""
    message: str | None = None
    """Why the order was refused; None if it was carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderResults(Answer):
    """What became of each job, in the order of the call."""

    results: Sequence[OrderResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLabels(Answer):
    """All labels of a job after a change."""

    labels: Mapping[str, str]


#: Returns the id of a project that the caller may change; raises Refusal for any other.
Enter = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class JobOrders:
    """Carries out orders for jobs.  Methods raise Refusal.  Thread-safe."""

    store: Store
    jobs: JobService
    pipelines: PipelineService

    def cancel(self, project: ProjectId, job_id: str, *, by: str) -> None:
        """Cancel a job; do nothing if it has ended."""
        record = _check_no_trial(find_job(self.store, project, job_id).record)
        if self.jobs.cancel_records([record], by=by):
            message = f"{record.name} changes too quickly to be cancelled; try again"
            raise Refusal(Code.ABORTED, message)

    def cancel_all(self, names: Sequence[str], enter: Enter, *, by: str) -> OrderResults:
        """Cancel several jobs by resource name; one that cannot be cancelled stops no other.

        ``enter`` returns the id of a project and raises Refusal if the caller may not change it.
        """
        targets = [(name, self._find_target(name, enter)) for name in names]
        records = {t.uid: t for _, t in targets if isinstance(t, JobRecord)}
        unstable = self.jobs.cancel_records(list(records.values()), by=by)
        return OrderResults(results=[_result(name, t, unstable) for name, t in targets])

    def _find_target(self, name: str, enter: Enter) -> JobRecord | Refusal:
        try:
            parsed = ResourceName.parse(name)
        except ValueError:
            accepted = "projects/PROJECT/jobs/JOB, or projects/PROJECT/locations/REGION/KIND/NUMBER"
            message = f"names must be resource names such as {accepted}, got {name[:200]!r}"
            return Refusal(Code.INVALID_ARGUMENT, message)
        try:
            project = ProjectId(enter(parsed.project))
            match = find_job(self.store, project, parsed.id)
            if match.name != str(replace(parsed, project=project)):
                return not_found(name)
            return _check_no_trial(match.record)
        except Refusal as refusal:
            return refusal

    def resume(self, project: ProjectId, job_id: str, *, by: str) -> None:
        """Resume a held job, or all held trials of a tuning job, except those that it paused."""
        record = find_job(self.store, project, job_id).record
        if record.is_paused:
            why = record.job.explanation.message if record.job.explanation else ""
            raise Refusal(Code.FAILED_PRECONDITION, f"{record.name} cannot be resumed: {why}")
        resumed = [self.jobs.resume(held, by=by) for held in self._list_held(record)]
        if not any(resumed):
            state = record.job.status.state.value
            raise Refusal(
                Code.FAILED_PRECONDITION,
                f"{record.name} is {state}, and this server does not hold it: only a job whose "
                "attempt a person has cancelled in its cluster can be resumed. If the job waits, "
                f"its reason is in: trainshed jobs explain {record.uid}",
            )

    def _list_held(self, record: JobRecord) -> Sequence[JobRecord]:
        """List the job, or the trials of the study, if they are held."""
        if not record.job.spec.is_study:
            return [record] if record.is_held else []
        trials = [trial.job_uid for trial in self.store.trial_results(record.uid)]
        records = self.store.jobs_by_uid(trials).values()
        return [trial for trial in records if trial.is_held and not trial.is_paused]

    def delete(self, project: ProjectId, job_id: str) -> None:
        """Hide a job that has ended from all lists; its log and events stay until retention."""
        match = find_job(self.store, project, job_id)
        job = _check_no_trial(match.record).job
        if match.pipeline:
            self.pipelines.delete(project, match.pipeline.location, JobId(job_id))
        else:
            self.jobs.delete(match.record.kind, project, job.location, JobId(job.job_id))

    def label(
        self, project: ProjectId, job_id: str, changes: Mapping[str, str | None]
    ) -> JobLabels:
        """Set labels of a job, and remove those whose value is None; return all its labels."""
        for _ in range(_LABEL_TRIES):
            match = find_job(self.store, project, job_id)
            if match.pipeline:
                message = f"{match.name} is a training pipeline, whose labels cannot change"
                raise Refusal(Code.FAILED_PRECONDITION, f"{message}; label its custom job instead")
            record = match.record
            merged = {**(record.job.labels or {}), **changes}
            labels = {key: value for key, value in merged.items() if value is not None}
            if broken := tuple(label_violations(record.job.spec.dialect, labels, "labels")):
                raise invalid(broken)
            try:
                self.store.set_labels(record.uid, labels, record.job.etag)
            except StaleEtag:
                continue
            except KeyError:
                raise not_found(record.name) from None
            return JobLabels(labels=labels)
        message = f"job {job_id} changes too quickly to be labelled; try again"
        raise Refusal(Code.ABORTED, message)


def _result(name: str, target: JobRecord | Refusal, unstable: Collection[int]) -> OrderResult:
    if isinstance(target, Refusal):
        return OrderResult(name=name, code=target.code.name, message=target.message)
    if target.uid in unstable:
        message = "the job changes too quickly to be cancelled; try again"
        return OrderResult(name=name, code=Code.ABORTED.name, message=message)
    return OrderResult(name=name, code=OK)


def _check_no_trial(record: JobRecord) -> JobRecord:
    """Return the record.  Raises Refusal for the job of a trial of AI Platform."""
    if record.kind is not JobKind.TRIAL:
        return record
    study = record.name.partition("/trials/")[0]
    message = f"{record.name} is a trial; cancel or delete its tuning job {study}"
    raise Refusal(Code.FAILED_PRECONDITION, message)
