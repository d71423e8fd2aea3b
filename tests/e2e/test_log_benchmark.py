"""The benchmark of log filters starts, and finds every line with its word."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks/logs.py"


@pytest.mark.slow
@pytest.mark.full
def test_the_benchmark_of_log_filters_runs_on_few_lines():
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--search-only", "--lines", "1000", "--format", "json"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    names = [figure["name"] for figure in json.loads(done.stdout)]
    assert names == ["a word in 1,000 lines", "a word in 1,000 lines, times grep -i"], done.stderr
