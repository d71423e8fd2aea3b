"""The same trainers in an image of their user's: with the machine's network, and one of its own.

Docker and the servers run in a network of the tests', so that the bridge is theirs.
"""

import contextlib
import json
import sys

import pytest

from conformance.real_code import image
from conformance.real_code.conftest import BUCKET, PYTHON, place, prepared
from conformance.real_code.test_real_code import TRAINSHED, check, flags, here, ran, ran_here
from engines import docker_daemon
from engines.own_network import own_network

pytestmark = [
    pytest.mark.slow,
    pytest.mark.full,
    pytest.mark.skipif(bool(docker_daemon.why_not()), reason=docker_daemon.why_not()),
    pytest.mark.skipif(not PYTHON.exists(), reason="make test installs what trainers import"),
]

#: A job of one replica has a network of its own; those of two share the machine's.
OWN, MACHINE = 1, 2
CLIENTS = (
    *("cloud_logging", "cloud_monitoring", "credentials", "fsspec_urls", "pandas_frames"),
    *("storage_client", "tf_gfile"),
)
#: Of what these do, ``tf_gfile`` has tried the most; they run by the longer way alone.
TRAININGS = ("keras_training", "tf_checkpoints", "tf_records")
#: They write files where they stand, and an image's own are closed.
WRITING = ("gcsfs_files", "sklearn_joblib")
AS_THEIR_IMAGES_SAY = """\
[fleet]
container_user = "image"

[isolation]
mode = "container"
container_read_only = false
"""


@pytest.fixture(scope="module")
def docker():
    """The environment of the clients of a daemon that has the image."""
    flags = ("--bip", "172.30.0.1/24")  # with no routes around it finds no network by itself
    with own_network(), docker_daemon.docker_with_image(flags) as environ:
        image.make(environ)
        yield environ


@pytest.fixture(scope="module")
def docked(docker, tmp_path_factory):
    """A server of the mode that is the default."""
    with served(docker, tmp_path_factory.mktemp("docked")) as docked:
        yield docked


@contextlib.contextmanager
def served(docker, folder, config=""):
    """A server in the network of this thread: one that is forked would have another."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in docker.items():
            patch.setenv(name, value)
        with prepared(folder, config=config, program=(sys.executable, TRAINSHED)) as server:
            yield server


def contained(name, run):
    words = ["-m", f"trainers.{name}", *flags(name, run)]
    return {"containerSpec": {"imageUri": image.IMAGE, "command": ["python"], "args": words}}


def packaged(name, run):
    program = {
        "executorImageUri": image.IMAGE, "packageUris": [f"gs://{BUCKET}/packages/{image.WHEEL}"],
        "pythonModule": f"trainers.{name}", "args": flags(name, run),
    }  # fmt: skip
    return {"pythonPackageSpec": program}


def vertex(program, replicas):
    machine = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1}
    idle = {"containerSpec": {"imageUri": image.IMAGE, "command": ["python", "-c", "pass"]}}
    pools = [{**machine, **pool} for pool in (program, idle)]
    return {"displayName": "contained", "jobSpec": {"workerPoolSpecs": pools[:replicas]}}


def ml(name, run):
    words = ["-m", f"trainers.{name}", *flags(name, run)]
    master = {"imageUri": image.IMAGE, "containerCommand": ["python"], "containerArgs": words}
    training = {
        "region": "us-central1", "scaleTier": "CUSTOM", "masterType": "n1-standard-4",
        "masterConfig": master, "jobDir": f"gs://{BUCKET}/jobs/{name}",
    }  # fmt: skip
    return {"jobId": name, "trainingInput": training}


def bucket_of(server):
    return server.data_dir / "buckets" / BUCKET


@pytest.mark.parametrize(
    ("name", "replicas"),
    [
        *((name, replicas) for name in CLIENTS for replicas in (OWN, MACHINE)),
        *((name, OWN) for name in TRAININGS),
    ],
)
def test_a_trainer_runs_in_its_own_image(docked, name, replicas):
    run = f"image-{replicas}"
    ran(docked, vertex(contained(name, run), replicas))
    check(name, bucket_of(docked), run)


def test_a_trainer_of_ai_platform_runs_in_its_own_image(docked):
    ran(docked, ml("storage_client", "ml"))
    check("storage_client", bucket_of(docked), "ml")


@pytest.mark.parametrize(
    ("name", "replicas"), [(WRITING[0], OWN), (WRITING[0], MACHINE), (WRITING[1], OWN)]
)
def test_a_package_runs_in_an_image_and_writes_where_it_stands(docked, name, replicas):
    run = f"package-{replicas}"
    (bucket_of(docked) / "packages" / image.WHEEL).write_bytes(image.wheel())
    ran(docked, vertex(packaged(name, run), replicas))
    check(name, bucket_of(docked), run)


def test_a_trainer_writes_beside_itself_where_its_image_says_who_it_is(docker, tmp_path):
    with served(docker, tmp_path, AS_THEIR_IMAGES_SAY) as server:
        ran(server, vertex(contained(WRITING[0], "root"), OWN))
        check(WRITING[0], bucket_of(server), "root")


def test_a_trainer_runs_in_its_image_without_a_server(docker, tmp_path):
    bucket, config = tmp_path / "data/buckets" / BUCKET, tmp_path / "job.json"
    place(bucket)
    config.write_text(json.dumps(vertex(contained("storage_client", "local"), OWN)["jobSpec"]))
    words = ["ai", "custom-jobs", "local-run", "--config", config, "--container-runtime", "docker"]
    ran_here([*words, *here(tmp_path)], tmp_path, docker)
    check("storage_client", bucket, "local")
