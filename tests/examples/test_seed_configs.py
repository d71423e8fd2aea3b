"""Thirteen replicas, as the printed configurations ask for, find each other."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from examples.cluster import EXAMPLES, TRAIN, call
from trainshed.engines.processes.ports import free_runs

CONFIGS = sorted((EXAMPLES / "seed-configs").glob("config-*.yaml"))
#: They differ in machines and GPUs, which replicas do not see.
ONE_AND_ALL = [
    pytest.param(path, marks=pytest.mark.full if place else (), id=path.stem)
    for place, path in enumerate(CONFIGS)
]


@pytest.mark.parametrize("path", ONE_AND_ALL)
def test_all_thirteen_replicas_answer_to_their_names(path):
    outcome = call("seed-configs", *TRAIN, "--config", path.name, "--region", "us-central1")
    assert outcome.code == 0, outcome.story()
    assert outcome.last_line == "13 replicas answered"
    assert "worker 8 in a cluster of 13" in outcome.output["worker-replica-8"]
    assert len(outcome.output) == 13


def test_a_program_that_nobody_launched_has_nobody_to_ask():
    done = start({})
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0 replicas answered")


def test_a_replica_that_answers_to_another_name_is_found_out():
    address = f"localhost:{free_runs((1,))[0]}"
    cluster = {"chief": [address], "worker": [address]}
    config = {"cluster": cluster, "task": {"type": "chief", "index": 0}}
    program = "from trainer import task; task.PATIENCE_S = 0; task.main()"
    done = start({"TF_CONFIG": json.dumps(config)}, "-c", program)
    assert done.returncode == 1
    assert f"{address} should be worker 0; it said: chief 0" in done.stderr


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configurations_ask_for_thirteen_replicas(path):
    training_input = yaml.safe_load(path.read_text())["trainingInput"]
    assert (training_input["workerCount"], training_input["parameterServerCount"]) == (9, 3)


def start(environ, *argv):
    return subprocess.run(
        [sys.executable, *(argv or ("-m", "trainer.task"))],
        cwd=EXAMPLES / "seed-configs",
        env={**{k: v for k, v in os.environ.items() if k != "TF_CONFIG"}, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
