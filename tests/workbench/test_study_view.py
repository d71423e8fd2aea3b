"""A server's tuning job as a study, its trials and their order, in both dialects."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.faults import UsageFault
from trainshed.model.study import AshaRule, Goal
from trainshed.model.trials import TrialState
from trainshed.workbench.study_view import (
    add_native_trials,
    describe_counts,
    describe_measurement,
    describe_remarks,
    format_parameters,
    is_study,
    list_arguments,
    rank_trials,
    read_view,
)
from workbench.study_documents import ACCURACY, NAME, SECONDS, many, ml, ml_trial, trial, vertex


def test_a_vertex_tuning_job_is_read():
    values = {"opt": "sgd", "momentum": 0.5, "lr": 0.01, "units": 8.0}
    done = trial(1, measured=[(1, {"accuracy": 0.5}), (2, {"accuracy": 0.75})], **values)
    view = read_view(vertex([done, trial(2, "ACTIVE", lr=0.1)]))
    assert (view.name, view.title, view.state) == (NAME, "tuned", "RUNNING")
    first, second = view.trials
    assert first.state is TrialState.SUCCEEDED
    assert first.values == (("lr", 0.01), ("units", 8), ("opt", "sgd"), ("momentum", 0.5))
    assert isinstance(dict(first.values)["units"], int)
    assert [m.step for m in first.measurements] == [1, 2]
    assert first.final.value("accuracy") == 0.75
    assert first.final.elapsed_s == 1.0
    assert first.end_time == datetime(2026, 11, 20, 20, 1, 12, 500_000, tzinfo=UTC)
    assert second.final is None
    assert second.end_time is None
    assert view.leaders == (first,)


def test_an_ml_v1_job_is_read_and_its_texts_are_values():
    job = ml([
        ml_trial(2, value=0.25, step=100, lr="0.1", units="32", opt="sgd"),
        ml_trial(1, value=0.5, step=90, lr="5e-05", units="8", opt="3"),
        ml_trial(3, "RUNNING", lr="1"),
        ml_trial(4, "CANCELLED"),
    ])  # fmt: skip
    view = read_view(job)
    assert view.title == "census_1"
    assert [t.number for t in view.trials] == [1, 2, 3, 4]
    assert view.trials[0].values == (("lr", 5e-05), ("units", 8), ("opt", "3"))
    states = [t.state for t in view.trials]
    assert states[2:] == [TrialState.ACTIVE, TrialState.INFEASIBLE]
    assert view.objectives[0].goal is Goal.MINIMIZE
    assert [t.number for t in view.leaders] == [2]
    assert [t.number for t in rank_trials(view)] == [2, 1]


@pytest.mark.parametrize("job", [vertex([]), ml([])])
def test_the_label_of_a_job_is_its_rule_of_early_stopping(job):
    labels = {**job.get("labels", {}), "trainshed-early-stopping": "asha-4"}
    assert read_view({**job, "labels": labels}).study.stopping == AshaRule(reduction=4, pauses=True)
    later = {**labels, "trainshed-early-stopping": "of-a-later-release"}
    assert read_view({**job, "labels": later}).study.stopping == read_view(job).study.stopping


def test_what_a_server_leaves_out_is_absent():
    bare = {"id": "5", "state": "SUCCEEDED", "finalMeasurement": {"metrics": [{"metricId": "m"}]}}
    view = read_view({"studySpec": {"metrics": [{"metricId": "m"}]}, "trials": [bare, {}]})
    assert view.trials[1].final.value("m") == 0.0, "proto3 leaves zeros out"
    assert view.trials[0].number == 2, "a trial without a number has that of its place"
    assert view.state == view.name == view.error == ""
    assert view.start_time is None


def test_a_study_in_words_of_a_later_release_is_read():
    later = {"algorithm": "POPULATION_BASED_TRAINING", "studyStoppingConfig": {"x": 1}}
    job = vertex()
    view = read_view({**job, "studySpec": {**job["studySpec"], **later}})
    assert view.algorithm == "POPULATION_BASED_TRAINING"


NATIVE = {
    "number": 2,
    "state": "ACTIVE",
    "jobState": "RUNNING",
    "stoppedEarly": False,
    "step": 7,
    "metrics": {"loss": 0.25},
}


def test_what_the_native_api_says_is_added():
    view = read_view(ml([ml_trial(1, value=0.5, step=3, lr="1"), ml_trial(2, "RUNNING", lr="2"),
                       ml_trial(3, "FAILED")]))  # fmt: skip
    bad = {"number": 3, "state": "INFEASIBLE", "jobState": "FAILED", "stoppedEarly": False}
    native = {"trials": [NATIVE, {**bad, "metrics": {}, "infeasibleReason": "exit code 1"}]}
    first, second, third = add_native_trials(view, native).trials
    assert first == view.trials[0]
    assert describe_measurement(second) == "loss 0.25 at step 7"
    assert second.final is None
    assert (third.infeasible_reason, third.measurements) == ("exit code 1", ())


def test_a_paused_trial_is_counted_and_names_its_rung():
    view = read_view(vertex([trial(2, "ACTIVE", measured=[(9, {"accuracy": 0.5})], lr=0.1)]))
    native = {**NATIVE, "number": 2, "state": "PAUSED", "earlyStop": {"rung": 1}}
    view = add_native_trials(view, {"trials": [native]})
    assert describe_counts(view).endswith(": 1 paused")
    assert describe_remarks(view, view.trials[0]) == ["paused at rung 1"]


def test_what_the_document_says_is_kept():
    view = read_view(vertex([trial(2, measured=[(1, {"accuracy": 0.5})], lr=0.1)]))
    other = {**NATIVE, "stoppedEarly": True, "infeasibleReason": None}
    (merged,) = add_native_trials(view, {"trials": [other]}).trials
    assert merged == replace(view.trials[0], stopped_early=True)
    assert add_native_trials(view, {}) == view


@pytest.mark.parametrize(
    "broken",
    [
        {"trials": 3},
        {"trials": [{}]},
        {"trials": ["x"]},
        {"trials": [{**NATIVE, "metrics": {"loss": "x"}}]},
    ],
)
def test_an_answer_on_trials_that_cannot_be_read_is_a_sentence(broken):
    with pytest.raises(UsageFault, match="list of trials"):
        add_native_trials(read_view(ml([ml_trial(2, "RUNNING")])), broken)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", float("nan"), float("inf")])
def test_what_is_no_finite_number_is_left_out(value):
    view = read_view(vertex([trial(1, final=(3, {"accuracy": value}), lr=0.1)]))
    assert view.trials[0].final.metrics == ()
    assert view.leaders == ()
    assert rank_trials(view) == []


@pytest.mark.parametrize(
    "document", [{}, {"jobId": "j", "trainingInput": {}}, {"name": "n", "jobSpec": {}}]
)
def test_another_job_is_told_apart(document):
    assert not is_study(document)
    with pytest.raises(UsageFault, match="is not a tuning job"):
        read_view(document)


@pytest.mark.parametrize(
    "broken",
    [
        {"studySpec": {"metrics": [{"goal": "SIDEWAYS"}]}},
        {"studySpec": {"metrics": 3}},
        {"studySpec": {}, "trials": [{"startTime": "yesterday"}]},
        {"studySpec": {}, "trials": ["x"]},
        {"trainingInput": {"hyperparameters": {}}, "trainingOutput": {"trials": [3]}},
    ],
)
def test_what_cannot_be_read_is_a_sentence(broken):
    with pytest.raises(UsageFault, match="cannot read the server's tuning job"):
        read_view(broken)


def test_counts_tell_running_from_waiting():
    waiting = trial(4, "ACTIVE")
    del waiting["startTime"]
    states = [trial(1), trial(2, "INFEASIBLE", reason="r"), trial(3, "STOPPING"), waiting]
    view = read_view(vertex(states))
    assert describe_counts(view) == "4 of 24: 1 succeeded, 1 infeasible, 1 running, 1 waiting"
    assert describe_counts(read_view(vertex())) == "0 of 24"


def test_several_objectives_have_leaders_and_no_order():
    metrics = [(0.9, 30), (0.8, 10), (0.7, 20), (0.95, 40)]
    trials = [
        trial(number, final=(1, {"accuracy": accuracy, "seconds": seconds}))
        for number, (accuracy, seconds) in enumerate(metrics, 1)
    ]
    view = read_view(vertex(trials, metrics=[ACCURACY, SECONDS]))
    assert [t.number for t in view.leaders] == [1, 2, 4]
    assert [t.number for t in rank_trials(view)] == [1, 2, 4]


def test_an_unsafe_trial_is_ranked_behind_the_safe_ones():
    limit = {**SECONDS, "safetyConfig": {"safetyThreshold": 20}}
    trials = [trial(1, final=(1, {"accuracy": 0.9, "seconds": 30.0})),
             trial(2, final=(1, {"accuracy": 0.5, "seconds": 10.0}))]  # fmt: skip
    view = read_view(vertex(trials, metrics=[ACCURACY, limit]))
    assert [t.number for t in rank_trials(view)] == [2, 1]
    assert [t.number for t in view.leaders] == [2]


def test_arguments_are_those_that_the_program_had():
    view = read_view(vertex([trial(1, lr=-1e-05, units=32.0, opt="a b")]))
    assert list_arguments(view.trials[0]) == ("--lr", "-0.00001", "--units", "32", "--opt", "a b")
    assert format_parameters(view.trials[0]) == "lr=-1e-05 units=32 opt=a b"


def test_measured_says_nothing_where_nothing_was():
    view = read_view(vertex([trial(1, "ACTIVE"), trial(2, final=(7, {"accuracy": 1 / 3}))]))
    assert [describe_measurement(t) for t in view.trials] == [
        "nothing measured",
        "accuracy 0.333333 at step 7",
    ]


@given(count=st.integers(0, 40), seed=st.integers(0, 10))
def test_the_first_of_the_ranked_is_the_leader(count, seed):
    view = read_view(json.loads(json.dumps(vertex(many(count, seed)))))
    order = rank_trials(view)
    assert tuple(order[:1]) == view.leaders
    values = [t.final.value("accuracy") for t in order]
    assert values == sorted(values, reverse=True)
    assert len(order) == view.count(TrialState.SUCCEEDED)
