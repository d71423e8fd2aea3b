"""Examples unchanged on a cluster: equal results, also where a node has died on the way."""

import difflib
import json
import re
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest
import yaml

from e2e import fleet
from e2e.fleet import BUCKET
from e2e.interrupting import torch_job
from e2e.support import IMAGE, ml_job, native, serving, submit, wait_until
from examples.cluster import EXAMPLES, needs
from slurm.support import on_cluster

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(600)]

STEPS, STEP_S = 120, 0.1
TORCH = needs("torch", "sklearn", "matplotlib")
#: Examples of AI Platform, how long they train, and how near their results are on any two runs.
TRAINED = {
    "torch-ddp": pytest.param("torch-ddp", 3, 0.0, marks=TORCH),
    "tf-multiworker": pytest.param(
        "tf-multiworker", 2, 1e-6, marks=needs("tensorflow", "tf_keras", "sklearn")
    ),
    "jax-data-parallel": pytest.param("jax-data-parallel", 3, 1e-9, marks=needs("jax", "sklearn")),
}
#: What no two runs of one machine have in common either.
OF_A_RUN = {"seconds", "weights_sha256"}
SHOWS = """\
import json, os, pathlib
task = json.loads(os.environ["TF_CONFIG"])["task"]
folder = pathlib.Path(os.environ["TRAINSHED_BUCKETS"], "results", "shown")
folder.mkdir(exist_ok=True)
path = folder / (task["type"] + str(task["index"]))
path.with_suffix(".new").write_text(json.dumps(dict(os.environ)))
path.with_suffix(".new").rename(path)
import time
while task["type"] == "master" and len([p for p in folder.iterdir() if not p.suffix]) < 4:
    time.sleep(0.05)
"""
#: Of a machine, its users, its devices and its server's environment: what the how-to says is
#: different there.
OF_ENGINES = {
    *("PATH", "PYTHONPATH", "TMPDIR", "HOME", "SHELL", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ"),
    *("SSL_CERT_DIR", "SSL_CERT_FILE", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    # with these, pip installs into the overlay that a replica of this machine has
    *("PYTHONUSERBASE", "PIP_DISABLE_PIP_VERSION_CHECK", "PIP_NO_WARN_SCRIPT_LOCATION"),
    "PIP_ROOT_USER_ACTION",
}


@pytest.fixture
def server(cluster, tmp_path):
    with on_cluster(cluster, tmp_path / "cluster") as server:
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
def test_torch_resume_ends_with_the_same_bits_though_its_node_dies(server, here, cluster):
    straight = torch_job(here, "straight_1", STEPS, 0).weights()
    training = torch_job(server, "node_dies_1", STEPS, STEP_S)
    fleet.running(server, training.name)
    training.wait_until(lambda: any(training.checkpoints.glob("checkpoint-*")))
    dead = wait_until(lambda: native(server, training.name)["replicas"][0]["node"])
    cluster.kill_node(dead)
    fleet.running(server, training.name, 2)
    assert training.weights() == straight
    job = native(server, training.name)
    assert job["restarts"] == {"infra": 1, "maintenance": 0, "user": 0}
    assert dead not in {replica["node"] for replica in job["replicas"]}
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


@needs("tensorflow", "tf_keras", "sklearn")
def test_parameter_servers_train_and_the_evaluator_has_the_last_word(server):
    """On nodes of their own; its workers take turns as they come, so no two runs are alike."""
    result = trained(server, "tf-parameter-server", 3)
    assert result["accuracy"] >= 0.9
    assert result["measured_by"] == "the evaluator"
    job = native(server, "projects/demo-proj/jobs/tf_parameter_server")
    roles = [replica["taskName"].rsplit("-", 2)[0] for replica in job["replicas"]]
    assert sorted(roles) == ["evaluator", "master", "ps", "ps", "worker", "worker"]


@TORCH
def test_the_example_of_reducers_learns_through_them(server):
    """Its job.yaml, with its program as a package; two reducers have a whole node each."""
    document = yaml.safe_load((EXAMPLES / "torch-reduction" / "job.yaml").read_text())
    package = upload_package(server, "torch-reduction")
    for pool in document["workerPoolSpecs"][:2]:
        container = pool.pop("containerSpec")
        pool["pythonPackageSpec"] = {
            "executorImageUri": IMAGE,
            "packageUris": [package],
            "pythonModule": "trainer.task",
            "args": ["--epochs", "4"],
            "env": container["env"],
        }
    document["baseOutputDirectory"] = {"outputUriPrefix": f"gs://{BUCKET}/reduced"}
    name = submit(server, {"displayName": "reduced", "jobSpec": document})
    assert fleet.ended(server, name, timeout_s=400)["state"] == "SUCCEEDED", fleet.story_text(
        server, name
    )
    result = next((server.data_dir / "buckets" / BUCKET / "reduced").rglob("result.json"))
    assert json.loads(result.read_text())["accuracy"] >= 0.7
    lines = fleet.output_lines(server, name)
    assert any("4 workers, which reduce a share each, and 2 reducers" in line for line in lines)
    nodes = {replica["taskName"]: replica["node"] for replica in native(server, name)["replicas"]}
    assert nodes["workerpool2-0"] != nodes["workerpool2-1"]


def upload_package(server, example):
    """Put an example's program into the bucket, as `setup.py sdist` makes one; return its name."""
    with tempfile.TemporaryDirectory() as folder:
        setup = Path(folder, "setup.py")
        setup.write_text(
            f"from setuptools import setup\nsetup(name={example!r}, packages=['trainer'])\n"
        )
        target = server.data_dir / "buckets" / BUCKET / f"{example}-1.tar.gz"
        with tarfile.open(target, "w:gz") as archive:
            archive.add(setup, f"{example}/setup.py")
            archive.add(EXAMPLES / example / "trainer", f"{example}/trainer")
    return f"gs://{BUCKET}/{target.name}"


def trained(server, example, epochs):
    """The result of a training as its configuration says."""
    folder, job_id = EXAMPLES / example, example.replace("-", "_")
    fleet.trainshed(
        server, "ai-platform", "jobs", "submit", "training", job_id,
        "--config", folder / "config.yaml",
        "--package-path", folder / "trainer", "--module-name", "trainer.task",
        "--runtime-version", "2.11", "--python-version", "3.7", "--region", "us-central1",
        "--staging-bucket", f"gs://{BUCKET}", "--job-dir", f"gs://{BUCKET}/{job_id}",
        "--", "--epochs", epochs,
    )  # fmt: skip
    name = f"projects/demo-proj/jobs/{job_id}"
    assert fleet.ended(server, name, timeout_s=240)["state"] == "SUCCEEDED", fleet.story_text(
        server, name
    )
    result = server.data_dir / "buckets" / BUCKET / job_id / "result.json"
    return json.loads(result.read_text())


def test_environments_are_equal_but_for_addresses_and_folders(server, here):
    there, ours = (environments_of(service) for service in (server, here))
    diff = list(difflib.unified_diff(ours, there, "here", "on the cluster", lineterm="", n=0))
    sys.stdout.write("\n".join(diff))
    changes = [line for line in diff if re.match(r"[+-]\w", line)]
    names = {line[1:].partition(" ")[2].partition("=")[0] for line in changes}
    assert names <= OF_ENGINES, "\n".join(changes)


def environments_of(server):
    """What programs of all roles see, with a word for each address and folder."""
    counts = {"workerCount": "1", "parameterServerCount": "1", "evaluatorCount": "1"}
    kinds = ("master", "worker", "parameterServer", "evaluator")
    container = {
        "imageUri": "registry.test/p/img:1",
        "containerCommand": ["python", "-c"],
        "containerArgs": [SHOWS],
    }
    training = {f"{kind}Type": "n1-standard-4" for kind in kinds}
    training |= {f"{kind}Config": container for kind in kinds}
    name = submit(server, ml_job("shows", **training, **counts))
    job = fleet.ended(server, name)
    assert job["state"] == "SUCCEEDED", fleet.story_text(server, name)
    folder = server.data_dir / "buckets" / BUCKET / "shown"
    paths = sorted(path for path in folder.iterdir() if not path.suffix)
    assert len(paths) == 4
    return [
        f"{path.name} {key}={_mask_addresses(value, job['uid'])}"
        for path in paths
        for key, value in sorted(json.loads(path.read_text()).items())
    ]


def _mask_addresses(text, uid):
    text = re.sub(r"(/[\w.-]+)+", "FOLDER", text.replace(str(uid), "UID"))
    text = re.sub(r"\b(\d+\.\d+\.\d+\.\d+|localhost)(:\d+)?\b", "ADDRESS", text)
    return re.sub(r"(?<!\d)\d{4,5}(?!\d)", "PORT", text)
