"""Frameworks in a job see its GPU and no other, and train on it."""

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
        pytest.skip(f"{framework} is not installed; make test-gpu installs it")
    code = (PROGRAMS / f"{program}.py").read_text()
    name = submit(server, jobs.job_of(f"{program}_{gpus}", code, gpus=gpus))
    job = server.wait_for(f"/v1/{name}", OVER)
    assert job["state"] == "SUCCEEDED", server.log_of(name)
    report = jobs.read_report(server, name)
    if "lacks" in report:
        pytest.skip(report["lacks"])
    return report


def check_devices(report, card):
    """It has one device of the machine's, and the framework knows the same."""
    assert report["told"] in card.uuids
    if "uuids" in report:
        assert [f"GPU-{uuid}" for uuid in report["uuids"]] == [report["told"]]
    else:
        assert report["count"] == 1


def check_losses(report):
    for precision, (first, last) in report["losses"].items():
        assert last < first / 2, (precision, first, last)


def test_torch_trains_in_mixed_precision(card, gpu_server, torch_device):
    report = ran(gpu_server, "torch_mixed")
    assert report["device"] == torch_device, report
    check_losses(report)
    if torch_device == "cuda":
        check_devices(report, card)


def test_two_processes_of_a_job_share_its_card_over_gloo(card, gpu_server, torch_device):
    report = ran(gpu_server, "torch_shared")
    assert (report["device"], report["told"] in card.uuids) == (torch_device, True)
    assert report["same"]
    assert report["difference"] < 1e-9


@pytest.mark.skipif(not cards.IS_REAL, reason="run make test-gpu on a machine with a GPU")
@pytest.mark.parametrize("program", ["jax_grad", "cupy_fit", "tf_mirrored"])
def test_other_frameworks_have_the_jobs_card(card, gpu_server, program):
    report = ran(gpu_server, program)
    check_devices(report, card)
    check_losses(report)


def test_a_job_without_a_card_trains_on_its_cpu(gpu_server):
    report = ran(gpu_server, "torch_mixed", gpus=0)
    assert (report["device"], report["uuids"], report["told"]) == ("cpu", [], "")
    check_losses(report)
