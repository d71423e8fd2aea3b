"""JAX processes find each other through the coordinator variables."""

import json

import pytest

from examples.cluster import needs, run

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(600), needs("jax", "sklearn")]


def trained(job_dir, **how):
    outcome = run("jax-data-parallel", job_dir, **how)
    assert outcome.code == 0, outcome.story()
    result = json.loads((job_dir / "result.json").read_text())
    assert result["accuracy"] >= 0.97
    assert outcome.last_line == f"test accuracy {result['accuracy']:.4f} after 20 epochs"
    return result


def test_two_processes_learn_what_one_learns(tmp_path):
    one = trained(tmp_path / "one", workers=0)
    two = trained(tmp_path / "two")
    assert (one["processes"], two["processes"]) == (1, 2)
    assert one["losses"] == pytest.approx(two["losses"], abs=1e-9)
