"""The use cases of jobs: create, get, list, cancel, delete, patch labels."""

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from trainshed.engines.base import JobNeeds
from trainshed.model.explanation import Explanation
from trainshed.model.faults import Fault
from trainshed.model.filters import Filter
from trainshed.model.job import JobSpec
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import (
    JOBS,
    OPERATIONS,
    JobId,
    JobUid,
    OperationId,
    ProjectId,
    resource_name,
)
from trainshed.model.resources import SeatsOrClaim
from trainshed.model.study_start import NO_START, StartCall
from trainshed.model.trials import TrialView
from trainshed.service.jobs.open_jobs import OpenJobs
from trainshed.service.jobs.paging import ListCall, one_page
from trainshed.service.jobs.refusing import Merged, invalid, not_found
from trainshed.service.jobs.start_story import read_start_story
from trainshed.service.jobs.story import place_in_queue
from trainshed.service.jobs.studies import as_study, parse_resumed, trial_views
from trainshed.service.jobs.study_answers import StudyStartReport
from trainshed.service.jobs.study_starts import build_start
from trainshed.service.jobs.submission import (
    LOCATION,
    AdmittedJob,
    FleetCheck,
    JudgedSubmission,
    Parse,
    SubmitRules,
    admit,
    check_object,
    judge_submission,
    lacks_of,
)
from trainshed.service.starts.bucket_uris import buckets_of_project
from trainshed.store.base import AlreadyThere, StaleEtag
from trainshed.store.decisions import cancel_step
from trainshed.store.opening import Store
from trainshed.store.records.jobs import ML_KINDS, JobKind, JobRecord
from trainshed.store.records.models import Operation
from trainshed.store.records.steps import NewEvent, Step
from trainshed.wire.aiplatform_v1 import parse as aiplatform_v1
from trainshed.wire.aiplatform_v1.words import jobs_filter as vertex_filter
from trainshed.wire.ml_v1 import parse as ml_v1
from trainshed.wire.ml_v1.parse import Patch, patch_of
from trainshed.wire.ml_v1.words import jobs_filter as ml_filter

PARSE: Final[Mapping[JobKind, Parse]] = {
    JobKind.ML_JOB: ml_v1.job,
    JobKind.CUSTOM_JOB: aiplatform_v1.custom_job,
    JobKind.TUNING_JOB: aiplatform_v1.tuning_job,
}

FILTERS: Final[Mapping[JobKind, Callable[[str], Filter]]] = {
    JobKind.ML_JOB: ml_filter,
    JobKind.CUSTOM_JOB: vertex_filter,
    JobKind.TUNING_JOB: vertex_filter,
}

#: ml v1 jobs have no location of their own; their region is a field.
GLOBAL: Final = "global"

_CANCEL_TRIES = 20
#: Each write keeps others waiting.
_CANCELS_OF_A_WRITE: Final = 100


@dataclass(frozen=True, slots=True)
class CreateCall:
    """A job to create; ``start`` is what a study has before its first trial."""

    kind: JobKind
    project: ProjectId
    location: str
    document: Any
    start: StartCall = NO_START

    def check_location(self) -> None:
        """Raise Refusal if a Vertex job has no location, or another job has one."""
        if bool(self.location) is (self.kind is JobKind.ML_JOB):
            of_ml = "left out for AI Platform jobs"
            accepted = of_ml if self.location else "the region of a Vertex job"
            message = f"location must be {accepted}, got {self.location!r}"
            raise Refusal(Code.INVALID_ARGUMENT, message)


