"""PyTorch whose gradients reducers sum: as a job, and behind links of its own."""

import json
import re
import subprocess
import sys

import pytest

from examples.cluster import EXAMPLES, call, needs

pytestmark = [
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    needs("torch", "sklearn", "numpy"),
]

FOLDER = EXAMPLES / "torch-reduction"
RESULT = re.compile(r"^(ring|reducers) +(\S+) s a step  accuracy (\S+)$", re.MULTILINE)
GAIN = re.compile(r"^gain +[0-9.]+ times; (.*)$", re.MULTILINE)


def compared(*argv):
    """Two workers and two reducers, each for one short epoch; what was printed."""
    trainer = ("--", "--epochs", "1", "--width", "128")
    done = subprocess.run(
        [sys.executable, "compare.py", "--workers", "2", "--reducers", "2", *argv, *trainer],
        cwd=FOLDER,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout


def test_as_a_job_it_learns_through_reducers(tmp_path):
    job = ("ai", "custom-jobs", "local-run", "--config", "job.yaml")
    outcome = call("torch-reduction", *job, "--base-output-dir", tmp_path, timeout_s=800)
    assert outcome.code == 0, outcome.story()
    assert {"workerpool2-0", "workerpool2-1"} <= set(outcome.output)
    assert "4 workers, which reduce a share each, and 2 reducers" in outcome.primary
    result = json.loads((tmp_path / "checkpoints/result.json").read_text())
    assert result["accuracy"] >= 0.95
    assert outcome.last_line.startswith(f"test accuracy {result['accuracy']:.4f}")
    rounds = re.search(r"^Reduction: .* \(2 reducers, (\d+) rounds", outcome.text, re.MULTILINE)
    assert rounds
    # ten epochs of 15 steps, and at least one bucket a step
    assert int(rounds[1]) >= 150


@pytest.mark.parametrize("where", ["--loopback", "--mbit=500"])
def test_two_workers_learn_the_same_by_a_ring_and_by_reducers(where):
    text = compared(where)
    assert "2 workers, and 2 reducers" in text
    accuracies = {name: accuracy for name, _, accuracy in RESULT.findall(text)}
    assert set(accuracies) == {"ring", "reducers"}
    # the sum of two is the same in any order, so the weights are, bit for bit
    assert accuracies["ring"] == accuracies["reducers"]
    limit = GAIN.search(text)
    assert limit
    if "one host, by loopback" in text:
        assert limit[1] == "on one host none is promised"
    else:  # this machine gives hosts
        assert "links of 500 Mbit/s" in text
        assert where != "--loopback"
        assert limit[1] == "the links alone would allow 1.00"
