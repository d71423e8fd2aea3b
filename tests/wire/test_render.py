"""What clients read back: the caller's own document, with what was observed."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.model.explanation import Change, Explanation, Reason
from trainshed.model.status import Job, JobError, JobState, JobStatus
from trainshed.wire import detect
from trainshed.wire.aiplatform_v1 import render as aiplatform_v1
from trainshed.wire.descriptors import message_class
from trainshed.wire.ml_v1 import render as ml_v1
from trainshed.wire.times import rfc3339
from wire.documents import documents

TIMES = st.none() | st.integers(0, 2**51).map(lambda us: datetime.fromtimestamp(us / 1e6, tz=UTC))
STATUS = st.builds(
    JobStatus,
    state=st.sampled_from(JobState),
    create_time=TIMES,
    start_time=TIMES,
    end_time=TIMES,
    update_time=TIMES,
    error=st.none() | st.builds(JobError, code=st.integers(0, 16), message=st.text(max_size=9)),
    queue_position=st.none() | st.integers(0, 9),
)
#: Only ml v1 has a field for the place in the queue; the other dialect has labels.
UNPLACED = STATUS.map(lambda status: replace(status, queue_position=None))
LOCATION = "us-central1"
PACKAGE = {"ml_v1": "google.cloud.ml.v1", "aiplatform_v1": "google.cloud.aiplatform.v1"}


def job_of(document, status, etag=b""):
    spec = detect.parse(document).spec
    location = "global" if "trainingInput" in document else LOCATION
    if location == LOCATION:
        spec = replace(spec, region=LOCATION)
    job_id = spec.job_id or "7"
    return Job(project="p", location=location, job_id=job_id, spec=spec, status=status, etag=etag)


def check(document, job, dialect, message):
    """The rendered document is a message of the dialect, and is read as the same spec."""
    json_format.ParseDict(document, message_class(f"{PACKAGE[dialect]}.{message}")())
    assert detect.parse(json.loads(json.dumps(document))).spec == job.spec


@settings(max_examples=60)
@given(document=documents("ml_v1", "Job"), status=STATUS, etag=st.binary(max_size=5))
def test_an_ml_job_comes_back_with_its_spec(document, status, etag):
    document = {"trainingInput": {}, **document, "jobId": "job_1"}
    job = job_of(document, status, etag)
    check(ml_v1.job(job), job, "ml_v1", "Job")


@settings(max_examples=60)
@given(document=documents("aiplatform_v1", "CustomJob"), status=UNPLACED)
def test_a_custom_job_comes_back_with_its_spec(document, status):
    job = job_of({"jobSpec": {}, **document}, status)
    check(aiplatform_v1.custom_job(job), job, "aiplatform_v1", "CustomJob")


@settings(max_examples=40)
@given(document=documents("aiplatform_v1", "HyperparameterTuningJob"), status=UNPLACED)
def test_a_tuning_job_comes_back_with_its_spec(document, status):
    job = job_of({"trialJobSpec": {}, **document}, status)
    check(aiplatform_v1.tuning_job(job), job, "aiplatform_v1", "HyperparameterTuningJob")


@settings(max_examples=40)
@given(
    document=documents("aiplatform_v1", "TrainingPipeline", depth=2),
    inputs=documents("aiplatform_v1", "CustomJobSpec"),
    status=UNPLACED,
)
def test_a_pipeline_comes_back_with_its_spec_and_its_inputs_as_written(document, inputs, status):
    job = job_of({**document, "trainingTaskInputs": inputs}, status)
    rendered = aiplatform_v1.training_pipeline(job, backing_custom_job="projects/p/x/1")
    check(rendered, job, "aiplatform_v1", "TrainingPipeline")
    assert rendered["trainingTaskInputs"] == inputs
    assert rendered["trainingTaskMetadata"] == {"backingCustomJob": "projects/p/x/1"}


SECOND = datetime(2026, 11, 21, 0, 2, 41, tzinfo=UTC)
FAILED = JobStatus(
    state=JobState.FAILED,
    create_time=SECOND,
    start_time=SECOND + timedelta(milliseconds=1500),
    end_time=SECOND + timedelta(microseconds=7),
    update_time=SECOND,
    error=JobError(code=3, message="The replica workerpool0-0 exited."),
)


def test_an_ml_job_has_the_words_that_gcloud_reads():
    queued = JobStatus(state=JobState.QUEUED, create_time=SECOND, queue_position=0)
    job = job_of({"jobId": "job_1", "trainingInput": {"workerCount": 2}}, queued, b"\0\0\0")
    assert ml_v1.job(job) == {
        "jobId": "job_1",
        "trainingInput": {"workerCount": "2"},
        "createTime": "2026-11-21T00:02:41Z",
        "state": "QUEUED",
        "etag": "AAAA",
        "jobPosition": "0",
    }
    failed = ml_v1.job(replace(job, status=FAILED, etag=b"\0\0"))
    assert failed["errorMessage"] == "The replica workerpool0-0 exited."
    assert failed["etag"] == "AAA="


def test_a_custom_job_has_the_words_that_the_sdk_reads():
    document = {"displayName": "cj", "labels": {"a": "b"}, "jobSpec": {"workerPoolSpecs": [{}]}}
    assert aiplatform_v1.custom_job(job_of(document, FAILED)) == {
        "name": "projects/p/locations/us-central1/customJobs/7",
        "displayName": "cj",
        "labels": {"a": "b"},
        "jobSpec": {"workerPoolSpecs": [{}]},
        "state": "JOB_STATE_FAILED",
        "createTime": "2026-11-21T00:02:41Z",
        "startTime": "2026-11-21T00:02:42.500Z",
        "endTime": "2026-11-21T00:02:41.000007Z",
        "updateTime": "2026-11-21T00:02:41Z",
        "error": {"code": 3, "message": "The replica workerpool0-0 exited."},
    }


WHY = Explanation(
    reason=Reason.CAPACITY,
    message="The nodes that could hold it are in use.",
    change=Change(
        field="accelerator_count",
        role="primary",
        asked="4",
        accepted="2",
        text="would start now with 2 instead of 4 NVIDIA_TESLA_T4",
    ),
)


@pytest.mark.parametrize("state", JobState)
def test_a_job_says_why_it_waits_while_it_waits_and_no_longer(state):
    status = JobStatus(state=state, queue_position=3 if state.waits else None)
    ml = ml_v1.job(replace(job_of({"trainingInput": {}}, status), explanation=WHY))
    document = {"jobSpec": {}, "labels": {"team": "a"}}
    custom = aiplatform_v1.custom_job(replace(job_of(document, status), explanation=WHY))
    if state.waits:
        assert ml["errorMessage"] == (
            "The nodes that could hold it are in use; "
            "it would start now with 2 instead of 4 NVIDIA_TESLA_T4"
        )
        added = {"trainshed-waiting": "capacity", "trainshed-queue-position": "3"}
        assert custom["labels"] == {"team": "a", **added}
    else:
        assert WHY.message[:9] not in ml.get("errorMessage", "")
        assert custom["labels"] == {"team": "a"}
    assert ("error" in custom) is (state in {JobState.FAILED, JobState.CANCELLED})


def test_only_a_job_that_failed_or_was_cancelled_has_an_error():
    error = JobError(code=1, message="Cancelled by ann.")
    for state in JobState:
        status = JobStatus(state=state, error=error)
        is_error = state in {JobState.FAILED, JobState.CANCELLED}
        assert ("errorMessage" in ml_v1.job(job_of({"trainingInput": {}}, status))) is is_error
    unrecorded = job_of({"jobSpec": {}}, JobStatus(state=JobState.CANCELLED))
    assert aiplatform_v1.custom_job(unrecorded)["error"]["code"] == 1


@pytest.mark.parametrize("labels", [{"b": "2"}, {}])
def test_the_labels_of_today_replace_those_of_the_document(labels):
    status = JobStatus(state=JobState.RUNNING, start_time=SECOND)
    ml = job_of({"jobId": "j", "trainingInput": {}, "labels": {"a": "1"}}, status)
    custom = job_of({"jobSpec": {}, "labels": {"a": "1"}}, status)
    document = ml_v1.job(replace(ml, labels=labels))
    assert document.get("labels", {}) == labels
    assert document["trainingOutput"] == {"consumedMLUnits": 0.0}
    assert aiplatform_v1.custom_job(replace(custom, labels=labels)).get("labels", {}) == labels


@pytest.mark.parametrize("state", JobState)
def test_every_state_has_a_word_in_both_dialects(state):
    status = JobStatus(state=state)
    ml = ml_v1.job(job_of({"trainingInput": {}}, status))
    custom = aiplatform_v1.custom_job(job_of({"jobSpec": {}}, status))
    pipeline = aiplatform_v1.training_pipeline(job_of({"trainingTaskInputs": {}}, status))
    state_name = {JobState.RESTARTING: "RUNNING", JobState.ENQUEUED: "QUEUED"}.get(
        state, state.value
    )
    assert ml["state"] == state_name
    word = "PENDING" if state is JobState.PREPARING else state_name
    assert custom["state"] == f"JOB_STATE_{word}"
    assert pipeline["state"] == f"PIPELINE_STATE_{word}"


def test_times_are_told_in_utc():
    east = timezone(timedelta(hours=1))
    assert rfc3339(SECOND.astimezone(east)) == "2026-11-21T00:02:41Z"
