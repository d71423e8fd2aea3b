"""A model in two pieces learns what the whole one learns, replicated or not."""

import json

import pytest

from examples.cluster import needs, run

pytestmark = [
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    needs("torch", "sklearn"),
]


def result_of(job_dir):
    return json.loads((job_dir / "result.json").read_text())


def test_split_and_replicated_it_has_the_loss_curve_of_the_unsplit_model(tmp_path):
    outcome = run("model-parallel", tmp_path, args=["--epochs", 4], workers=3)
    assert outcome.code == 0, outcome.story()
    result = result_of(tmp_path)
    assert (result["stages"], result["replicas"]) == (2, 2)
    assert result["max_difference"] < 1e-9
    assert outcome.last_line.startswith("max difference to the unsplit model")


def test_split_over_two_it_is_as_close_and_a_difference_beyond_the_tolerance_fails(tmp_path):
    args = ["--epochs", 4, "--tolerance", -1]
    outcome = run("model-parallel", tmp_path, args=args, workers=1)
    assert outcome.code == 1, outcome.story()
    assert outcome.last_line.startswith("max difference to the unsplit model")
    assert result_of(tmp_path)["replicas"] == 1
    assert result_of(tmp_path)["max_difference"] < 1e-9


def test_a_number_of_processes_that_cannot_hold_the_pieces_is_refused(tmp_path):
    outcome = run("model-parallel", tmp_path, workers=0)
    assert outcome.code == 1
    assert outcome.last_line == "the model has 2 pieces: 1 processes cannot hold it"
