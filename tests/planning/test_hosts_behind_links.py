"""What is predicted from one host and a probe of a link, beside four hosts behind such links."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: The benchmark is held to a tenth, on a machine that does nothing else.
NEAR = 0.35


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_ring_and_reducers_are_predicted_and_their_order_is_right(tmp_path):
    file = tmp_path / "report.json"
    words = ["planning-hosts", "--only", "torch", "--reps", "3", "--json", file]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *words],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=500,
        check=False,
    )
    assert file.exists(), done.stderr
    document = json.loads(file.read_text())
    if reason := document["left_out"].get("hosts behind links"):
        pytest.skip(reason)
    rows = document["data"]["comparisons"]
    ring, reducers, ratio = rows
    for one in (ring, reducers):
        assert one["low"] < one["predicted"] < one["high"]
        assert one["error"] < NEAR, one
    assert ratio["predicted"] > 1
    assert ratio["measured"] > 1
