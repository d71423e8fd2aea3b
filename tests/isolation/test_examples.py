"""The examples train behind the walls of each mode, and nothing in them is changed for that."""

import os
import subprocess
from importlib.util import find_spec

import pytest
import yaml

from e2e.support import FINAL, good
from examples.cluster import EXAMPLES
from isolation.calls import archive, make_bucket, upload
from isolation.expected import LANDLOCK, SANDBOX, USERS
from isolation.scene import ALPHA, staged
from server_process import TRAINSHED

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1800)]

EPOCH, STEPS = ("--epochs", "1"), ("--steps", "3", "--save-every", "2")
TORCH, KERAS = ("torch", "sklearn"), ("tensorflow", "tf_keras", "sklearn")
#: What each is told, what it needs, and how many workers and parameter servers it gets.
CASES = {
    "torch-ddp": (EPOCH, (*TORCH, "matplotlib"), {"workerCount": 1}),
    "model-parallel": (EPOCH, TORCH, {"workerCount": 1}),
    "tuning": (EPOCH, ("sklearn", "hypertune"), {}),
    "jax-data-parallel": (EPOCH, ("jax", "sklearn"), {}),
    "torch-resume": (STEPS, TORCH, {}),
    "keras-resume": (STEPS, KERAS, {}),
    "lightning-resume": (STEPS, ("torch", "lightning"), {}),
    "tf-multiworker": (EPOCH, KERAS, {}),
    "tf-parameter-server": (EPOCH, KERAS, {"workerCount": 1, "parameterServerCount": 1}),
}
BASIC = (
    "--runtime-version", "2.11", "--python-version", "3.7", "--module-name", "trainer.task",
    "--package-path", "trainer", "--staging-bucket", "gs://alpha-bucket", "--project", ALPHA,
)  # fmt: skip
SETUP = b"from setuptools import setup\nsetup(name='trapped', version='1', packages=['trainer'])\n"


def is_there(modules):
    return all(map(find_spec, modules))


@pytest.mark.parametrize("mode", [USERS, LANDLOCK, SANDBOX], ids=lambda mode: mode.name)
def test_every_example_trains(mode, tmp_path):
    with staged(mode) as scene:
        make_bucket(scene, ALPHA, "alpha-bucket")
        jobs = {
            example: trained(scene, example, args, fewer, tmp_path)
            for example, (args, modules, fewer) in CASES.items()
            if is_there(modules)
        }
        if is_there(TORCH):
            jobs["torch-reduction"] = reduced(scene)
        failed = {name: log for name, (state, log) in jobs.items() if "SUCCEEDED" not in state}
        outputs = {path.name for path in (scene.data / "buckets" / "alpha-bucket").iterdir()}
    assert not failed, "\n\n".join(f"{name}:\n{log[-3000:]}" for name, log in failed.items())
    assert {name.replace("-", "_") for name in jobs if name in CASES} <= outputs


def trained(scene, example, args, fewer, folder):
    """Submit it as its page says; (its last state, its log)."""
    document = yaml.safe_load((EXAMPLES / example / "config.yaml").read_text())
    document["trainingInput"] |= fewer
    if study := document["trainingInput"].get("hyperparameters"):
        study["maxTrials"] = 2
    config, job = folder / f"{example}.yaml", example.replace("-", "_")
    config.write_text(yaml.safe_dump(document))
    words = (job, "--config", config, "--job-dir", f"gs://alpha-bucket/{job}", *BASIC, "--", *args)
    done = subprocess.run(
        [TRAINSHED, "ai-platform", "jobs", "submit", "training", *words],
        env={**os.environ, "TRAINSHED_DATA_DIR": str(scene.data)},
        cwd=EXAMPLES / example, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return ended(scene, f"projects/{ALPHA}/jobs/{job}")


def reduced(scene):
    """Its Vertex job, with its program as a package; (its last state, its log)."""
    files = {"setup.py": SETUP}
    for path in (EXAMPLES / "torch-reduction" / "trainer").glob("*.py"):
        files[f"trainer/{path.name}"] = path.read_bytes()
    package = upload(scene, "alpha-bucket", "reduction-1.tar.gz", archive(files))
    document = yaml.safe_load((EXAMPLES / "torch-reduction" / "job.yaml").read_text())
    for pool in document["workerPoolSpecs"][:2]:
        pool["replicaCount"] = 1
        pool["pythonPackageSpec"] = {
            "executorImageUri": scene.mode.image,
            "packageUris": [package],
            "pythonModule": "trainer.task",
            "args": [*EPOCH, "--width", "128"],
            "env": pool.pop("containerSpec")["env"],
        }
    document["baseOutputDirectory"] = {"outputUriPrefix": "gs://alpha-bucket/torch_reduction"}
    path = f"/v1/projects/{ALPHA}/locations/us-central1/customJobs"
    job = good(scene.server.call("POST", path, {"displayName": "reduced", "jobSpec": document}))
    return ended(scene, job["name"])


def ended(scene, name):
    finals = {*FINAL, "SUCCEEDED", "FAILED", "CANCELLED"}
    state = scene.server.wait_for(f"/v1/{name}", finals, timeout_s=900)["state"]
    return state, scene.server.log_of(name)
