"""What tests of the job services share: a store on disk, services over it, small documents."""

import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from trainshed.config import ImageMapping
from trainshed.engines.container_runtime import Runtime, RuntimeChoice
from trainshed.model.refusals import Refusal
from trainshed.model.status import JobState
from trainshed.service.jobs.job_service import JobService
from trainshed.service.jobs.models import ModelService
from trainshed.service.jobs.pipelines import PipelineService
from trainshed.service.jobs.submission import SubmitRules
from trainshed.service.starts.images import Images
from trainshed.service.texts.forecasts import StartForecasts
from trainshed.service.texts.job_texts import JobTexts
from trainshed.service.texts.starts import TextStarts
from trainshed.service.upkeep.project_bytes import ProjectBytes
from trainshed.store.records.jobs import JobKind, JobRecord
from trainshed.store.records.steps import Step

PROJECT, PLACE = "demo", "us-central1"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

#: Those of the recorded requests, and of the tests' own.
BUCKETS = ("b", "bkt", "bkt1", "my.data", "out", "stage")

#: Stands in for the images of the recorded requests.
MAPPED = tuple(
    ImageMapping(environment="default", image=pattern, entrypoint=("python", "-c", "pass"))
    for pattern in ("REG/*", "gcr.io/*")
)


#: A runtime that is never called.
DOCKER = RuntimeChoice(Runtime("docker", "/usr/bin/docker", "28.2.2", "1000:1000", has_init=True))
NO_DAEMON = RuntimeChoice(None, "docker is installed but its daemon does not answer")


def images(*mappings, environments=(), containers=NO_DAEMON):
    return Images(environments, mappings, sys.executable, containers)


@dataclass
class Desk:
    """The services over one store; ``woken`` counts the calls of the controller."""

    store: object
    table: Images = field(default_factory=lambda: images(*MAPPED))
    quotas: tuple = ()
    project_jobs_max: int | None = None
    project_bytes: ProjectBytes = field(default_factory=ProjectBytes)
    engines: object = None
    now: datetime = NOW
    woken: int = 0

    def __post_init__(self):
        for bucket in BUCKETS:
            self.store.add_bucket(bucket, PROJECT)
        rules = SubmitRules(
            images=self.table,
            engines=self.engines,
            quotas=self.quotas,
            project_jobs_max=self.project_jobs_max,
            project_bytes=self.project_bytes,
            today=lambda: date(2026, 11, 21),
        )
        self.jobs = JobService(self.store, rules, self.wake, lambda: self.now)
        self.pipelines = PipelineService(self.store, rules, self.jobs, self.wake, lambda: self.now)
        self.models = ModelService(self.store, lambda: self.now)

    @property
    def texts(self):
        """The service of texts, with forecasts over this store."""
        choose = self.jobs.choose_engine
        forecasts = StartForecasts(self.store, self.quotas, self.engines, choose)
        starts = TextStarts(self.jobs, forecasts)
        return JobTexts(self.store, self.jobs, self.pipelines, starts)

    def wake(self):
        self.woken += 1

    def ml(self, document, project=PROJECT, **how) -> JobRecord:
        return self.jobs.create(JobKind.ML_JOB, project, "", document, creator="ann", **how)

    def custom(self, document, project=PROJECT, location=PLACE, **how) -> JobRecord:
        return self.jobs.create(
            JobKind.CUSTOM_JOB, project, location, document, creator="ann", **how
        )

    def get(self, record):
        job = record.job
        return self.jobs.get(record.kind, job.project, job.location, job.job_id)

    def put(self, record, state: JobState, **fields):
        """Bring a job into a state, as the controller would; ``fields`` are more of its step."""
        stored = self.store.job_by_uid(record.uid)
        step = Step(uid=stored.uid, version=stored.version, state=state, **fields)
        assert self.store.apply([step]) == [True]
        return self.store.job_by_uid(record.uid)


def ml_job(job_id="job_1", **training):
    software = {"runtimeVersion": "2.11", "pythonVersion": "3.7", "pythonModule": "trainer.task"}
    return {"jobId": job_id, "trainingInput": {"region": PLACE, **software, **training}}


def pool(command=("python", "-c", "pass"), image="REG/p/img:1", count=1, **machine):
    container = {"imageUri": image, "command": list(command)}
    machine = {"machineType": "n1-standard-4", **machine}
    return {"containerSpec": container, "machineSpec": machine, "replicaCount": count}


def custom_job(*pools, name="cj", **spec):
    return {"displayName": name, "jobSpec": {"workerPoolSpecs": list(pools or [pool()]), **spec}}


def refusal(call, *args, **named) -> Refusal:
    """The refusal of a call, with fields by rule at hand."""
    try:
        call(*args, **named)
    except Refusal as error:
        return error
    raise AssertionError("the call was not refused")


def fields(error: Refusal):
    return [violation.field for violation in error.violations]
