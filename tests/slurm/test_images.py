"""Images on the nodes of a real cluster, by a program that stands in for apptainer there."""

import pytest

from e2e import fleet
from e2e.support import submit
from slurm.support import a_job, on_cluster
from warden.stand_in import apptainer, read_calls

pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(300)]

IMAGE = "registry.example/ours/train:1"
ODD = "a 'b' \"c\"\n$HOME `d` \\ \u00e9"
SAYS = """\
import json, os, sys
print("said", json.dumps([os.environ["ODD"], os.getcwd(), sys.argv[1:]]))
print("strange", sorted(n for n in os.environ if n.startswith(("SLURM_", "APPTAINER"))))
"""


def in_image(name, **container):
    document = a_job(name)
    pool = document["jobSpec"]["workerPoolSpecs"][0]
    pool["containerSpec"] = {
        "imageUri": IMAGE,
        "env": [{"name": "ODD", "value": ODD}],
        **container,
    }
    return document


@pytest.fixture
def folder(cluster):
    return cluster.shared / "apptainer"


def test_a_job_runs_in_its_image(cluster, folder, tmp_path):
    program = apptainer(folder)
    with on_cluster(cluster, tmp_path / "data", containers=str(program)) as server:
        words = {"command": ["python3", "-c", SAYS], "args": [ODD]}
        name = submit(server, in_image("in-image", **words))
        job = fleet.ended(server, name)
        assert job["state"] == "SUCCEEDED", fleet.story_text(server, name)
        output = "\n".join(fleet.output_lines(server, name))
        assert "strange []" in output
        own = submit(server, in_image("its-own"))
        assert fleet.ended(server, own)["state"] == "SUCCEEDED", fleet.story_text(server, own)
        assert fleet.output_lines(server, own) == ["the image's own program"]
    first = next(call for call in read_calls(folder) if call["words"][0] == "exec")
    at = first["words"].index(f"docker://{IMAGE}")
    assert first["words"][at + 1 :] == ["python3", "-c", SAYS, ODD]
    assert first["env"]["APPTAINERENV_ODD"] == ODD
    assert first["cwd"].endswith("/work")
    assert not [name for name in first["env"] if name.startswith("SLURM_")]
