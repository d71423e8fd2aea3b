"""Frameworks in a job see its GPU and no other, and train on it (R10, R21)."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from e2e.support import submit
from gpu import card as cards
from gpu import jobs

PROGRAMS = Path(__file__).parent / "programs"
OVER = {"SUCCEEDED", "FAILED"}
pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(300)]


def ran(server, program, gpus=1):
    """What a program says in a job with a GPU; skips where its framework can do nothing there."""
    framework = program.partition("_")[0].replace("tf", "tensorflow")
    if find_spec(framework) is None:
        pytest.skip(f"not installed: {framework}")
    code = (PROGRAMS / f"{program}.py").read_text()
    name = submit(server, jobs.job_of(f"{program}_{gpus}", code, gpus=gpus))
    found = server.wait_for(f"/v1/{name}", OVER)
    assert found["state"] == "SUCCEEDED", server.log_of(name)
    said = jobs.said(server, name)
    if "lacks" in said:
        pytest.skip(said["lacks"])
    return said


def check_devices(said, card):
    """It has one device of the machine's, and the framework knows the same."""
    assert said["told"] in card.uuids
    if "uuids" in said:
        assert [f"GPU-{uuid}" for uuid in said["uuids"]] == [said["told"]]
    else:
        assert said["count"] == 1


def check_losses(said):
    for precision, (first, last) in said["losses"].items():
        assert last < first / 2, (precision, first, last)


def test_torch_trains_in_mixed_precision(card, gpu_server, torch_device):
    said = ran(gpu_server, "torch_mixed")
    assert said["device"] == torch_device, said
    check_losses(said)
    if torch_device == "cuda":
        check_devices(said, card)


def test_two_processes_of_a_job_share_its_card_over_gloo(card, gpu_server, torch_device):
    said = ran(gpu_server, "torch_shared")
    assert (said["device"], said["told"] in card.uuids) == (torch_device, True)
    assert said["same"]
    assert said["difference"] < 1e-9


@pytest.mark.skipif(not cards.IS_REAL, reason="there is no GPU that they could compute on")
@pytest.mark.parametrize("program", ["jax_grad", "cupy_fit", "tf_mirrored"])
def test_other_frameworks_have_the_jobs_card(card, gpu_server, program):
    said = ran(gpu_server, program)
    check_devices(said, card)
    check_losses(said)


def test_a_job_without_a_card_trains_on_its_cpu(gpu_server):
    said = ran(gpu_server, "torch_mixed", gpus=0)
    assert (said["device"], said["uuids"], said["told"]) == ("cpu", [], "")
    check_losses(said)
