"""How long a submitted job may wait and run: its own words, or the server's default."""

from datetime import date

import pytest

from service.submitting import MAPPED, PLACE, custom_job, images, ml_job, pool
from trainshed.service.jobs.job_service import JobService
from trainshed.service.jobs.submission import SubmitRules
from trainshed.store.records.jobs import JobKind


def test_a_job_s_own_limits_are_kept_in_either_dialect(desk):
    custom = {"timeout": "3600s", "maxWaitDuration": "60s"}
    desk.custom(custom_job(scheduling=custom))
    desk.ml(ml_job(scheduling={"maxRunningTime": "3600s", "maxWaitTime": "1800s"}))
    desk.custom(custom_job())
    limits = {waiting.running_s_max for waiting in desk.store.waiting(limit=9)}
    assert limits == {3600.0, 604_800.0}, "seven days is what both dialects promise"


@pytest.mark.parametrize(("default", "limit"), [(None, None), (0.0, None), (60.0, 60.0)])
def test_the_limit_of_a_job_that_says_none_is_the_server_s(store, default, limit):
    rules = SubmitRules(
        images=images(*MAPPED), today=lambda: date(2026, 11, 21), running_s_default=default
    )
    jobs = JobService(store, rules, lambda: None)
    jobs.create(JobKind.CUSTOM_JOB, "demo", PLACE, custom_job(), creator="ann")
    (waiting,) = store.waiting(limit=9)
    assert waiting.running_s_max == limit


def test_a_pipeline_s_job_has_the_same_limits(desk):
    inputs = {"workerPoolSpecs": [pool()], "scheduling": {"timeout": "3600s"}}
    definition = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"
    document = {
        "displayName": "p",
        "trainingTaskDefinition": definition,
        "trainingTaskInputs": inputs,
    }
    desk.pipelines.create("demo", PLACE, document, creator="ann")
    (waiting,) = desk.store.waiting(limit=9)
    assert waiting.running_s_max == 3600.0
