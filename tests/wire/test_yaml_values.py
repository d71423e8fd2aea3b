"""Values that are no text although their author meant one, and texts where a list is wanted."""

import pytest

from trainshed.wire.fields import table
from trainshed.wire.jsonmap import read

ML, VERTEX = table("ml_v1"), table("aiplatform_v1")


@pytest.mark.parametrize(
    ("fields_table", "message", "document", "field"),
    [
        (VERTEX, "StudySpec.ParameterSpec", {"parameterId": False}, "parameterId"),
        (ML, "ParameterSpec", {"parameterName": False}, "parameterName"),
        (ML, "ParameterSpec", {"categoricalValues": ["a", False]}, "categoricalValues[1]"),
        (ML, "Job", {"labels": {"canary": False}}, "labels.canary"),
        (ML, "Job", {"jobId": False}, "jobId"),
        (ML, "HyperparameterSpec", {"hyperparameterMetricTag": False}, "hyperparameterMetricTag"),
        (VERTEX, "StudySpec.MetricSpec", {"metricId": False}, "metricId"),
        (VERTEX, "EnvVar", {"name": False}, "name"),
    ],
)
def test_a_flag_in_place_of_a_string_is_told_what_yaml_reads(
    fields_table, message, document, field
):
    [violation] = read(fields_table, message, document).violations
    assert (violation.field, violation.rule) == (field, "wrong-type")
    assert "not false; YAML reads n, no, off and false without quotes as false" in violation.message
    assert violation.accepted == 'a string, in quotes, such as "n"'


def test_true_is_told_its_own_words():
    [violation] = read(ML, "Job", {"jobId": True}).violations
    assert "YAML reads y, yes, on and true without quotes as true" in violation.message


@pytest.mark.parametrize("number", [7, 0.5, 45000])
def test_a_number_in_place_of_a_string_needs_quotes(number):
    [violation] = read(VERTEX, "StudySpec.ParameterSpec", {"parameterId": number}).violations
    assert f"must be a string, not the number {number}" in violation.message
    assert "quotes" in violation.accepted


@pytest.mark.parametrize(
    ("fields_table", "message", "field", "text"),
    [
        (VERTEX, "ContainerSpec", "command", "python train.py"),
        (VERTEX, "ContainerSpec", "command", "ls"),
        (VERTEX, "ContainerSpec", "args", "--epochs=3"),
        (VERTEX, "PythonPackageSpec", "args", "--epochs 3"),
        (VERTEX, "PythonPackageSpec", "packageUris", "gs://b/p.tar.gz"),
        (ML, "TrainingInput", "packageUris", "gs://b/p.tar.gz"),
        (ML, "TrainingInput", "args", "--n 5"),
        (ML, "ReplicaConfig", "containerCommand", "bash"),
        (ML, "ReplicaConfig", "containerArgs", "-c x"),
    ],
)
def test_a_string_that_was_split_into_letters_is_told_so(fields_table, message, field, text):
    [violation] = read(fields_table, message, {field: list(text)}).violations
    assert (violation.field, violation.rule) == (field, "wrong-type")
    assert f"a list of single letters: the string {text!r} was given" in violation.message
    assert f'["{text.split()[0]}"' in violation.accepted


@pytest.mark.parametrize(
    ("fields_table", "message", "field", "items"),
    [
        (VERTEX, "ContainerSpec", "command", ["w"]),
        (VERTEX, "ContainerSpec", "args", ["1", "2", "3", "4"]),
        (VERTEX, "ContainerSpec", "args", ["a", "b"]),
        (VERTEX, "ContainerSpec", "args", ["-"]),
        (ML, "ParameterSpec", "categoricalValues", ["a", "b", "-", "c"]),
        (ML, "TrainingInput", "args", ["-n", "5"]),
    ],
)
def test_short_words_are_left_alone(fields_table, message, field, items):
    assert read(fields_table, message, {field: items}).violations == ()


@pytest.mark.parametrize(
    ("fields_table", "message", "field"),
    [
        (VERTEX, "ContainerSpec", "command"),
        (ML, "ReplicaConfig", "containerCommand"),
        (ML, "TrainingInput", "packageUris"),
    ],
)
def test_a_command_line_in_place_of_a_list_is_shown_as_a_list(fields_table, message, field):
    [violation] = read(fields_table, message, {field: "python train.py"}).violations
    assert violation.message.endswith("must be a list of strings, not the string 'python train.py'")
    assert violation.accepted == 'a list of strings, such as ["python", "train.py"]'


def test_one_word_alone_is_a_list_of_it():
    assert read(VERTEX, "ContainerSpec", {"command": "train"}).value == {"command": ["train"]}
