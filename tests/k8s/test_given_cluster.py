"""The tests for any cluster run on one that they know only by the environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.support import IMAGE
from k8s import given_cluster
from k8s.given_cluster import NEEDS_CONTROL, GivenCluster
from k8s.live_cluster import MACHINE

FOLDER = Path(__file__).parent
#: Tests of the contract that together use every part of a world.
CONTRACT = (
    "program_finds or lost_is_gone or left_is_found or forgotten or lost_for_maintenance "
    "or answers_nothing or every_line or reports_are_read or cannot_be_seen or queued_attempt"
)
WITHOUT_CONTROL = (
    *("cannot_be_seen", "queued_attempt", "lost_is_gone", "an_image_of_any_user"),
    *("gang_of_all_roles", "cancelled_program", "job_that_waits"),
)


@pytest.mark.full
@pytest.mark.slow
def test_the_contract_and_a_server_on_a_cluster_of_the_environment(live_cluster, tmp_path):
    claim, folder = live_cluster.open_claim("given")
    kubeconfig = live_cluster.make_settings(tmp_path, claim)["kubeconfig"]
    env = {
        given_cluster.KUBECONFIG: kubeconfig,
        given_cluster.CLAIM: claim,
        given_cluster.CLAIM_PATH: str(folder),
        given_cluster.SHELL_IMAGE: MACHINE,
        given_cluster.PYTHON_IMAGE: IMAGE,
        "TRAINSHED_CHAOS": "full",
    }
    contract, service = FOLDER / "test_engine_contract.py", FOLDER / "test_service.py"
    argv = [sys.executable, "-m", "pytest", "-n0", "-q", "-ra", "-p", "no:cacheprovider"]
    argv.append(f"--basetemp={tmp_path / 'inner'}")
    words = [*argv, contract, service, "-k", f"{CONTRACT} or test_service"]
    done = subprocess.run(
        words,
        cwd=FOLDER.parents[1],
        env={**os.environ, **env},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    _, _, listed = done.stdout.partition("not run on this cluster")
    rows = [line for line in listed.splitlines() if NEEDS_CONTROL in line and "::" in line]
    assert [name for name in WITHOUT_CONTROL if not any(name in row for row in rows)] == []
    assert len(rows) == len(WITHOUT_CONTROL), rows
    objects, _ = live_cluster.store.list("JobSet", "default")
    assert objects == []


def test_a_variable_that_is_missing_is_named(tmp_path):
    with pytest.raises(ValueError, match="TRAINSHED_TEST_CLAIM_PATH"):
        GivenCluster({given_cluster.KUBECONFIG: "/x", given_cluster.CLAIM: "c"}, tmp_path)
