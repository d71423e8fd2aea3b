"""``trainshed gpu-check`` on a ResNet and a transformer, GPU against CPU."""

import json

import pytest

from examples.cluster import call, needs

TINY = ("--width", 8, "--batch-size", 2, "--image-size", 8)
REAL = ("--batch-size", 16)
pytestmark = [pytest.mark.slow, pytest.mark.full, needs("torch")]


def checked(model, *words):
    command = ("gpu-check", "--module-name", "steps", "--package-path", ".", "--format", "json")
    outcome = call("gpu-check", *command, "--", "--model", model, "--precision", "bf16", *words)
    assert outcome.code == 0, outcome.story()
    last = outcome.text[outcome.text.index('{\n  "cpu_seconds"') :]
    return json.loads(last), outcome


@pytest.mark.parametrize("model", ["resnet", "transformer"])
def test_a_model_is_tried_on_what_the_machine_has(model, torch_device):
    sizes = REAL if torch_device == "cuda" else TINY
    measured, outcome = checked(model, "--steps", 2, *sizes)
    assert measured["cpu_seconds"] > 0, outcome.story()
    assert bool(measured["gpu"]) == (torch_device == "cuda")
    if measured["gpu"]:
        assert measured["gpu_seconds"] > 0, outcome.story()
        assert measured["speedup"] == pytest.approx(
            measured["cpu_seconds"] / measured["gpu_seconds"]
        )