class JobService:
    """Jobs for both dialects.  Methods raise Refusal.  Thread-safe."""

    def __init__(
        self,
        store: Store,
        rules: SubmitRules,
        wake: Callable[[], None],
        now: Callable[[], datetime] = lambda: datetime.now(tz=UTC),
        *,
        submitted: Callable[[], None] | None = None,
    ) -> None:
        """``wake`` wakes the controller and returns at once.

        ``submitted`` wakes only the threads that handle new jobs; default: ``wake``.
        """
        self._store = store
        self._fleet = FleetCheck(store, rules.quotas, engines=rules.engines)
        self._bytes = rules.project_bytes
        self._open_jobs = OpenJobs(store.open_count, rules.project_jobs_max)
        self._rules = rules
        self._wake = wake
        self._submitted = submitted or wake
        self._now = now

    def create(  # noqa: PLR0913  # what a create call consists of
        self,
        kind: JobKind,
        project: ProjectId,
        location: str,
        document: Any,
        *,
        creator: str,
        retry_key: str | None = None,
    ) -> JobRecord:
        """Store a queued job durably; a repeated call returns the job of the first call."""
        given = CreateCall(kind, project, location, document, NO_START)
        return self.create_study(given, creator=creator, retry_key=retry_key)[0]

    def create_study(
        self, call: CreateCall, *, creator: str, retry_key: str | None = None
    ) -> tuple[JobRecord, StudyStartReport | None]:
        """Create a job, a study with what it has before its first trial; no trial is earlier.

        The report says which known results the study uses; it is None if there are none.  A
        repeated call returns the first study and its report, also if its sources have changed.
        """
        kind, project, location = call.kind, call.project, call.location
        if retry_key and call.start != NO_START and (first := self._store.job_of_key(retry_key)):
            return first, read_start_story(self._store, first.uid).report
        admitted = self._admit(call)
        job_location = GLOBAL if kind is JobKind.ML_JOB else location
        new = admitted.as_new(kind, project, job_location, creator, retry_key)
        self.check_place(project, admitted)
        try:
            record, is_new = self._store.add_job(new)
        except AlreadyThere:
            raise _already_exists(kind, project, location, new.job_id) from None
        self._submitted()
        if not is_new:
            return record, read_start_story(self._store, record.uid).report
        self._rules.noted(record.uid, project, admitted.expanded)
        return record, admitted.start.report if admitted.start else None

    def admit(self, call: CreateCall) -> tuple[AdmittedJob, SeatsOrClaim]:
        """Check a job as ``create`` does, and return where it would run; store nothing."""
        kind, project, location = call.kind, call.project, call.location
        admitted = self._admit(call)
        place = self._fleet.place(admitted.needs(project), lacks_of(admitted.expanded, self._rules))
        self.check_limits(project)
        job_id = admitted.spec.job_id
        if job_id and self.exists(project, job_id):
            raise _already_exists(kind, project, location, job_id)
        return admitted, place

    def exists(self, project: ProjectId, job_id: str) -> bool:
        """Return whether an AI Platform job has this id."""
        return self._store.job(project, JobKind.ML_JOB, JobId(job_id)) is not None

    def check_limits(self, project: ProjectId) -> None:
        """Raise Refusal if a limit of the project permits no other job; count none."""
        self._bytes.check(project)
        self._open_jobs.admit(project, new_jobs=0)

    def find_obstacle(self, project: ProjectId, admitted: AdmittedJob) -> Explanation | None:
        """Return why a job can never run here; None if it can, or the fleet is unknown."""
        lacks = lacks_of(admitted.expanded, self._rules)
        return self._fleet.find_obstacle(admitted.needs(project), lacks)

    def choose_engine(self, needs: JobNeeds, spec: JobSpec | None = None) -> str | None:
        """Return the engine that would run a job; None if none can, or engines have no names.

        ``spec`` is the expanded spec, whose programs the engine must be able to start.
        """
        if spec is None:
            return self._fleet.choose_engine(needs)
        return self._fleet.choose_engine(needs, lacks_of(spec, self._rules))

    def _admit(self, call: CreateCall) -> AdmittedJob:
        region = None if call.kind is JobKind.ML_JOB else call.location
        merged = Merged(content=check_object(call.document), region=region, region_word=LOCATION)
        submission = self.judge(call.kind, call.project, merged)
        return self.admit_judged(call.project, submission, call.start)

    def judge(
        self, kind: JobKind, project: ProjectId, merged: Merged, parse: Parse | None = None
    ) -> JudgedSubmission:
        """Judge the document of a job as ``create`` does; store nothing, raise nothing.

        ``parse`` reads the document; by default as a document of this kind.
        """
        parse = parse or PARSE[kind]
        if kind is JobKind.ML_JOB:
            parse = partial(parse_resumed, parse, self._store, project)
        has_bucket = buckets_of_project(self._store, project)
        return judge_submission(merged, self._rules, parse, has_bucket)

    def admit_judged(
        self, project: ProjectId, submission: JudgedSubmission, start: StartCall = NO_START
    ) -> AdmittedJob:
        """Return the job of a judged document.  Raises Refusal with its violations."""
        admitted = admit(submission, self._rules)
        if admitted.spec.study:
            admitted = as_study(self._store, project, admitted)
        built = build_start(self._store, project, admitted.spec, start)
        return replace(admitted, start=built) if built else admitted

    def check_place(self, project: ProjectId, admitted: AdmittedJob) -> None:
        """Raise Refusal for a job that can never run or exceeds a limit of its project."""
        self._fleet.check(admitted.needs(project), lacks_of(admitted.expanded, self._rules))
        self._bytes.check(project)
        self._open_jobs.admit(project)

    def get(self, kind: JobKind, project: ProjectId, location: str, job_id: JobId) -> JobRecord:
        """Return a job by name; while it waits, with its place in the queue."""
        record = self._find(kind, project, location, job_id)
        if not record.job.status.state.waits:
            return record
        position = place_in_queue(self._store, record)
        status = replace(record.job.status, queue_position=position)
        return replace(record, job=replace(record.job, status=status))

    def trials(self, record: JobRecord) -> Sequence[TrialView]:
        """Return the trials of a tuning job by number; none for other jobs."""
        return trial_views(self._store, record)

    def list(self, call: ListCall) -> tuple[Sequence[JobRecord], str]:
        """Return one page, newest first, and the token of the next page or an empty text."""
        return one_page(call, FILTERS[call.kind], self._store.list_jobs, _key_of, self._now())

    def cancel(
        self, kind: JobKind, project: ProjectId, location: str, job_id: JobId, *, by: str = ""
    ) -> None:
        """Cancel a job; do nothing if it has ended."""
        record = self._find(kind, project, location, job_id)
        if self.cancel_records([record], by=by):
            message = f"{record.name} changes too quickly to be cancelled; try again"
            raise Refusal(Code.ABORTED, message)

    def cancel_records(self, records: Sequence[JobRecord], *, by: str = "") -> Collection[JobUid]:
        """Cancel jobs in a few writes; those that have ended do not change.

        Return the jobs that changed too quickly to be cancelled.
        """
        unstable: set[JobUid] = set()
        for first in range(0, len(records), _CANCELS_OF_A_WRITE):
            unstable |= self._cancel_part(records[first : first + _CANCELS_OF_A_WRITE], by)
        return unstable

    def _cancel_part(self, records: Sequence[JobRecord], by: str) -> set[JobUid]:
        left = list(records)
        for _ in range(_CANCEL_TRIES):
            steps = [step for record in left if (step := cancel_step(record))]
            if not steps:
                return set()
            applied = self._store.apply([_add_request_event(step, by) for step in steps])
            if any(applied):
                self._wake()
            refused = [s.uid for s, done in zip(steps, applied, strict=True) if not done]
            left = list(self._store.jobs_by_uid(refused).values()) if refused else []
        return {record.uid for record in left}

    def resume(self, record: JobRecord, *, by: str) -> bool:
        """Let a held job wait for its next attempt; return False if it is not held any more."""
        message = f"{by or 'A user'} resumed the job; it is queued again"
        is_resumed = self._store.resume(record.uid, NewEvent(kind="RESUMED", message=message))
        if is_resumed:
            self._wake()
        return is_resumed

    def delete(self, kind: JobKind, project: ProjectId, location: str, job_id: JobId) -> Operation:
        """Hide a job that has ended; its log and events stay."""
        record = self._find(kind, project, location, job_id)
        name = resource_name(kind.value, project, location, job_id)
        check_over(name, record)
        self._store.delete_job(record.uid)
        return deleted(self._store, project, location, self._now())

    def patch(
        self, project: ProjectId, job_id: JobId, document: Any, update_mask: str
    ) -> JobRecord:
        """Replace the labels of an ml v1 job; an etag in the document must be the current etag."""
        record = self._find(JobKind.ML_JOB, project, "", job_id)
        name = resource_name(JOBS, project, "", job_id)
        try:
            patch = patch_of(document, update_mask)
        except Fault as fault:
            raise invalid(fault.violations) from None
        try:
            return self._apply_patch(record, patch)
        except KeyError:  # it was deleted, or forgotten, since it was found
            raise not_found(name) from None
        except StaleEtag:
            raise Refusal(
                Code.ABORTED,
                f"{name} has changed since the etag was read; get it again and repeat the change",
            ) from None

    def _apply_patch(self, record: JobRecord, patch: Patch) -> JobRecord:
        if patch.labels is not None:
            return self._store.set_labels(record.uid, patch.labels, patch.etag)
        if patch.etag is not None and patch.etag != record.job.etag:
            raise StaleEtag
        return record

    def _find(self, kind: JobKind, project: ProjectId, location: str, job_id: JobId) -> JobRecord:
        record = self._store.job(project, kind, job_id)
        if record is None or (kind not in ML_KINDS and record.job.location != location):
            raise not_found(resource_name(kind.value, project, location, job_id))
        return record


