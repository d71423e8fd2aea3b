"""Reducers on nodes of their own; the secret that they share with workers is nobody else's."""

import os
import stat
from pathlib import Path

import pytest

from e2e import fleet
from e2e.reduction_jobs import CHOICE, DONE, GPU, LEAVES, SUMS, TORCH, job, lines_by_task
from e2e.support import native, serving, submit, wait_until
from e2e.test_reduction import lean
from examples.cluster import needs
from slurm.support import table
from slurm.world import options

__all__ = ["lean"]

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]

IMAGE = """\
[[image]]
image = "lean.test/*"
environment = "lean"

"""
#: The primary says in a file what the secret is, and all wait.
TELLS = f"""{SUMS}
import pathlib, time
if rank == 0:
    pathlib.Path("SECRET").write_bytes(token_of(os.environ))
while not os.path.exists("GO"):
    time.sleep(0.05)
client.close()
"""


@pytest.fixture
def server(cluster, tmp_path, lean):
    """Programs have a Python without the trainer library: it comes with the job."""
    environments = {**options(cluster)["environments"], "lean": str(lean)}
    config = IMAGE + table(cluster, environments=environments)
    with serving(tmp_path / "data", config=config) as server:
        yield server


def check_the_sum(server, name):
    document = fleet.ended(server, name)
    assert document["state"] == "SUCCEEDED", fleet.story_text(server, name)
    words = lines_by_task(server, name)
    assert "SUM 3.0" in words["workerpool0-0"]
    assert "SUM 3.0" in words["workerpool1-0"]
    for index in (0, 1):
        assert words[f"workerpool2-{index}"][0].startswith(f"reducer {index}: listening on ")
        assert words[f"workerpool2-{index}"][-1] == f"reducer {index}: ends: received SIGTERM"
    return words


def test_reducers_sum_on_nodes_of_their_own_and_end_with_their_job(server, cluster):
    name = submit(server, job("summed", LEAVES))
    check_the_sum(server, name)
    places = {replica["taskName"]: replica["node"] for replica in native(server, name)["replicas"]}
    assert len(places) == 4
    assert len({*places.values()}) == 4
    cluster.wait_for(lambda: not cluster.programs(b"trainshed.reduction"))


@needs("torch")
def test_a_trainer_with_torch_chooses_them_by_its_environment_alone(server):
    assert GPU["acceleratorType"] == "NVIDIA_TESLA_T4"
    name = submit(server, job("torch", TORCH, env=CHOICE))
    assert DONE in check_the_sum(server, name)["workerpool0-0"]


def test_their_secret_is_in_nothing_that_others_can_read(server, cluster):
    secret_file, go = cluster.shared / "secret", cluster.shared / "go-secret"
    code = TELLS.replace("SECRET", str(secret_file)).replace("GO", str(go))
    name = submit(server, job("secret", code))
    wait_until(secret_file.exists, lambda: fleet.story_text(server, name))
    secret = secret_file.read_bytes().strip()
    secret_file.unlink()
    assert len(secret) >= 16
    output = slurm_output(cluster)
    assert b"BatchFlag=1" in output
    assert b"claim" in output, "the script was shown"
    assert secret not in output
    assert not list(processes_with(secret))
    keeps = [path for path in files_below(cluster.folder) if secret in path.read_bytes()]
    assert keeps
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in keeps} == {0}
    go.touch()
    check_the_sum(server, name)
    log = "\n".join(line for lines in lines_by_task(server, name).values() for line in lines)
    assert secret not in log.encode()


def slurm_output(cluster):
    """All that anybody can ask of it."""
    (number, *_) = cluster.jobs("%A")
    words = (
        ("squeue", "-o", "%all"),
        ("scontrol", "-d", "show", "job", number),
        ("scontrol", "show", "step"),
        ("scontrol", "write", "batch_script", number, "-"),
    )
    return "\n".join(cluster.run(*command) for command in words).encode()


def processes_with(secret):
    """Those in whose words or environment it is."""
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                if secret in (process / name).read_bytes():
                    yield process, name
            except OSError:
                continue


def files_below(folder):
    """Regular files of a folder's tree; there are sockets and devices, too."""
    for top, _, names in os.walk(folder):
        for path in (Path(top, name) for name in names):
            if stat.S_ISREG(path.lstat().st_mode):
                yield path
