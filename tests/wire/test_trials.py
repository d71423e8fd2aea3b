"""What clients read of a study's trials.

The sources are docs/sources/gcloud.md 3.3 and 10, and docs/sources/vertex.md 7.1 and 8.
"""

import json
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import check_golden
from trainshed.model.status import Job, JobState, JobStatus
from trainshed.model.trials import Measurement, TrialRecord, TrialState, TrialView
from trainshed.wire import detect
from trainshed.wire.aiplatform_v1 import render as aiplatform_v1
from trainshed.wire.aiplatform_v1.trials import trial_json as vertex_trial
from trainshed.wire.descriptors import message_class
from trainshed.wire.ml_v1 import render as ml_v1

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden/wire/trials"
GOOGLE_PYTHON = HERE.parent.parent / ".venv-google/bin/python"
BEGAN = datetime(2026, 11, 20, 20, 1, tzinfo=UTC)
RUNNING = JobStatus(state=JobState.RUNNING, create_time=BEGAN, start_time=BEGAN)
DONE = replace(RUNNING, state=JobState.SUCCEEDED, end_time=BEGAN + timedelta(hours=1))


def measured(step, elapsed_s, **metrics):
    return Measurement(step=step, elapsed_s=elapsed_s, metrics=tuple(metrics.items()))


def view(number, state, job_state, **fields):
    trial = TrialRecord(number=number, state=state, **fields)
    name = f"projects/p/locations/us-central1/customJobs/{100 + number}"
    return TrialView(trial=trial, job_name=name, job_state=job_state)


VALUES = (("lr", 1e-05), ("layers", 3), ("batch", 32.0), ("opt", "adam"))
RAN = {"start_time": BEGAN, "end_time": BEGAN + timedelta(minutes=30)}
TRIALS = (
    view(
        1,
        TrialState.SUCCEEDED,
        JobState.SUCCEEDED,
        values=VALUES,
        measurements=(measured(0, 0.0, accuracy=0.5), measured(10, 3.5, accuracy=0.6)),
        final=measured(10, 3.5, accuracy=0.6),
        **RAN,
    ),
    view(
        2,
        TrialState.SUCCEEDED,
        JobState.CANCELLED,
        values=VALUES,
        measurements=(measured(5, 12.25, accuracy=0.9),),
        final=measured(5, 12.25, accuracy=0.9),
        stopped_early=True,
        **RAN,
    ),
    view(
        3,
        TrialState.INFEASIBLE,
        JobState.SUCCEEDED,
        values=VALUES,
        infeasible_reason="The trial ended without the metric accuracy.",
        **RAN,
    ),
    view(
        4,
        TrialState.STOPPING,
        JobState.CANCELLING,
        values=(("layers", 0),),
        final=measured(90, 1.0, accuracy=0.99),
        start_time=BEGAN,
    ),
    view(5, TrialState.ACTIVE, JobState.QUEUED, values=(("lr", -1e-05),)),
    replace(view(6, TrialState.REQUESTED, JobState.QUEUED), job_name=""),
)
STUDIES = {"vertex": "vertex-4.5-tuning", "ml": "gcloud-3.2-hyperparameters"}


def job_of(name, status):
    document = json.loads((HERE / f"requests/{STUDIES[name]}.json").read_text())
    spec = detect.parse(document).spec
    location = "global" if name == "ml" else "us-central1"
    job_id = spec.job_id or "7"
    return Job(project="p", location=location, job_id=job_id, spec=spec, status=status)


def rendered(name, status, trials=TRIALS):
    render = aiplatform_v1.tuning_job if name == "vertex" else ml_v1.job
    return render(job_of(name, status), trials)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_with_its_trials_is_that_of_its_golden_file(name):
    document = rendered(name, DONE)
    check_golden(GOLDEN / f"{name}.json", json.dumps(document, indent=1) + "\n")


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_with_its_trials_is_read_as_the_same_job(name):
    job = job_of(name, DONE)
    spec = detect.parse(rendered(name, DONE)).spec
    assert spec == replace(job.spec, region=job.location if name == "vertex" else job.spec.region)


def test_an_ml_study_is_a_message_of_the_dialect():
    json_format.ParseDict(rendered("ml", DONE), message_class("google.cloud.ml.v1.Job")())


