"""Tuning with the unmodified Vertex SDK, newest and 1.60.0, REST and gRPC (contract 4.5, 8)."""

import pytest

from conformance.client_scripts import run_sdk_script
from trainshed.wire.parsed import snake

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: In `make test` one way: each costs an import of the SDK, and test_vertex_sdk.py has two.
WAYS = [
    pytest.param(("newest", "grpc"), id="newest-grpc"),
    *(
        pytest.param(way, id="-".join(way), marks=pytest.mark.full)
        for way in (("newest", "rest"), ("1.60.0", "rest"), ("1.60.0", "grpc"))
    ),
]


@pytest.fixture(scope="module", params=WAYS)
def results(request, server):
    """What every scenario came to, by its name."""
    return run_sdk_script(server, request.param, "tuning_calls.py")


def text(value):
    """A value as the program is told it: whole numbers have no point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def test_run_returns_with_trials_of_every_kind_of_parameter(results, trial_arguments):
    result = results["every_kind_of_parameter"]
    assert result["state"] == "JOB_STATE_SUCCEEDED"
    assert result["ended"]
    assert result["labels"] == {"team": "a"}
    assert result["listed"]
    assert [trial["id"] for trial in result["trials"]] == ["1", "2", "3"]
    arguments = trial_arguments(result["name"])
    for trial in result["trials"]:
        assert trial["state"] == "SUCCEEDED"
        assert trial["timed"]
        values = trial["values"]
        assert 0.01 <= values["x"] <= 1
        assert values["units"] in (4, 5, 6, 7, 8)
        assert values["batch"] in (16, 32, 64)
        assert values["width"] in (1, 2)
        assert 0.5 <= values["decay"] <= 0.9
        assert values["opt"] in ("adam", "sgd")
        assert arguments[trial["id"]] == {name: text(value) for name, value in values.items()}
        assert trial["final"] == {"accuracy": values["x"] * 3}
        assert (trial["step"], trial["steps"]) == (3, [1, 2, 3])
        assert "/customJobs/" in trial["job"]


def test_a_conditional_parameter_is_there_only_under_its_condition(results, trial_arguments):
    result = results["conditional_parameters"]
    assert result["state"] == "JOB_STATE_SUCCEEDED"
    arguments = trial_arguments(result["name"])
    assert len(result["trials"]) == 6
    for trial in result["trials"]:
        values = trial["values"]
        expected = (
            {"x", "model", "width"} if values["model"] == "wide" else {"x", "model", "layers"}
        )
        if values.get("layers") == 3:
            expected.add("skip")
        assert values.keys() == expected
        assert arguments[trial["id"]].keys() == expected
        assert trial["final"] == {"accuracy": values["x"] * 3}


@pytest.mark.full
def test_labels_say_where_the_search_begins_and_when_trials_are_stopped(results, server):
    result = results["labels_of_the_search"]
    assert (result["state"], result["labels"]) == ("JOB_STATE_SUCCEEDED", True)
    assert result["trials"][0]["values"] == {"x": 0.25}
    number = result["name"].rpartition("/")[2]
    project = result["name"].split("/")[1]
    status, study = server.call("GET", f"/trainshed/v1/projects/{project}/jobs/{number}/study")
    assert status == 200, study
    assert (study["priors"], study["stopping"]) == ("x near 25e-2 (narrow)", "asha")
    expected = {"name": f"study earlier ({result['earlier']})", "used": 2, "ignored": 0}
    assert study["knownSources"] == [expected]


def test_a_grid_is_tried_once_and_then_ends(results):
    result = results["a_grid_that_ends"]
    assert result["state"] == "JOB_STATE_SUCCEEDED"
    points = [(trial["values"]["x"], trial["values"]["opt"]) for trial in result["trials"]]
    assert sorted(points) == [(1, "adam"), (1, "sgd"), (2, "adam"), (2, "sgd")]


def test_a_study_is_cancelled_with_its_trials_and_deleted(results):
    result = results["in_the_background_and_cancelled"]
    assert result["state"] == "JOB_STATE_CANCELLED"
    assert "code: 1" in result["raised"]
    assert set(result["trials"]) == {"INFEASIBLE"}
    assert result["deleted"]


def test_run_raises_what_was_missing_and_what_was_there_instead(results):
    result = results["without_a_result"]
    assert result["state"] == "JOB_STATE_FAILED"
    assert "accuracy" in result["raised"]
    assert {trial["state"] for trial in result["trials"]} == {"INFEASIBLE"}
    # three ran at once: the first to end ends the study, and the others with it
    first, *_ = (trial for trial in result["trials"] if "ended while" not in trial["reason"])
    assert "without the metric 'accuracy'" in first["reason"]
    assert "output.metrics has the metrics acc, err" in first["reason"]
    assert first["final"] == {}


def test_several_metrics_are_measured_and_the_default_comes_first(results):
    result = results["several_metrics"]
    assert result["state"] == "JOB_STATE_SUCCEEDED"
    assert result["study"]["observation_noise"] == 2
    assert result["trials"][0]["values"] == {"x": 0.25}
    for trial in result["trials"]:
        accuracy = trial["values"]["x"] * 3
        assert trial["final"] == {"accuracy": accuracy, "loss": 10 - accuracy}


def test_a_study_ends_by_its_own_rules(results):
    result = results["safety_and_an_end"]
    assert result["state"] == "JOB_STATE_SUCCEEDED"
    assert len(result["trials"]) == 2, "maxNumTrials, and not maxTrialCount"
    assert result["trials"][0]["values"] == {"x": 0.25}
    ending = result["study"]["study_stopping_config"]
    assert ending["max_num_trials"] == 2
    assert ending["should_stop_asap"] is True
    assert ending["max_duration_no_progress"] == "3600s"
    safety = result["study"]["metrics"][1]["safety_config"]
    assert safety == {"safety_threshold": 100.0, "desired_min_safe_trials_fraction": 0.5}


def test_convex_stopping_is_taken_with_all_its_fields(results):
    result = results["convex_stopping"]
    assert result["state"] == "JOB_STATE_SUCCEEDED"
    rule = result["study"]["convex_automated_stopping_spec"]
    assert rule["learning_rate_parameter_name"] == "x"
    assert int(rule["min_measurement_count"]) == 2


def test_a_trial_below_the_median_is_stopped_and_keeps_what_it_measured(results):
    result = results["median_stopping"]
    assert result["state"] == "JOB_STATE_SUCCEEDED"
    assert [trial["values"]["x"] for trial in result["trials"]] == [1, 2, 3, 30]
    last = result["trials"][-1]
    assert last["state"] == "SUCCEEDED"
    assert last["final"] == {"loss": -80}


#: The field that is named, and a part of the sentence.
REFUSED = {
    "bounds": (
        "studySpec.parameters[0].doubleValueSpec.minValue",
        "minValue 1 is above maxValue 0.5",
    ),
    "log": ("studySpec.parameters[0].scaleType", "a logarithmic scale needs numbers above 0"),
    "twice": ("studySpec.parameters[1].parameterId", "parameter x: the name is given twice"),
    "grid": ("studySpec.parameters[0].doubleValueSpec", "GRID_SEARCH takes no DOUBLE parameter"),
    "lost": ("studySpec.metrics[0].metricId", "reports of metrics have a key of that name already"),
    "values": (
        "studySpec.parameters[0].discreteValueSpec.values",
        "1001 discrete values are too many",
    ),
    "none": ("studySpec.metrics", "a study needs a metric"),
    "parallel": ("parallelTrialCount", "is 3, which is more than maxTrialCount, 2"),
    "parent": (
        "studySpec.parameters[1].conditionalParameterSpecs[0]",
        "rmsprop is not a value of its parent opt",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_field(results, case):
    field, sentence = REFUSED[case]
    kind, text_of_error = results["refused"]["refusals"][case]
    if kind == "InvalidArgument":  # over gRPC fields have the names of protobuf
        field = snake(field)
    else:
        assert kind == "BadRequest"
    assert f"{field}: " in text_of_error
    assert sentence in text_of_error


def test_what_is_refused_starts_nothing(results):
    assert results["refused"]["refusals"].keys() == REFUSED.keys()
    assert results["refused"]["started"] == 0
