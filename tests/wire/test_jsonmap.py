"""What a caller may write, and what he is told about what he may not."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.wire.fields import table
from trainshed.wire.jsonmap import DEPTH_MAX, read
from trainshed.wire.parsed import snake
from wire.documents import JSON, documents

ML, VERTEX = table("ml_v1"), table("aiplatform_v1")


def training(document):
    return read(ML, "TrainingInput", document)


def one(reading):
    [violation] = reading.violations
    return violation


@pytest.mark.parametrize(
    ("document", "normal"),
    [
        ({"workerCount": 9}, {"workerCount": "9"}),
        ({"workerCount": "9"}, {"workerCount": "9"}),
        ({"workerCount": 9.0}, {"workerCount": "9"}),
        ({"workerCount": "9.0"}, {"workerCount": "9"}),
        ({"workerCount": None}, {}),
        ({"worker_count": 9}, {"workerCount": "9"}),
        ({"scheduling": {"priority": "5"}}, {"scheduling": {"priority": 5}}),
        ({"scheduling": {"priority": 5.0}}, {"scheduling": {"priority": 5}}),
        ({"scheduling": {}}, {"scheduling": {}}),
        ({"scheduling": {"maxRunningTime": "3.5s"}}, {"scheduling": {"maxRunningTime": "3.5s"}}),
        ({"args": ["--n", 3.0, 0.5, 7, True]}, {"args": ["--n", "3", "0.5", "7", "true"]}),
        (
            {"hyperparameters": {"params": [{"minValue": "0.5", "maxValue": 1}]}},
            {"hyperparameters": {"params": [{"minValue": 0.5, "maxValue": 1}]}},
        ),
        ({"args": "--n=1 2"}, {"args": ["--n=1 2"]}),
        (
            {"hyperparameters": {"params": {"type": "DOUBLE"}}},
            {"hyperparameters": {"params": [{"type": "DOUBLE"}]}},
        ),
        (
            {"masterConfig": {"acceleratorConfig": {"type": "any text at all"}}},
            {"masterConfig": {"acceleratorConfig": {"type": "any text at all"}}},
        ),
    ],
)
def test_a_value_has_one_normal_form(document, normal):
    reading = training(document)
    assert reading.violations == ()
    assert reading.value == normal


@pytest.mark.parametrize(
    ("value", "name"),
    [("SPOT", "SPOT"), (4, "SPOT"), (4.0, "SPOT"), (0, "STRATEGY_UNSPECIFIED")],
)
def test_a_vertex_enum_is_a_name_or_a_number(value, name):
    assert read(VERTEX, "Scheduling", {"strategy": value}).value == {"strategy": name}


def test_an_accelerator_of_an_unknown_number_is_left_to_the_catalog():
    assert read(VERTEX, "MachineSpec", {"acceleratorType": 5}).value == {
        "acceleratorType": "NVIDIA_TESLA_T4"
    }
    assert read(VERTEX, "MachineSpec", {"acceleratorType": 99}).value == {"acceleratorType": "99"}


def test_the_numbers_of_ml_v1_enums_are_unknown():
    violation = one(training({"scaleTier": 5}))
    assert violation.rule == "wrong-type"


@pytest.mark.parametrize(
    ("document", "field", "rule", "says"),
    [
        ({"workerCnt": 1}, "workerCnt", "unknown-field", "workerCount"),
        ({"worker_cnt": 1}, "worker_cnt", "unknown-field", "worker_count"),
        ({7: 1}, "7", "unknown-field", "7"),
        ({"workerCount": "nine"}, "workerCount", "wrong-type", "whole number"),
        ({"workerCount": 1.5}, "workerCount", "wrong-type", "1.5"),
        ({"workerCount": True}, "workerCount", "wrong-type", "true"),
        ({"workerCount": 2**63}, "workerCount", "wrong-type", "whole number"),
        ({"workerCount": math.inf}, "workerCount", "wrong-type", "whole number"),
        ({"runtimeVersion": 2.1}, "runtimeVersion", "wrong-type", "2.1"),
        ({"packageUris": {"a": "gs://b/p"}}, "packageUris", "wrong-type", "a list"),
        ({"packageUris": 3}, "packageUris", "wrong-type", "the number 3"),
        ({"packageUris": ["a", 3]}, "packageUris[1]", "wrong-type", "packageUris[1]"),
        ({"args": [None]}, "args[0]", "wrong-type", "null"),
        ({"masterConfig": []}, "masterConfig", "wrong-type", "an object"),
        ({"enableWebAccess": "true"}, "enableWebAccess", "wrong-type", "true or false"),
        (
            {"scheduling": {"maxWaitTime": 1800}},
            "scheduling.maxWaitTime",
            "wrong-type",
            "a duration",
        ),
        ({"scaleTier": "standart-1"}, "scaleTier", "unknown-value", "STANDARD_1"),
        (
            {"region": "a", "hyperparameters": {"goal": "?"}},
            "hyperparameters.goal",
            "unknown-value",
            "?",
        ),
    ],
)
def test_a_fault_is_told_at_its_place(document, field, rule, says):
    violation = one(training(document))
    assert (violation.field, violation.rule) == (field, rule)
    assert says in violation.message
    assert violation.accepted


def test_a_field_in_both_spellings_is_refused_unless_one_is_null():
    violation = one(training({"worker_count": 1, "workerCount": 2}))
    assert (violation.field, violation.rule) == ("workerCount", "duplicate-field")
    assert "worker_count" in violation.message
    assert training({"worker_count": None, "workerCount": 2}).violations == ()


def test_alternatives_given_together_are_refused_at_their_message():
    pool = {"containerSpec": {}, "python_package_spec": {}}
    violation = one(read(VERTEX, "CustomJobSpec", {"workerPoolSpecs": [{}, pool]}))
    assert (violation.field, violation.rule) == ("workerPoolSpecs[1]", "container-xor-python")
    study = {"medianAutomatedStoppingSpec": {}, "decayCurveStoppingSpec": {}}
    violation = one(read(VERTEX, "HyperparameterTuningJob", {"studySpec": study}))
    assert (violation.field, violation.rule) == ("studySpec", "exactly-one-of")


def test_an_element_that_cannot_be_read_keeps_the_place_of_the_others():
    reading = read(VERTEX, "CustomJobSpec", {"workerPoolSpecs": [{}, 3, {"replicaCount": 2}]})
    assert reading.value == {"workerPoolSpecs": [{}, {}, {"replicaCount": "2"}]}
    assert one(reading).field == "workerPoolSpecs[1]"


def test_fields_that_only_the_server_writes_are_read_over():
    assert read(ML, "Job", {"state": "NO_SUCH", "jobId": "j"}).value == {"jobId": "j"}


def test_all_faults_are_found_at_once_and_the_path_begins_where_the_document_lies():
    document = {"worker_pool_specs": [{"replica_count": "x", "disk": {}}], "region": "r"}
    reading = read(VERTEX, "CustomJobSpec", document, "trainingTaskInputs")
    assert [v.field for v in reading.violations] == [
        "trainingTaskInputs.worker_pool_specs[0].replica_count",
        "trainingTaskInputs.worker_pool_specs[0].disk",
        "trainingTaskInputs.region",
    ]


def test_a_document_that_is_nested_too_deep_is_refused():
    spec = {}
    for _ in range(DEPTH_MAX):
        spec = {"conditionalParameterSpecs": [{"parameterSpec": spec}]}
    violation = one(read(VERTEX, "StudySpec", {"parameters": [spec]}))
    assert violation.rule == "wrong-type"
    assert "deep" in violation.message


@given(st.dictionaries(st.sampled_from(["jobId", "labels", "trainingInput", "x"]), JSON))
def test_any_json_is_read_without_an_error_and_gives_json(document):
    json.dumps(read(ML, "Job", document).value)


@settings(max_examples=50)
@given(document=documents("aiplatform_v1", "CustomJob"))
def test_a_normal_form_is_its_own_normal_form(document):
    first = read(VERTEX, "CustomJob", document)
    assert first.violations == ()
    assert read(VERTEX, "CustomJob", first.value).value == first.value


@settings(max_examples=50)
@given(document=documents("ml_v1", "Job"))
def test_snake_case_means_the_same(document):
    def in_snake_case(message, value):
        fields = ML.messages[message].by_key
        return {snake(key): inner(fields[key], item) for key, item in value.items()}

    def inner(field, item):
        if field.kind != "message":
            return item
        if field.is_repeated:
            return [in_snake_case(field.type, element) for element in item]
        return in_snake_case(field.type, item)

    def outcome(job):
        """What was read; violations name fields as the caller wrote them."""
        form = read(ML, "Job", job)
        violations = [(snake(row.field), row.rule, row.accepted) for row in form.violations]
        return form.value, violations, form.notes

    written = in_snake_case("Job", document)
    assert outcome(written) == outcome(document)


def test_a_violation_names_a_field_in_snake_case_as_it_was_written():
    letters = {"training_input": {"parameter_server_config": {"container_command": ["0", "0"]}}}
    (violation,) = read(ML, "Job", {"job_id": "a", **letters}).violations
    assert violation.field == "training_input.parameter_server_config.container_command"


@pytest.mark.parametrize("number", [10**400, -(10**400), "1e999", "9" * 400])
def test_a_number_beyond_a_double_is_refused(number):
    violation = one(training({"hyperparameters": {"params": [{"minValue": number}]}}))
    assert (violation.field, violation.rule) == ("hyperparameters.params[0].minValue", "wrong-type")
