"""TensorFlow's own strategies find their cluster in TF_CONFIG, with nothing of ours in the code."""

import json

import pytest

from examples.cluster import needs, run

pytestmark = [
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    needs("tensorflow", "tf_keras", "sklearn"),
]


def result_of(outcome, job_dir):
    assert outcome.code == 0, outcome.story()
    return json.loads((job_dir / "result.json").read_text())


def test_two_mirrored_workers_train_one_model(tmp_path):
    outcome = run("tf-multiworker", tmp_path)
    assert result_of(outcome, tmp_path)["accuracy"] >= 0.97, outcome.story()
    assert "chief 0: 2 in sync" in outcome.primary
    assert outcome.last_line.startswith("test accuracy 0.9")
    assert (tmp_path / "model" / "saved_model.pb").is_file()


def test_parameter_servers_train_and_the_evaluator_has_the_last_word(tmp_path):
    outcome = run("tf-parameter-server", tmp_path)
    result = result_of(outcome, tmp_path)
    assert result["accuracy"] >= 0.93, outcome.story()
    assert result["measured_by"] == "the evaluator", outcome.story()
    assert f"epoch {result['epochs']}: test loss" in outcome.output["evaluator-replica-0"]
    assert "ps 1" in outcome.output["ps-replica-1"]
    assert outcome.last_line.endswith("measured by the evaluator")
