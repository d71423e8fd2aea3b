"""GPUs are those that the driver names, and a job sees its own and no other (R10)."""

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
from trainshed.engines.local.isolation.choose import tried

#: Behind these walls a program cannot open what was not given to its job.
PROMISING = ("users", "sandbox", "landlock")
MODES = [
    "users",
    *(pytest.param(mode, marks=pytest.mark.full) for mode in ("sandbox", "landlock", "none")),
]
OVER = {"SUCCEEDED", "FAILED"}
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
    if request.param != "none" and (why := tried(request.param, UIDS[0])):
        pytest.skip(f"isolation {request.param} does not work here: {why}")
    return request.param


def seen(server, job_id, *words, gpus):
    """What a job says of its devices that ends at once."""
    name = jobs.hold(server, job_id, "leave", *words, gpus=gpus, mib=16)
    found = server.wait_for(f"/v1/{name}", OVER)
    assert found["state"] == "SUCCEEDED", server.log_of(name)
    said = jobs.said(server, name)
    told = said["told"].split(",") if said["told"] else []
    return [bare(uuid) for uuid in told], said["devices"]


def bare(uuid):
    """Without what it is: ``GPU-`` or ``MIG-``."""
    return uuid.partition("-")[2]


def test_a_job_sees_its_own_devices_also_where_it_forgets_which(card, mode, tmp_path):
    with jobs.serving(card, tmp_path / "data", config_of(mode)) as server:
        told, devices = seen(server, "one", gpus=1)
        assert told == devices
        uuids = [bare(uuid) for uuid in card.uuids]
        assert len(set(devices) & set(uuids)) == 1
        _, blind = seen(server, "blind", "--blind", gpus=1)
        assert seen(server, "none", gpus=0) == ([], [])
        _, none = seen(server, "blind_none", "--blind", gpus=0)
        assert (len(blind), none) == (1, []) if mode in PROMISING else blind == none == uuids


@pytest.fixture
def gpu_image():
    """An image whose containers the machine's docker can give GPUs."""
    if not cards.IS_REAL:
        pytest.skip("containers cannot be given GPUs that do not exist")
    if shutil.which("docker") is None:
        pytest.skip("there is no docker here")
    argv = ("docker", "info", "--format", "{{.Runtimes}}")
    if "nvidia" not in subprocess.run(argv, capture_output=True, text=True, check=False).stdout:
        pytest.skip("docker does not run here, or has no NVIDIA Container Toolkit")
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
            found = jobs.said(server, f"projects/{PROJECT}/jobs/{name}")
            assert len(found["devices"]) == gpus


def test_the_machine_has_the_devices_that_nvidia_smi_shows(card):
    rows = card.output(card.smi, SMI, "--format=csv,noheader,nounits").splitlines()
    found = card.output(sys.executable, "-c", LOOK).splitlines()
    assert found == rows
    assert [gpu["uuid"] for gpu in card.look()] == [row.split(", ")[1] for row in rows]
