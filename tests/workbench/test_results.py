import os

import pytest

from trainshed.workbench.results import headline, metrics_of


def test_the_numbers_of_a_fresh_result_are_its_metrics(tmp_path):
    text = '{"loss": 0.5, "accuracy": 0.97, "epochs": 3, "name": "x", "done": true}'
    (tmp_path / "result.json").write_text(text)
    metrics = metrics_of(tmp_path, since=0)
    assert metrics == {"loss": 0.5, "accuracy": 0.97, "epochs": 3}
    assert headline(metrics) == ("accuracy", 0.97)


def test_the_result_of_an_older_run_is_not_this_runs(tmp_path):
    (tmp_path / "result.json").write_text('{"accuracy": 0.5}')
    os.utime(tmp_path / "result.json", (1000, 1000))
    assert metrics_of(tmp_path, since=2000) == {}


@pytest.mark.parametrize("text", ["", "[1]", "not json", '{"accuracy": "high"}'])
def test_what_is_no_result_has_no_metrics(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    assert metrics_of(tmp_path, since=0) == {}
    assert metrics_of(tmp_path / "absent", since=0) == {}
    assert metrics_of(None, since=0) == {}
    assert headline({}) is None


def test_an_unknown_metric_is_shown_where_no_known_one_is():
    assert headline({"bleu": 31.0}) == ("bleu", 31.0)


def test_a_vertex_job_leaves_its_result_in_the_model_folder(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/result.json").write_text('{"accuracy": 0.9}')
    assert metrics_of(tmp_path, since=0) == {"accuracy": 0.9}
