"""The native routes of tuning jobs: how their trials stand, and the log of one of them."""

import json

import pytest

from api.support import application, build_native, client, native_routes
from databases import new_database
from store.builders import (
    add,
    add_study,
    advance,
    go,
    place,
    reported,
    trial,
    trial_job,
)
from trainshed.api.native.logs import log_router
from trainshed.api.native.studies import study_router
from trainshed.engines.supervise.record.segments import SegmentWriter
from trainshed.model.log_line import LOG_FOLDER
from trainshed.model.status import JobError, JobState
from trainshed.model.trials import Measurement, TrialState
from trainshed.service.jobs.story import Stories
from trainshed.service.jobs.study_reads import StudyReader
from trainshed.service.log.pages import LogService
from trainshed.service.log.streams import Streams
from trainshed.storage.log_files import JobLog
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind
from trainshed.store.records.steps import NewEvent
from trainshed.store.records.studies import NewTrial

JOB = "/trainshed/v1/projects/demo/jobs"
FINAL = Measurement(step=4, elapsed_s=1.5, metrics=(("accuracy", 0.75),))
REASON = "exit code 1"


@pytest.fixture
def store(tmp_path):
    store = open_store(new_database(tmp_path))
    yield store
    store.close()


@pytest.fixture
def logs(store, tmp_path):
    return LogService(store, JobLog(tmp_path / "jobs"))


@pytest.fixture
def edge(store, logs):
    native = build_native(stories=Stories(store), logs=logs, streams=Streams(2))
    native.store.trial_jobs = store.trial_jobs
    routers = study_router(StudyReader(native.stories)), log_router(native)
    with client(application([], native=native_routes(*routers))) as edge:
        yield edge


@pytest.fixture
def study(store):
    """A study with a trial that was stopped early, one that failed, and one that runs."""
    record = add_study(store, project="demo")
    jobs = [NewTrial(trial=trial(n), job=trial_job(n, project="demo")) for n in (1, 2, 3)]
    first, second, third = advance(store, record.uid, new_trials=tuple(jobs))
    go(store, first.job_uid, JobState.CANCELLED)
    failed = NewEvent(kind="FAILED", message="the package is not there")
    error = JobError(code=3, message=REASON)
    go(store, second.job_uid, JobState.FAILED, error=error, events=(failed,))
    place(store, third.job_uid)
    go(store, third.job_uid, JobState.RUNNING)
    early = trial(1, state=TrialState.SUCCEEDED, final=FINAL, stopped_early=True)
    bad = trial(2, state=TrialState.INFEASIBLE, infeasible_reason=REASON)
    advance(store, record.uid, trials=(early, bad), reports=(reported(3, 0.25, 0.5),))
    return record


def lines(edge, query, job="tune"):
    answer = edge.get(f"{JOB}/{job}/logs?{query}")
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def uid_of(store, study, number):
    return store.trials(study.uid)[number - 1].job_uid


def refused(edge, path):
    answer = edge.get(f"{JOB}/{path}")
    assert answer.status_code == 404
    return answer.json()["error"]["status"], answer.json()["error"]["message"]


@pytest.mark.parametrize("token", ["reader", "demo", "admin"])
def test_the_trials_tell_what_the_documents_leave_out(edge, store, study, token):
    first, second, third = (str(uid_of(store, study, number)) for number in (1, 2, 3))
    headers = {"Authorization": f"Bearer {token}"}
    answer = edge.get(f"{JOB}/tune/trials", headers=headers)
    assert answer.status_code == 200
    assert answer.json() == {
        "trials": [
            {"number": 1, "state": "SUCCEEDED", "jobState": "CANCELLED", "stoppedEarly": True,
             "job": first, "step": 4, "metrics": {"accuracy": 0.75}, "parameters": {"lr": 0.5}},
            {"number": 2, "state": "INFEASIBLE", "jobState": "FAILED", "stoppedEarly": False,
             "job": second, "metrics": {}, "infeasibleReason": REASON, "parameters": {"lr": 0.5}},
            {"number": 3, "state": "ACTIVE", "jobState": "RUNNING", "stoppedEarly": False,
             "job": third, "step": 1, "metrics": {"accuracy": 0.5}, "parameters": {"lr": 0.5}},
        ]
    }  # fmt: skip


