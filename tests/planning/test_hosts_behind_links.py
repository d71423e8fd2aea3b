"""What is predicted from one host and a probe of a link, beside four hosts behind such links."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "planning_hosts.py"
#: The benchmark is held to a tenth, on a machine that does nothing else.
NEAR = 0.35


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_ring_and_reducers_are_predicted_and_their_order_is_right():
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--only", "torch", "--reps", "3", "--format", "json"],
        text=True,
        capture_output=True,
        timeout=500,
        check=False,
    )
    if done.stderr.startswith("shaped links"):
        pytest.skip(done.stderr.strip())
    rows = json.loads(done.stdout[done.stdout.index("[\n") :])
    ring, reducers, ratio = rows
    for one in (ring, reducers):
        assert one["low"] < one["predicted"] < one["high"]
        assert one["error"] < NEAR, one
    assert ratio["predicted"] > 1
    assert ratio["measured"] > 1
