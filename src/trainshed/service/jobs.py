"""The use cases of jobs: submit, look, list, cancel, delete, label."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from trainshed.model.filters import AllOf, Filter
from trainshed.model.refusals import Code, Refusal
from trainshed.model.status import JobState
from trainshed.model.trials import TrialView
from trainshed.service.bucket_uris import claim_buckets
from trainshed.service.fleet import SeenFleet
from trainshed.service.operations import deleted
from trainshed.service.paging import next_page, page_of
from trainshed.service.patching import Patch, patch_of
from trainshed.service.refusing import not_found
from trainshed.service.resource_names import job_name
from trainshed.service.studies import as_study, trial_views
from trainshed.service.submission import Admitted, Parse, SubmitRules, admit
from trainshed.store.base import AlreadyThere, StaleEtag, StoreBase
from trainshed.store.decisions import cancel_step
from trainshed.store.records import (
    ML_KINDS,
    JobQuery,
    JobRecord,
    Kind,
    NewEvent,
    NewJob,
    Operation,
    Step,
)
from trainshed.wire.aiplatform_v1 import listing as vertex_listing
from trainshed.wire.aiplatform_v1 import parse as aiplatform_v1
from trainshed.wire.ml_v1 import listing as ml_listing
from trainshed.wire.ml_v1 import parse as ml_v1

PARSE: Final[Mapping[Kind, Parse]] = {
    Kind.ML_JOB: ml_v1.job,
    Kind.CUSTOM_JOB: aiplatform_v1.custom_job,
    Kind.TUNING_JOB: aiplatform_v1.tuning_job,
}

FILTERS: Final[Mapping[Kind, Callable[[str], Filter]]] = {
    Kind.ML_JOB: ml_listing.jobs_filter,
    Kind.CUSTOM_JOB: vertex_listing.jobs_filter,
    Kind.TUNING_JOB: vertex_listing.jobs_filter,
}

#: ml v1 jobs have no location of their own; their region is a field.
GLOBAL: Final = "global"

#: All locations, in a list.
ANY_LOCATION: Final = "-"

_CANCEL_TRIES = 20


class JobService:
    """Jobs as both dialects see them.  All refusals are ``Refusal``; thread-safe."""

    def __init__(
        self,
        store: StoreBase,
        rules: SubmitRules,
        wake: Callable[[], None],
        now: Callable[[], datetime] = lambda: datetime.now(tz=UTC),
        *,
        submitted: Callable[[], None] | None = None,
    ) -> None:
        """``wake`` tells the controller that there is something to do, and returns at once.

        ``submitted`` says that it is a new job, which concerns fewer; ``wake`` unless given.
        """
        self._store = store
        self._fleet = SeenFleet(store, rules.quotas)
        self._rules = rules
        self._wake = wake
        self._submitted = submitted or wake
        self._now = now

    def create(  # noqa: PLR0913  # what a create call consists of
        self,
        kind: Kind,
        project: str,
        location: str,
        document: Any,
        *,
        creator: str,
        retry_key: str | None = None,
    ) -> JobRecord:
        """Store a queued job, durably; a repeated call gets the first one's job."""
        is_ml = kind is Kind.ML_JOB
        admitted = admit(document, None if is_ml else location, self._rules, PARSE[kind])
        if admitted.spec.study:
            admitted = as_study(self._store, project, admitted)
        new = NewJob(
            kind=kind,
            project=project,
            location=GLOBAL if is_ml else location,
            job_id=admitted.spec.job_id,
            spec=admitted.spec,
            expanded=admitted.expanded,
            demand=admitted.demand,
            creator=creator,
            notes=admitted.notes,
            told=admitted.told,
            retry_key=retry_key,
            running_s_max=admitted.limits.running_s_max,
            waiting_s_max=admitted.limits.waiting_s_max,
        )
        self.check_place(project, admitted)
        try:
            record, _ = self._store.add_job(new)
        except AlreadyThere:
            name = job_name(kind, project, location, new.job_id)
            raise Refusal(Code.ALREADY_EXISTS, f"{name} already exists") from None
        self._submitted()
        return record

    def check_place(self, project: str, admitted: Admitted) -> None:
        """Refuse what could never run here, and buckets of others.  Raises Refusal."""
        self._fleet.check(project, admitted.demand)
        claim_buckets(self._store, project, admitted.expanded)

    def get(self, kind: Kind, project: str, location: str, job_id: str) -> JobRecord:
        """The job of a name; while it waits, with its place in the queue."""
        record = self._find(kind, project, location, job_id)
        if record.job.status.state is not JobState.QUEUED:
            return record
        before = self._store.queue_position(record.uid)
        # clients take a place of 0 for "scheduled already" (contracts/vertex-sdk.md 8)
        position = None if before is None else before + 1
        status = replace(record.job.status, queue_position=position)
        return replace(record, job=replace(record.job, status=status))

    def trials(self, record: JobRecord) -> Sequence[TrialView]:
        """The trials of a tuning job by number; none of any other job."""
        return trial_views(self._store, record)

    def list(  # noqa: PLR0913  # what a list call consists of
        self,
        kind: Kind,
        project: str,
        location: str,
        *,
        filter_text: str = "",
        page_size: int = 0,
        page_token: str = "",
    ) -> tuple[Sequence[JobRecord], str]:
        """One page, newest first, and the token of the next; empty where there is none."""
        found = FILTERS[kind](filter_text) if filter_text else AllOf()
        scope = (kind.value, project, location, filter_text)
        page = page_of(kind, scope, page_size, page_token, self._now())
        is_anywhere = kind is Kind.ML_JOB or location == ANY_LOCATION
        query = JobQuery(
            project=project,
            kind=kind,
            location=None if is_anywhere else location,
            filter=found,
            page_size=page.size + 1,
            after=page.after,
        )
        records = self._store.list_jobs(query)
        keys = [(record.job.status.create_time, record.uid) for record in records]
        return records[: page.size], next_page(page, keys, self._now())

    def cancel(self, kind: Kind, project: str, location: str, job_id: str, *, by: str = "") -> None:
        """Ask for the job's end.  One that is over stays as it is, and that is no error."""
        for _ in range(_CANCEL_TRIES):
            step = cancel_step(self._find(kind, project, location, job_id))
            if step is None:
                return
            if self._store.apply([_signed(step, by)])[0]:
                self._wake()
                return
        name = job_name(kind, project, location, job_id)
        raise Refusal(Code.ABORTED, f"{name} changes too quickly to be cancelled; try again")

    def delete(self, kind: Kind, project: str, location: str, job_id: str) -> Operation:
        """Hide a job that is over; its log and story stay."""
        record = self._find(kind, project, location, job_id)
        name = job_name(kind, project, location, job_id)
        if not record.job.status.state.is_final:
            raise Refusal(
                Code.FAILED_PRECONDITION,
                f"{name} is {record.job.status.state.value} and cannot be deleted; "
                "cancel it first and wait for its end",
            )
        self._store.delete_job(record.uid)
        return deleted(self._store, project, location, self._now())

    def patch(self, project: str, job_id: str, document: Any, update_mask: str) -> JobRecord:
        """Replace the labels of an ml v1 job; an etag in the document must be today's."""
        record = self._find(Kind.ML_JOB, project, "", job_id)
        patch = patch_of(document, update_mask)
        try:
            return self._patched(record, patch)
        except KeyError:  # it was deleted, or forgotten, since it was found
            raise not_found(job_name(Kind.ML_JOB, project, "", job_id)) from None
        except StaleEtag:
            raise Refusal(
                Code.ABORTED,
                f"projects/{project}/jobs/{job_id} has changed since the etag was read; get it "
                "again and repeat the change",
            ) from None

    def _patched(self, record: JobRecord, patch: Patch) -> JobRecord:
        if patch.labels is not None:
            return self._store.set_labels(record.uid, patch.labels, patch.etag)
        if patch.etag is not None and patch.etag != record.job.etag:
            raise StaleEtag
        return record

    def _find(self, kind: Kind, project: str, location: str, job_id: str) -> JobRecord:
        record = self._store.job(project, kind, job_id)
        if record is None or (kind not in ML_KINDS and record.job.location != location):
            raise not_found(job_name(kind, project, location, job_id))
        return record


def _signed(step: Step, by: str) -> Step:
    """The story tells who wanted the end."""
    asked = NewEvent(kind="CANCEL_REQUESTED", message=f"{by or 'Somebody'} asked to cancel the job")
    return replace(step, events=(asked, *step.events))