def _already_exists(kind: JobKind, project: ProjectId, location: str, job_id: str) -> Refusal:
    name = resource_name(kind.value, project, location, JobId(job_id))
    return Refusal(Code.ALREADY_EXISTS, f"{name} already exists")


def _add_request_event(step: Step, requester: str) -> Step:
    event = NewEvent(
        kind="CANCEL_REQUESTED", message=f"{requester or 'A user'} asked to cancel the job"
    )
    return replace(step, events=(event, *step.events))


def check_over(name: str, record: JobRecord) -> None:
    """Raise Refusal unless the job has ended."""
    state = record.job.status.state
    if not state.is_final:
        message = f"{name} is {state.value} and cannot be deleted; cancel it first and wait for"
        raise Refusal(Code.FAILED_PRECONDITION, f"{message} its end")


def _key_of(record: JobRecord) -> tuple[datetime | None, int]:
    return record.job.status.create_time, record.uid


_ID_BITS: Final = 62


def deleted(store: Store, project: ProjectId, location: str, now: datetime) -> Operation:
    """Store the operation of a deletion."""
    return new_operation(store, project, location, now)


def new_operation(
    store: Store, project: ProjectId, location: str, now: datetime, resource: str = ""
) -> Operation:
    """Store a finished operation; ``resource`` is the resource that it made."""
    number = OperationId(str(secrets.randbits(_ID_BITS)))
    name = resource_name(OPERATIONS, project, location, number)
    operation = Operation(name=name, project=project, done=True, create_time=now, made=resource)
    store.add_operation(operation)
    return operation


@dataclass(frozen=True, slots=True)
class OperationService:
    """Finished operations, for clients that poll them."""

    store: Store

    def get(self, project: ProjectId, location: str, operation_id: OperationId) -> Operation:
        """Return an operation by name.  Raises Refusal (NOT_FOUND)."""
        name = resource_name(OPERATIONS, project, location, operation_id)
        operation = self.store.operation(name)
        if operation is None or operation.project != project:
            raise not_found(name)
        return operation
