"""GPUs for the tests: one card for all of them, and a server of its machine."""

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpu import card as cards
from gpu import jobs

#: A file to which each test adds a line of JSON: what it is called, how it went, why.
REPORT = os.environ.get("TRAINSHED_GPU_REPORT")
#: When no further test is begun, in seconds since 1970.
UNTIL = float(os.environ.get("TRAINSHED_GPU_UNTIL", "inf"))


#: In ``make test-gpu``, for each test in place of its own mark: one that hangs must not take all.
SECONDS_MAX = 90


def pytest_collection_modifyitems(items):
    if cards.IS_REAL:
        for item in items:
            item.add_marker(pytest.mark.timeout(SECONDS_MAX), append=False)


def pytest_runtest_setup():
    if time.time() > UNTIL:
        pytest.skip("not run: the time for the tests is over")


def pytest_runtest_logreport(report):
    if REPORT and (report.when == "call" or report.outcome != "passed"):
        why = report.longrepr[2] if report.skipped else report.longreprtext.splitlines()[-1:]
        line = {
            "name": report.nodeid.removeprefix("tests/gpu/"),
            "outcome": report.outcome,
            "why": (why if isinstance(why, str) else "".join(why)).removeprefix("Skipped: "),
            "seconds": round(report.duration, 1),
        }
        with Path(REPORT).open("a") as file:
            file.write(f"{json.dumps(line)}\n")


@pytest.fixture(scope="session")
def card(tmp_path_factory):
    """The machine's own GPUs in ``make test-gpu``, elsewhere those of our simulated driver."""
    how = cards.real() if cards.IS_REAL else cards.fake(tmp_path_factory.mktemp("card"))
    with how as machine:
        machine.pids()  # what this starts is for all of them
        yield machine


@pytest.fixture(scope="session")
def gpu_server(card, tmp_path_factory):
    """A server of that machine, for all tests that do not change it."""
    with jobs.serving(card, tmp_path_factory.mktemp("gpus") / "data") as server:
        yield server


@pytest.fixture(scope="session")
def torch_device():
    """The device of torch's own tests: ``cuda``, or ``cpu`` instead."""
    if not cards.IS_REAL:
        return "cpu"
    if find_spec("torch") is None:
        pytest.skip("torch is not installed; make test-gpu installs it")
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    # in a process of its own: this one must not become a program on the GPU
    if subprocess.run((sys.executable, "-c", code), check=False).returncode:
        pytest.skip("torch cannot use CUDA here: install a driver that its CUDA accepts")
    return "cuda"
