"""Trainers that know nothing of Trainshed use gs:// as on Google, in every way to run a job.

`make test` runs a third of them, those that cost little; the rest, the other modes of isolation and
local runs run in `make test-full`.
"""

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.real_code.conftest import BUCKET, HERE, PACKAGE, PYTHON, place, prepared
from e2e.support import PROJECT, submit

TRAINSHED = Path(sys.executable).parent / "trainshed"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="make test installs what trainers import"),
]

#: By trainer, an object that is below its output in the end, and what it must start.
TRAINERS = {
    "cloud_logging": (None, None),
    "cloud_monitoring": (None, None),
    "credentials": (None, None),
    "fsspec_urls": ("chunks/0.0", None),
    "gcloud_storage": ("moved.pb", "gcloud"),
    "gcsfs_files": ("model/weights.bin", None),
    "gsutil_commands": ("moved.pb", "gsutil"),
    "keras_training": ("export/1/saved_model.pb", None),
    "pandas_frames": ("frame.parquet", None),
    "sklearn_joblib": ("model.joblib", None),
    "storage_client": ("model/model.bst", None),
    "tf_checkpoints": ("checkpoints/ckpt-4.index", None),
    "tf_gfile": ("old/x.npy", None),
    "tf_records": ("records/train-00003-of-00004.tfrecord", None),
    "torch_fsspec": ("checkpoints/epoch-1.pt", None),
    "xgboost_model": ("model.bst", "gsutil"),
}
#: In `make test`, on this machine without a server.
LOCALLY = {("storage_client", "vertex")}
#: In `make test`, each in one dialect.
CHEAP = {
    "ml": ("credentials", "tf_gfile"),
    "vertex": ("fsspec_urls", "storage_client"),
}
DIALECTS = ("ml", "vertex")


def matrix():
    """Every trainer in both dialects."""
    for name in TRAINERS:
        for dialect in DIALECTS:
            marks = () if name in CHEAP[dialect] else pytest.mark.full
            yield pytest.param(name, dialect, marks=marks, id=f"{name}-{dialect}")


def local_matrix():
    """The same, without a server."""
    for case in itertools.product(TRAINERS, DIALECTS):
        yield pytest.param(*case, marks=() if case in LOCALLY else pytest.mark.full)


def flags(name, run):
    return [f"--data=gs://{BUCKET}/data", f"--output=gs://{BUCKET}/{run}/{name}"]


def document(name, dialect):
    """A job as the samples submit it: a package from a bucket, on an image of Google's."""
    program = {"packageUris": [PACKAGE], "pythonModule": f"trainers.{name}"}
    words = flags(name, dialect)
    if dialect == "ml":
        training = {
            "region": "us-central1", "scaleTier": "BASIC", "runtimeVersion": "2.11",
            "pythonVersion": "3.7", "jobDir": f"gs://{BUCKET}/jobs/{name}", "args": words,
            **program,
        }  # fmt: skip
        return {"jobId": name, "trainingInput": training}
    image = "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-11.py310:latest"
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": 1,
        "pythonPackageSpec": {"executorImageUri": image, "args": words, **program},
    }
    return {"displayName": name, "jobSpec": {"workerPoolSpecs": [pool]}}


def ran(server, job):
    """Run it to its end; its log."""
    full_name = submit(server, job)
    document = server.wait_for(
        f"/v1/{full_name}", {f"{p}{s}" for p in ("", "JOB_STATE_") for s in ENDS}
    )
    log = server.log_of(full_name)
    assert document["state"].endswith("SUCCEEDED"), log
    return log


ENDS = ("SUCCEEDED", "FAILED")


def check(name, bucket, run):
    """What the trainer has written lies in the bucket."""
    file_name, _ = TRAINERS[name]
    assert file_name is None or (bucket / run / name / file_name).stat().st_size > 0


def runnable(name):
    """Skip what the machine lacks a command for."""
    _, command = TRAINERS[name]
    if command and not shutil.which(command):
        pytest.skip(f"{command} is not installed; make test installs what trainers import")


@pytest.mark.parametrize(("name", "dialect"), list(matrix()))
def test_a_trainer_for_google_runs_in_a_job_of_the_service(real_server, name, dialect):
    runnable(name)
    ran(real_server, document(name, dialect))
    check(name, real_server.data_dir / "buckets" / BUCKET, dialect)


@pytest.fixture(scope="module")
def proxied_server(tmp_path_factory):
    """Where replicas have no hosts file, Google's names are reached through the proxy."""
    with prepared(tmp_path_factory.mktemp("proxied"), "landlock") as proxied_server:
        yield proxied_server


@pytest.mark.full
@pytest.mark.parametrize("name", TRAINERS)
def test_it_runs_where_googles_names_are_reached_by_proxy(proxied_server, name):
    runnable(name)
    ran(proxied_server, document(name, "vertex"))
    check(name, proxied_server.data_dir / "buckets" / BUCKET, "vertex")


def local(dialect, package):
    """What runs a module here, in the words of each dialect; it begins beside its package."""
    if dialect == "ml":
        return "ai-platform", "local", "train", "--package-path", package, "--module-name"
    folder = package.parent
    return "ai", "custom-jobs", "local-run", "--local-package-path", folder, "--python-module"


@pytest.mark.parametrize(("name", "dialect"), list(local_matrix()))
def test_it_runs_on_this_machine_without_a_server(tmp_path, name, dialect):
    runnable(name)
    bucket = tmp_path / "data" / "buckets" / BUCKET
    place(bucket)
    package = shutil.copytree(HERE / "trainers", tmp_path / "code" / "trainers")
    words = [*local(dialect, package), f"trainers.{name}", "--python", PYTHON]
    ran_here([*words, *here(tmp_path), "--", *flags(name, "local")], tmp_path)
    check(name, bucket, "local")


def here(folder):
    """The project and the data of a local run."""
    return "--project", PROJECT, "--data-dir", folder / "data"


def ran_here(words, folder, environ=os.environ):
    """A command of ours, run to its end by somebody who has nothing of Google's."""
    done = subprocess.run(
        [TRAINSHED, *words],
        cwd=folder,
        env={**without_credentials(environ), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]


def without_credentials(environ):
    """The environment of somebody who has set nothing of Google's."""
    ours = ("CLOUDSDK_", "GOOGLE_", "STORAGE_EMULATOR_HOST")
    return {name: value for name, value in environ.items() if not name.startswith(ours)}