def test_a_job_that_is_no_study_has_no_trials_and_an_unknown_one_is_refused(edge, store):
    add(store, project="demo", kind=JobKind.ML_JOB, job_id="plain")
    assert edge.get(f"{JOB}/plain/trials").json() == {"trials": []}
    assert refused(edge, "nobody/trials") == ("NOT_FOUND", "project demo has no job nobody")


@pytest.mark.usefixtures("study")
def test_foreign_projects_trials_are_closed(edge):
    headers = {"Authorization": "Bearer other"}
    assert edge.get(f"{JOB}/tune/trials", headers=headers).status_code == 403


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize("trial", ["9", "0", "02", "x"])
def test_the_log_of_a_trial_that_is_not_there_is_refused(edge, trial):
    reason = "tuning job tune has no trial"
    assert refused(edge, f"tune/logs?trial={trial}") == (
        "NOT_FOUND",
        f"{reason} {trial}; its trials: 1 to 3, 3 in all",
    )


def test_a_study_without_trials_and_a_job_that_is_none_say_so(edge, store):
    add_study(store, project="demo", job_id="young")
    add(store, project="demo", kind=JobKind.ML_JOB, job_id="plain")
    assert refused(edge, "young/logs?trial=1")[1].endswith("has no trial 1; its trials: none yet")
    assert refused(edge, "plain/logs?trial=1")[1] == (
        "job plain has no trials: it is not a tuning job"
    )


@pytest.mark.parametrize("tail", ["", "&tail=9"])
def test_a_trial_that_never_began_tells_its_jobs_story(edge, store, study, tail):
    story = [event.message for event in store.events(uid_of(store, study, 2))]
    entries = lines(edge, f"trial=2{tail}")
    assert [line["message"] for line in entries] == story
    assert story[-1] == "the package is not there"
    assert entries[-1]["severity"] == "ERROR"
    assert {(line["trial"], line["task"]) for line in entries} == {("2", "service")}


def test_a_trials_lines_and_story_are_one_log_and_no_other_trials(edge, logs, store, study):
    for number in (1, 3):
        uid = uid_of(store, study, number)
        folder = logs.job_log.root / str(uid) / "1" / LOG_FOLDER
        folder.parent.mkdir(parents=True)
        sink = SegmentWriter(folder)
        sink.line("master-replica-0", f"line of {number}", severity="INFO", stream="stdout")
        sink.close()
    story = [event.message for event in store.events(uid_of(store, study, 3))]
    entries = lines(edge, "trial=3")
    assert [line["message"] for line in entries] == [*story, "line of 3"]
    assert [line["message"] for line in lines(edge, "trial=3&task=service")] == story
    mine = [line["message"] for line in lines(edge, "")]
    assert "the package is not there" not in mine, "the study's own story is told, not each trial's"
    assert {"line of 1", "line of 3"} <= set(mine)


@pytest.mark.usefixtures("study")
def test_a_trial_is_followed_to_its_own_end(edge):
    """The study goes on: whoever follows its second trial is not kept until the study ends."""
    assert lines(edge, "trial=2&follow=true")[-1]["message"] == "the package is not there"


def test_a_caller_streams_only_so_many_logs_at_once(edge, store):
    record = add_study(store, project="demo", job_id="quiet")
    assert not record.job.status.state.is_final
    path = f"{JOB}/quiet/logs?follow=true"
    with edge.stream("GET", path) as first:
        assert first.status_code == 200
        with edge.stream("GET", path) as second:
            assert second.status_code == 200
            third = edge.get(path)
            assert third.status_code == 429
            assert third.json()["error"]["status"] == "RESOURCE_EXHAUSTED"
            assert "dora streams 2 logs already" in third.json()["error"]["message"]
            headers = {"Authorization": "Bearer reader"}  # of another caller one is sent
            with edge.stream("GET", path, headers=headers) as other:
                assert other.status_code == 200
