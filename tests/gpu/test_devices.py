"""GPUs are those that the driver names, and a job sees its own and no other."""

import os
import shutil
import subprocess
import sys

import pytest

from e2e.support import PROJECT, submit
from engines.isolating import UIDS
from gpu import card as cards
from gpu import jobs
from isolation import python_image
from trainshed.engines.isolation.choose import try_isolation

MODES = ("users", "sandbox", "landlock", "none")
SMI = "--query-gpu=index,uuid,name"
LOOK = """
from trainshed.engines.local.devices.find import devices
for device in devices():
    print(device.index, device.uuid, device.name, sep=", ")
"""


def config_of(mode):
    return f'{jobs.FLEET}[isolation]\nmode = "{mode}"\nallow_root_jobs = true\n\n'


@pytest.fixture(params=MODES)
def mode(request):
    if request.param != "none" and (why := try_isolation(request.param, UIDS[0])):
        pytest.skip(f"isolation {request.param} does not work here: {why}")
    return request.param


@pytest.mark.full
def test_a_job_sees_its_own_devices_in_each_mode(card, mode, tmp_path):
    with jobs.serving(card, tmp_path / "data", config_of(mode)) as server:
        jobs.check_sight(server, card)


@pytest.fixture
def gpu_image():
    """An image whose containers the machine's docker can give GPUs."""
    if not cards.IS_REAL:
        pytest.skip("containers cannot be given GPUs that do not exist")
    if shutil.which("docker") is None:
        pytest.skip("docker is not installed (apt install docker.io)")
    argv = ("docker", "info", "--format", "{{.Runtimes}}")
    if "nvidia" not in subprocess.run(argv, capture_output=True, text=True, check=False).stdout:
        pytest.skip("docker does not run here, or lacks GPUs: install nvidia-container-toolkit")
    if why := python_image.why_not():
        pytest.skip(why)
    python_image.make(dict(os.environ))
    return python_image.IMAGE


@pytest.mark.full
def test_a_container_has_its_jobs_devices_and_no_other(card, gpu_image, tmp_path):
    with jobs.serving(card, tmp_path / "data", config_of("container")) as server:
        for name, gpus in (("one", 1), ("none", 0)):
            job = jobs.job_of(name, jobs.HOLD, 16, "leave", "--blind", gpus=gpus)
            job["trainingInput"]["masterConfig"]["imageUri"] = gpu_image
            server.wait_for(f"/v1/{submit(server, job)}", {"SUCCEEDED"})
            report = jobs.read_report(server, f"projects/{PROJECT}/jobs/{name}")
            assert len(report["devices"]) == gpus


def test_the_machine_has_the_devices_that_nvidia_smi_shows(card):
    rows = card.output(card.smi, SMI, "--format=csv,noheader,nounits").splitlines()
    lines = card.output(sys.executable, "-c", LOOK).splitlines()
    assert lines == rows
    assert [gpu["uuid"] for gpu in card.look()] == [row.split(", ")[1] for row in rows]
