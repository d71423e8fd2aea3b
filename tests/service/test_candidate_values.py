"""Which values the words of a violation name, the most likely first."""

import pytest

from trainshed.model.faults import Violation
from trainshed.service.texts.candidate_values import (
    accelerators_of,
    candidate_values,
    machine_type_path,
)


def violation(accepted, message="", rule="accelerator-count", field="a"):
    return Violation(field=field, rule=rule, message=message, accepted=accepted)


@pytest.mark.parametrize(
    ("accepted", "message", "value", "candidates"),
    [
        ("1, 2 or 4", "", 3, ["4", "2", "1"]),
        ("1, 2 or 4", "", "8", ["4", "2", "1"]),
        ("2x4", "", "4x4", ["2x4"]),
        ("type NVIDIA_L4, count 2", "", 1, ["2"]),
        ("type NVIDIA_L4, count 2", "", "NVIDIA_A100", ["NVIDIA_L4"]),
        ("masterType: n1-standard-4, for example", "", None, ["n1-standard-4"]),
        ("n1-standard-4, n1-standard-16 or n1-highmem-8", "", "n1-standard-14", [
            "n1-standard-16", "n1-standard-4"]),
        ("us-central1 or us-east1", "us-est1; did you mean us-east1?", "us-est1", [
            "us-east1", "us-central1"]),
        ("a letter, then up to 127 letters, digits and underscores", "", "9", ["127"]),
        ("at most 128", "", "n" * 200, []),
        ("at most 128", "", 200, ["128"]),
        ("another accelerator type", "", "NVIDIA_L4", []),
        ("", "", "x", []),
    ],
)  # fmt: skip
def test_values_are_read_from_the_words(accepted, message, value, candidates):
    assert candidate_values(violation(accepted, message), value) == candidates


def test_a_machine_and_its_accelerators_are_set_together():
    words = "type NVIDIA_L4, count 2"
    for field, names in [
        ("jobSpec.workerPoolSpecs[0].machineSpec", ("acceleratorType", "acceleratorCount")),
        ("trainingInput.masterConfig.acceleratorConfig", ("type", "count")),
    ]:
        missing = violation(words, rule="accelerator-missing", field=field)
        assert accelerators_of(missing) == {
            f"{field}.{names[0]}": "NVIDIA_L4",
            f"{field}.{names[1]}": "2",
        }
    assert accelerators_of(violation(words)) == {}


def test_the_machine_type_of_an_accelerator():
    assert machine_type_path("a[0].machineSpec.acceleratorCount") == "a[0].machineSpec.machineType"
    path = "trainingInput.workerConfig.acceleratorConfig.type"
    assert machine_type_path(path) == "trainingInput.workerType"
    assert machine_type_path("trainingInput.region") == ""
