"""A project has only so many jobs that are not over."""

import pytest

from service.submitting import PROJECT, Desk, custom_job, ml_job, refusal
from trainshed.model.refusals import Code, Refusal
from trainshed.model.status import JobState
from trainshed.service.jobs.open_jobs import COUNTED_S_MAX, OpenJobs


def test_a_submit_beyond_the_limit_is_refused_until_a_job_is_over(store):
    desk = Desk(store, project_jobs_max=2)
    first = desk.ml(ml_job("job_1"))
    desk.custom(custom_job())
    for call, document in ((desk.ml, ml_job("job_3")), (desk.custom, custom_job())):
        error = refusal(call, document)
        assert (error.code, error.code.http) == (Code.RESOURCE_EXHAUSTED, 429)
        assert "project demo has 2 jobs that are not over, and may have 2" in error.message
        assert "limits.project_jobs_max" in error.message
    desk.ml(ml_job("job_3"), project="other")
    desk.put(first, JobState.CANCELLED)
    desk.ml(ml_job("job_3"))
    assert store.open_count(PROJECT) == 2


@pytest.mark.parametrize(
    ("after_s", "query_count"), [(COUNTED_S_MAX / 2, 1), (COUNTED_S_MAX * 2, 2)]
)
def test_the_store_is_asked_once_a_second(after_s, query_count):
    now, asks = [5.0], []

    def count(project):
        asks.append(project)
        return 7

    jobs = OpenJobs(count, 9, lambda: now[0])
    jobs.admit("demo")
    now[0] += after_s
    jobs.admit("demo")
    assert len(asks) == query_count


def test_no_limit_asks_nobody():
    OpenJobs(None, None).admit("demo")


def test_a_check_counts_no_job():
    jobs = OpenJobs(lambda _: 1, 3, lambda: 0.0)
    for _ in range(5):
        jobs.admit("demo", new_jobs=0)
    jobs.admit("demo")
    jobs.admit("demo")
    with pytest.raises(Refusal):
        OpenJobs(lambda _: 3, 3, lambda: 0.0).admit("demo", new_jobs=0)