SDK_READS = """
import json, sys
from google.cloud.aiplatform_v1.types import HyperparameterTuningJob
job = HyperparameterTuningJob.from_json(open(sys.argv[1]).read())
first, second, third, fourth, *_ = job.trials
print(json.dumps({
    "states": [trial.state.name for trial in job.trials],
    "parameters": {each.parameter_id: each.value for each in first.parameters},
    "steps": [each.step_count for each in first.measurements],
    "elapsed_s": [each.elapsed_duration.total_seconds() for each in first.measurements],
    "final": [each.value for each in second.final_measurement.metrics],
    "reason": third.infeasible_reason,
    "has_final": "final_measurement" in fourth,
    "job": first.custom_job,
    "ended": first.end_time.isoformat(),
}))
"""


def test_googles_sdk_reads_the_trials_of_the_golden_file():
    if not GOOGLE_PYTHON.exists():
        pytest.skip("Google's client packages are not here; `make test` installs them")
    command = [GOOGLE_PYTHON, "-c", SDK_READS, GOLDEN / "vertex.json"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert json.loads(answer) == {
        "states": ["SUCCEEDED", "SUCCEEDED", "INFEASIBLE", "STOPPING", "ACTIVE", "REQUESTED"],
        "parameters": {"lr": 1e-05, "layers": 3.0, "batch": 32.0, "opt": "adam"},
        "steps": [0, 10],
        "elapsed_s": [0.0, 3.5],
        "final": [0.9],
        "reason": "The trial ended without the metric accuracy.",
        "has_final": False,
        "job": "projects/p/locations/us-central1/customJobs/101",
        "ended": "2026-11-20T20:31:00+00:00",
    }


def test_a_trial_of_an_ml_job_has_the_words_that_gcloud_reads():
    output = rendered("ml", DONE)["trainingOutput"]
    assert output["completedTrialCount"] == "2"
    assert output["isHyperparameterTuningJob"] is True
    assert output["hyperparameterMetricTag"] == "accuracy"
    assert output["trials"][0] == {
        "trialId": "2",
        "state": "SUCCEEDED",
        "hyperparameters": {"lr": "1e-05", "layers": "3", "batch": "32", "opt": "adam"},
        "finalMetric": {"trainingStep": "5", "objectiveValue": 0.9},
        "isTrialStoppedEarly": True,
        "startTime": "2026-11-20T20:01:00Z",
        "endTime": "2026-11-20T20:31:00Z",
    }


def order(trials, goal):
    job = job_of("ml", DONE)
    [metric] = job.spec.study.metrics
    metric = replace(metric, goal=type(metric.goal)(goal))
    spec = replace(job.spec, study=replace(job.spec.study, metrics=(metric,)))
    trial_documents = ml_v1.job(replace(job, spec=spec), trials)["trainingOutput"]["trials"]
    return [trial["trialId"] for trial in trial_documents]


@pytest.mark.parametrize("trials", [TRIALS, TRIALS[::-1]])
def test_the_first_trial_of_an_ml_job_is_the_best_one(trials):
    """Programs take it for that without looking."""
    assert order(trials, "MAXIMIZE") == ["2", "1", "3", "4", "5", "6"]
    assert order(trials, "MINIMIZE") == ["1", "2", "3", "4", "5", "6"]


def test_a_study_shown_without_its_trials_does_not_count_them():
    """Lists show none (docs/sources/gcloud.md 6.2); a count of 0 would be wrong there."""
    assert "trials" not in rendered("vertex", DONE, ())
    assert rendered("ml", DONE, ())["trainingOutput"] == {
        "consumedMLUnits": 0.0,
        "isHyperparameterTuningJob": True,
        "hyperparameterMetricTag": "accuracy",
    }
    waiting = replace(DONE, start_time=None)
    assert "trainingOutput" not in rendered("ml", waiting, ())
    assert rendered("ml", waiting)["trainingOutput"]["trials"]


def test_the_job_of_one_trial_is_no_study_to_its_clients():
    from trainshed.model.study import TrialSpec  # noqa: PLC0415  # of this one test

    job = job_of("ml", DONE)
    child = replace(job, spec=replace(job.spec, trial=TrialSpec(trial_id="1")))
    assert ml_v1.job(child)["trainingOutput"] == {"consumedMLUnits": 0.0}


ML_STATES = {
    (TrialState.REQUESTED, JobState.QUEUED): "QUEUED",
    (TrialState.ACTIVE, JobState.QUEUED): "QUEUED",
    (TrialState.ACTIVE, JobState.PREPARING): "PREPARING",
    (TrialState.ACTIVE, JobState.RUNNING): "RUNNING",
    (TrialState.ACTIVE, JobState.RESTARTING): "RUNNING",
    (TrialState.ACTIVE, JobState.CANCELLING): "CANCELLING",
    (TrialState.ACTIVE, JobState.SUCCEEDED): "RUNNING",
    (TrialState.ACTIVE, JobState.FAILED): "RUNNING",
    (TrialState.STOPPING, JobState.RUNNING): "RUNNING",
    (TrialState.STOPPING, JobState.CANCELLED): "CANCELLING",
    (TrialState.SUCCEEDED, JobState.SUCCEEDED): "SUCCEEDED",
    (TrialState.SUCCEEDED, JobState.CANCELLED): "SUCCEEDED",
    (TrialState.INFEASIBLE, JobState.SUCCEEDED): "FAILED",
    (TrialState.INFEASIBLE, JobState.FAILED): "FAILED",
    (TrialState.INFEASIBLE, JobState.CANCELLED): "CANCELLED",
}


@pytest.mark.parametrize(("states", "word"), ML_STATES.items())
def test_the_state_of_an_ml_trial_is_one_of_a_job(states, word):
    final = measured(1, 1.0, accuracy=0.5)
    [document] = rendered("ml", RUNNING, [view(1, *states, final=final)])["trainingOutput"][
        "trials"
    ]
    assert document["state"] == word
    assert ("finalMetric" in document) is (word == "SUCCEEDED")


FINITE = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.text("abcdef", min_size=1, max_size=4)
MEASUREMENTS = st.builds(
    Measurement,
    step=st.integers(0, 2**62),
    elapsed_s=st.floats(0, 1e9),
    metrics=st.lists(st.tuples(NAMES, FINITE), max_size=2).map(tuple),
)
RECORDS = st.builds(
    TrialRecord,
    number=st.integers(1, 10**6),
    state=st.sampled_from(TrialState),
    values=st.dictionaries(NAMES, FINITE | st.integers(-9, 2**53) | NAMES, max_size=3).map(
        lambda values: tuple(values.items())
    ),
    measurements=st.lists(MEASUREMENTS, max_size=3).map(tuple),
    final=st.none() | MEASUREMENTS,
    infeasible_reason=st.none() | NAMES,
    stopped_early=st.booleans(),
    start_time=st.none() | st.just(BEGAN),
    end_time=st.none() | st.just(BEGAN),
)
VIEWS = st.builds(TrialView, trial=RECORDS, job_name=NAMES, job_state=st.sampled_from(JobState))


@settings(max_examples=100, deadline=None)
@given(view=VIEWS)
def test_any_trial_is_a_message_of_both_dialects_and_keeps_its_values(view):
    message = message_class("google.cloud.aiplatform.v1.Trial")()
    document = json.loads(json.dumps(vertex_trial(view)))
    json_format.ParseDict(document, message)
    values = {
        parameter["parameterId"]: parameter["value"] for parameter in document.get("parameters", ())
    }
    assert values == dict(view.trial.values)
    assert [int(measurement["stepCount"]) for measurement in document.get("measurements", ())] == [
        measurement.step for measurement in view.trial.measurements
    ]
    output = rendered("ml", RUNNING, [view])["trainingOutput"]
    message = message_class("google.cloud.ml.v1.TrainingOutput")()
    json_format.ParseDict(json.loads(json.dumps(output)), message)
    assert set(output["trials"][0].get("hyperparameters", {})) == set(values)


def test_a_paused_trial_is_active_or_waits_as_its_job():
    waits = view(4, TrialState.PAUSED, JobState.QUEUED, paused_at=3)
    assert vertex_trial(waits)["state"] == "ACTIVE"
    assert rendered("ml", RUNNING, [waits])["trainingOutput"]["trials"][0]["state"] == "QUEUED"
    ended = view(4, TrialState.PAUSED, JobState.SUCCEEDED, paused_at=3)
    assert rendered("ml", RUNNING, [ended])["trainingOutput"]["trials"][0]["state"] == "RUNNING"
