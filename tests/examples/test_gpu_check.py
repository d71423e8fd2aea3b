"""The sample run of ``gpu-check`` says in one line of JSON how long it took."""

import json
import subprocess
import sys

import pytest

from examples.cluster import EXAMPLES, call, needs

STEPS = EXAMPLES / "gpu-check" / "steps.py"
pytestmark = [pytest.mark.slow, needs("torch")]


def steps(*argv):
    command = [sys.executable, str(STEPS), *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


@pytest.mark.full
def test_one_line_of_json_is_all_it_prints():
    done = steps("--device", "cpu", "--steps", "3")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    report = json.loads(line)
    assert set(report) == {"device", "steps", "seconds"}
    assert (report["device"], report["steps"]) == ("cpu", 3)
    assert report["seconds"] > 0


@pytest.mark.full
def test_a_device_that_is_not_there_is_a_failure():
    torch = pytest.importorskip("torch", reason="torch is not installed; make test installs it")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here: the test is for machines without one")
    assert steps("--device", "cuda", "--steps", "1").returncode != 0


@pytest.mark.full  # cli/test_gpu_check.py has the command
def test_the_command_says_what_it_could_measure():
    check = ("gpu-check", "--module-name", "steps", "--package-path", ".")
    outcome = call("gpu-check", *check, "--", "--steps", 3)
    assert outcome.code == 0, outcome.story()
    assert "SPEEDUP" in outcome.text
