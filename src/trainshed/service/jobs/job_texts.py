"""Checks and submits the text of a job, and renders a stored job as a text to submit again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed.admission import ClusterRow
from trainshed.model.faults import Violation
from trainshed.model.job import JobSpec
from trainshed.model.resource_names import PIPELINES, ProjectId, resource_name
from trainshed.planning.prices import PriceList, machines_of
from trainshed.service.jobs.job_service import JobService
from trainshed.service.jobs.pipelines import PipelineService
from trainshed.service.jobs.refusing import invalid
from trainshed.service.jobs.stored_texts import StoredTexts
from trainshed.service.jobs.submission import JudgedSubmission
from trainshed.service.jobs.text_answers import (
    ClusterMachines,
    ClusterPrice,
    StartForecast,
    StoredDocument,
    StoredJobName,
    TextCheck,
)
from trainshed.service.jobs.text_check import TextJob, Unreadable, read_job_text
from trainshed.store.listed_jobs import ListedKind
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind
from trainshed.wire.detect import PARSE, DocumentKind

_LISTED: Final[Mapping[DocumentKind, ListedKind]] = {
    DocumentKind.ML_JOB: ListedKind.AI_PLATFORM_JOB,
    DocumentKind.TUNING_JOB: ListedKind.TUNING_JOB,
    DocumentKind.TRAINING_PIPELINE: ListedKind.TRAINING_PIPELINE,
    DocumentKind.CUSTOM_JOB: ListedKind.CUSTOM_JOB,
    DocumentKind.CUSTOM_JOB_SPEC: ListedKind.CUSTOM_JOB,
}
_KINDS: Final[Mapping[DocumentKind, JobKind]] = {
    DocumentKind.ML_JOB: JobKind.ML_JOB,
    DocumentKind.TUNING_JOB: JobKind.TUNING_JOB,
    DocumentKind.CUSTOM_JOB: JobKind.CUSTOM_JOB,
    DocumentKind.CUSTOM_JOB_SPEC: JobKind.CUSTOM_JOB,
}
_NO_LOCATION: Final = Violation(
    field="location",
    rule="region-unknown",
    message="this field is required",
    accepted="a region, such as us-central1",
)
_ONLY_SPEC: Final = Violation(
    field="",
    rule="not-a-job",
    message="this is a CustomJobSpec, which gcloud makes a job of",
    accepted="the same below jobSpec, with a displayName beside it",
)


@dataclass(frozen=True, slots=True)
class JobTexts:
    """Texts of jobs.  Methods raise Refusal.  Thread-safe."""

    store: Store
    jobs: JobService
    pipelines: PipelineService

    def check(self, project: ProjectId, text: str, location: str | None) -> TextCheck:
        """Check a text as a submission does; store and start nothing."""
        try:
            job = read_job_text(text, location)
        except Unreadable as fault:
            return TextCheck(valid=False, violations=[fault.violation], notes=[], cluster=[])
        submission = self._judge(project, job)
        judgement, violations = submission.judgement, _all_violations(job, submission)
        if violations or judgement.question is None:
            return TextCheck(
                valid=False,
                kind=_LISTED[job.kind],
                violations=job.locate_violations(violations),
                notes=judgement.notes,
                cluster=[],
            )
        return TextCheck(
            valid=True,
            kind=_LISTED[job.kind],
            violations=[],
            notes=judgement.notes,
            cluster=machines_by_row(judgement.cluster),
            price=price_of_cluster(judgement.question.spec),
            start=self._forecast(project, job, submission),
        )

    def submit(
        self, project: ProjectId, text: str, location: str | None, *, creator: str
    ) -> StoredJobName:
        """Store the job of a text.  Raises Refusal with all violations, as a create does."""
        try:
            job = read_job_text(text, location)
        except Unreadable as fault:
            broken = fault.violation
            violation = Violation(field=broken.field, rule=broken.rule, message=broken.message)
            raise invalid([violation]) from None
        if extra := tuple(_extra_violations(job)):
            raise invalid(_all_violations(job, self._judge(project, job)) or extra)
        return self._create(project, job, creator)

    def document(self, project: ProjectId, job_id: str) -> StoredDocument:
        """Return a stored job in the words of its own API, and as a text to submit again."""
        return StoredTexts(self.store, self.jobs, self.pipelines).document(project, job_id)

    def _create(self, project: ProjectId, job: TextJob, creator: str) -> StoredJobName:
        content, location = job.merged.content, job.merged.region or ""
        if job.kind is DocumentKind.TRAINING_PIPELINE:
            view = self.pipelines.create(project, location, content, creator=creator)
            name = resource_name(PIPELINES, project, location, view.job.job_id)
            return StoredJobName(name=name, project=project, job=view.job.job_id)
        record = self.jobs.create(_KINDS[job.kind], project, location, content, creator=creator)
        return StoredJobName(name=record.name, project=project, job=record.job.job_id)

    def _judge(self, project: ProjectId, job: TextJob) -> JudgedSubmission:
        if job.kind is DocumentKind.TRAINING_PIPELINE:
            return self.pipelines.judge(project, job.merged)
        return self.jobs.judge(_KINDS[job.kind], project, job.merged, PARSE[job.kind])

    def _forecast(
        self, project: ProjectId, job: TextJob, submission: JudgedSubmission
    ) -> StartForecast | None:
        del project, job, submission
        return None


def _all_violations(job: TextJob, submission: JudgedSubmission) -> tuple[Violation, ...]:
    is_spec = job.kind is DocumentKind.CUSTOM_JOB_SPEC  # it has no display name
    broken = (v for v in submission.violations if not (is_spec and v.rule == "display-name"))
    return (*broken, *_extra_violations(job))


def _extra_violations(job: TextJob) -> Iterable[Violation]:
    """Yield what a call refuses and the judge of documents does not."""
    if job.kind is not DocumentKind.ML_JOB and job.merged.region is None:
        yield _NO_LOCATION
    if job.kind is DocumentKind.CUSTOM_JOB_SPEC:
        yield _ONLY_SPEC


def machines_by_row(cluster: Iterable[ClusterRow]) -> Sequence[ClusterMachines]:
    """Return the cluster of a judged document."""
    return [
        ClusterMachines(
            role=row.role,
            count=row.count,
            machine_type=row.machine_type,
            vcpus=row.vcpus,
            memory_gb=row.memory_gb,
            accelerator_type=row.accelerator_type,
            accelerator_count=row.accelerator_count,
        )
        for row in cluster
    ]


def price_of_cluster(spec: JobSpec) -> ClusterPrice:
    """Return the price of an hour of a job's machines by the catalog's lists."""
    prices = PriceList(region=spec.region, spot=spec.scheduling.strategy == "SPOT")
    machines = machines_of(spec)
    price = prices.of(machines)
    return ClusterPrice(
        hourly=price.amount if price else None,
        currency=price.currency if price else None,
        list_date=min(price.dates, default=None) if price else None,
        missing=list(dict.fromkeys(prices.lacking(machines))),
    )
