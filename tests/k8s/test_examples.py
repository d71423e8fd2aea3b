"""Examples unchanged in pods: equal results, also where a node is drained on the way."""

import os
import re
import subprocess
from difflib import unified_diff

import pytest

from e2e import fleet
from e2e.interrupting import torch_job
from e2e.support import native, serving
from examples.cluster import EXAMPLES, TRAINSHED
from k8s.emulator.pods.runtime import explain_absence
from k8s.serving import serving_cluster
from slurm.test_examples import (
    OF_A_RUN,
    OF_ENGINES,
    STEP_S,
    STEPS,
    TORCH,
    TRAINED,
    environments_of,
    trained,
)

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(600)]

#: Of pods, of the tests' image, and what the program's own Python sets where no locale is named.
OF_PODS = {"HOSTNAME", "JOB_COMPLETION_INDEX", "PIP_NO_BUILD_ISOLATION", "PIP_NO_INDEX", "LC_CTYPE"}


@pytest.fixture(scope="module")
def server(live_cluster, tmp_path_factory):
    with serving_cluster(live_cluster, tmp_path_factory.mktemp("served") / "data") as server:
        fleet.make_bucket(server)
        yield server


@pytest.fixture
def here(tmp_path):
    """Without a gateway, which a cluster has none of either."""
    config = "[gateway]\nenabled = false\n"
    with serving(tmp_path / "here", config=config) as server:
        fleet.make_bucket(server)
        yield server


@TORCH
def test_torch_resume_ends_with_the_same_bits_though_its_node_is_drained(
    server, here, live_cluster
):
    straight = torch_job(here, "straight_1", STEPS, 0).weights()
    training = torch_job(server, "drained_1", STEPS, STEP_S)
    fleet.running(server, training.name)
    training.wait_until(lambda: any(training.checkpoints.glob("checkpoint-*")))
    drained = native(server, training.name)["replicas"][0]["node"]
    live_cluster.plane.drain(drained)
    fleet.running(server, training.name, 2)
    assert training.weights() == straight
    live_cluster.plane.cordon(drained, is_cordoned=False)
    job = native(server, training.name)
    assert job["restarts"] == {"infra": 0, "maintenance": 1, "user": 0}
    assert drained not in {replica["node"] for replica in job["replicas"]}
    lines = fleet.output_lines(server, training.name, "master-replica-0")
    assert any(line.startswith("resumed from step ") for line in lines)


@pytest.mark.parametrize(("example", "epochs", "distance"), TRAINED.values(), ids=TRAINED)
def test_an_example_learns_the_same_as_on_one_machine(server, here, example, epochs, distance):
    there, ours = (trained(service, example, epochs) for service in (server, here))
    assert there.keys() == ours.keys()
    for key in there.keys() - OF_A_RUN:
        if isinstance(there[key], str):
            assert there[key] == ours[key]
        else:
            assert there[key] == pytest.approx(ours[key], abs=distance)
    if not distance:
        assert there["weights_sha256"] == ours["weights_sha256"]


def test_environments_are_equal_but_for_addresses_and_folders(server, here):
    there, ours = (environments_of(service) for service in (server, here))
    diff = list(unified_diff(ours, there, "here", "on the cluster", lineterm="", n=0))
    changes = [line for line in diff if re.match(r"[+-]\w", line)]
    names = {line[1:].partition(" ")[2].partition("=")[0] for line in changes}
    assert names <= OF_ENGINES | OF_PODS, "\n".join(changes)


def test_the_demo_shows_a_gang_and_a_job_that_waits(tmp_path):
    if reason := explain_absence():
        pytest.skip(reason)
    search = os.pathsep.join([str(TRAINSHED.parent), os.environ["PATH"]])
    done = subprocess.run(
        [EXAMPLES / "kubernetes" / "demo.sh", tmp_path / "data"],
        env={**os.environ, "PATH": search, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for number in range(2):
        assert f"workerpool0-0 hears: hello from workerpool1-{number}" in done.stdout
    assert "SUCCEEDED" in done.stdout
    assert re.search(r"waits: CAPACITY: .* have no place: 4 nodes lack cpu", done.stdout)
    assert "Traceback" not in (tmp_path / "data" / "serve.log").read_text()
