"""Checks and submits the text of a job, and renders a stored job as a text to submit again."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from trainshed.admission import ClusterRow
from trainshed.admission.rules.job import JOB_ID
from trainshed.model.faults import Field, FieldPath, Violation
from trainshed.model.job import JobSpec
from trainshed.model.refusals import Refusal
from trainshed.model.resource_names import PIPELINES, ProjectId, resource_name
from trainshed.planning.prices import Machines, machines_of
from trainshed.service.costs.prices import PriceSource
from trainshed.service.jobs.job_service import JobService
from trainshed.service.jobs.pipelines import PipelineService
from trainshed.service.jobs.refusing import invalid
from trainshed.service.jobs.submission import AdmittedJob, JudgedSubmission
from trainshed.service.texts.answers import (
    ClusterMachines,
    ClusterPrice,
    StoredDocument,
    StoredJobName,
    TextCheck,
    TextViolation,
    shift_first_line,
)
from trainshed.service.texts.document_paths import value_at
from trainshed.service.texts.reading import (
    BYTE_ORDER_MARK,
    TextJob,
    Unreadable,
    read_job_text,
)
from trainshed.service.texts.starts import TextStarts
from trainshed.service.texts.stored_texts import StoredTexts, free_job_id
from trainshed.service.texts.unreadable import find_edit
from trainshed.service.texts.violation_edits import EditFinder
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
#: The id of a text without one is the next after this.
_BEFORE_FIRST_ID: Final = "job_0"
#: A job that needs all that checks read, but a bucket.
_WARMING_REGION: Final = "us-central1"
_WARMING_MACHINE: Final = "n1-standard-4"
_WARMING_TEXT: Final = f"""
displayName: warming
jobSpec:
  workerPoolSpecs:
  - machineSpec: {{machineType: {_WARMING_MACHINE}}}
    replicaCount: 1
    pythonPackageSpec:
      executorImageUri: us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest
      packageUris: [gs://no-bucket/trainer.tar.gz]
      pythonModule: trainer.task
"""
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
    starts: TextStarts
    prices: PriceSource = field(default_factory=PriceSource)

    def check(self, project: ProjectId, text: str, location: str | None) -> TextCheck:
        """Check a text as a submission does; store and start nothing.

        The check of an empty text also reads what later checks need, which takes 0.2 s once: pages
        send one when they open.
        """
        if not text.strip():
            self._warm_up(project)
        if text.startswith(BYTE_ORDER_MARK):
            return shift_first_line(self._check(project, text[1:], location))
        return self._check(project, text, location)

    def _warm_up(self, project: ProjectId) -> None:
        """Read the price lists, the installed packages and the fleet into memory."""
        self._judge(project, read_job_text(_WARMING_TEXT, _WARMING_REGION))
        self.prices.list_for(_WARMING_REGION).of([Machines(count=1, machine_type=_WARMING_MACHINE)])
        self.starts.forecasts.can_tell()

    def _check(self, project: ProjectId, text: str, location: str | None) -> TextCheck:
        try:
            job = read_job_text(text, location)
        except Unreadable as fault:
            violation = replace(fault.violation, edit=find_edit(text, fault.violation))
            return TextCheck(valid=False, violations=[violation], notes=[], cluster=[])
        submission = self._judge(project, job)
        judgement, kind = submission.judgement, _LISTED[job.kind]
        try:
            admitted = self._admit(project, job, submission)
        except Refusal as refusal:
            violations = self._with_edits(project, job, refusal.violations)
            return TextCheck(
                valid=False, kind=kind, violations=violations, notes=judgement.notes, cluster=[]
            )
        return TextCheck(
            valid=True,
            kind=kind,
            violations=[],
            notes=judgement.notes,
            cluster=machines_by_row(judgement.cluster),
            price=self._price(admitted.expanded),
            start=self.starts.forecast(project, job, submission, admitted, self._judge),
        )

    def _price(self, spec: JobSpec) -> ClusterPrice:
        """Return the price of an hour of a job's machines."""
        prices, machines = self.prices.list_for_job(spec), machines_of(spec)
        price = prices.of(machines)
        return ClusterPrice(
            hourly=price.amount if price else None,
            currency=price.currency if price else None,
            list_date=min(price.dates, default=None) if price else None,
            missing=list(dict.fromkeys(prices.lacking(machines))),
        )

    def _admit(self, project: ProjectId, job: TextJob, submission: JudgedSubmission) -> AdmittedJob:
        """Return the job of a judged text.  Raises Refusal with all violations."""
        if violations := self._list_violations(project, job, submission):
            raise invalid(violations)
        return self.jobs.admit_judged(project, submission)

    def _with_edits(
        self, project: ProjectId, job: TextJob, violations: Sequence[Violation]
    ) -> Sequence[TextViolation]:
        """Return the violations with their ranges in the text, and edits that repair them."""

        def judge(changed: TextJob) -> Sequence[Violation]:
            return self._list_violations(project, changed, self._judge(project, changed))

        finder = EditFinder(job, violations, judge, self._find_free_id(project, job))
        located = job.locate_violations(violations)
        return [
            replace(row, edit=finder.find(violation))
            for violation, row in zip(violations, located, strict=True)
        ]

    def _find_free_id(self, project: ProjectId, job: TextJob) -> str:
        job_id = value_at(job.merged.content, "jobId")
        is_usable = isinstance(job_id, str) and JOB_ID.fullmatch(job_id)
        return free_job_id(self.jobs, project, job_id if is_usable else _BEFORE_FIRST_ID)

    def submit(
        self,
        project: ProjectId,
        text: str,
        location: str | None,
        *,
        creator: str,
        retry_key: str | None = None,
    ) -> StoredJobName:
        """Store the job of a text; a call with the same ``retry_key`` returns the earlier job.

        Raises Refusal with all violations, as a create does.
        """
        try:
            job = read_job_text(text, location)
        except Unreadable as fault:
            broken = fault.violation
            violation = Violation(field=broken.field, rule=broken.rule, message=broken.message)
            raise invalid([violation]) from None
        if any(_list_extra_violations(job)):
            raise invalid(self._list_violations(project, job, self._judge(project, job)))
        return self._create(project, job, creator, retry_key)

    def document(self, project: ProjectId, job_id: str) -> StoredDocument:
        """Return a stored job in the words of its own API, and as a text to submit again."""
        return StoredTexts(self.store, self.jobs, self.pipelines).document(project, job_id)

    def _create(
        self, project: ProjectId, job: TextJob, creator: str, retry_key: str | None
    ) -> StoredJobName:
        content, location = job.merged.content, job.merged.region or ""
        if job.kind is DocumentKind.TRAINING_PIPELINE:
            stored = self.pipelines.create(
                project, location, content, creator=creator, retry_key=retry_key
            ).job
            name = resource_name(PIPELINES, project, location, stored.job_id)
        else:
            record = self.jobs.create(
                _KINDS[job.kind], project, location, content, creator=creator, retry_key=retry_key
            )
            stored, name = record.job, record.name
        shown = stored.spec.display_name or stored.job_id
        return StoredJobName(name=name, display_name=shown, project=project, job=stored.job_id)

    def _judge(self, project: ProjectId, job: TextJob) -> JudgedSubmission:
        if job.kind is DocumentKind.TRAINING_PIPELINE:
            return self.pipelines.judge(project, job.merged)
        return self.jobs.judge(_KINDS[job.kind], project, job.merged, PARSE[job.kind])

    def _list_violations(
        self, project: ProjectId, job: TextJob, submission: JudgedSubmission
    ) -> tuple[Violation, ...]:
        """Return all violations for which a submission would be refused."""
        is_spec = job.kind is DocumentKind.CUSTOM_JOB_SPEC  # it has no display name
        broken = (v for v in submission.violations if not (is_spec and v.rule == "display-name"))
        return (*broken, *_list_extra_violations(job), *self._check_id(project, job, submission))

    def _check_id(
        self, project: ProjectId, job: TextJob, submission: JudgedSubmission
    ) -> Iterator[Violation]:
        question = submission.judgement.question
        job_id = question.submitted_spec.job_id if question else ""
        if job.kind is DocumentKind.ML_JOB and job_id and self.jobs.exists(project, job_id):
            message = f"the project already has a job {job_id}"
            accepted = f"an id that no job has, such as {free_job_id(self.jobs, project, job_id)}"
            name = submission.judgement.say(FieldPath(Field.JOB_ID))
            yield Violation(field=name, rule="job-id", message=message, accepted=accepted)


def _list_extra_violations(job: TextJob) -> Iterable[Violation]:
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
