"""Servers whose only engine is the emulated cluster, and jobs for it."""

import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from e2e.support import IMAGE, custom_job, prepared, serving
from engine_tables import compose_engine_table
from k8s.emulator.api import ADMIN_TOKEN
from k8s.emulator.pods.images import DEFAULT_PATH, ContainerImage
from k8s.live_cluster import MACHINE

SMALL, WHOLE_NODE = "n1-standard-4", "n1-standard-64"
SERVER_CLAIM = "trainshed"
#: An image runs as itself; one image is in the place of Google's.  The registry is not asked.
IMAGES = f"""\
[[image]]
image = "registry.test/*"
environment = "container"

[[image]]
image = "us-docker.pkg.dev/vertex-ai/*"
environment = "container"
run = "{IMAGE}"

[[image]]
runtime_version = "*"
environment = "container"
run = "{IMAGE}"
"""
#: A cluster that is not the tests' own has no image of theirs.
STAND_IN = """\
[[image]]
image = "{image}"
environment = "container"
run = "{run}"

"""
#: Pods have no network but that of the cluster, so pip builds packages with the image's setuptools.
PYTHON_IMAGE = ContainerImage(
    Path("/"),
    env={
        "PATH": f"{Path(sys.executable).parent}:{DEFAULT_PATH}",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_NO_INDEX": "1",
    },
)
USER, USER_IMAGE = 12345, "registry.test/p/img-of-a-user:1"


def compose_image_tables(cluster, images=IMAGES):
    """The tables of images of a server."""
    row = STAND_IN.format(image=IMAGE, run=cluster.stand_in) if cluster.stand_in else ""
    return row + images


def compose_table(cluster, folder, *, token=ADMIN_TOKEN, claim=SERVER_CLAIM, **more):
    """The engine's table; the kubeconfig in ``folder`` names one user of the cluster."""
    settings = {
        "name": "cluster",
        "kind": "kubernetes",
        **cluster.make_settings(folder, claim, token),
        "registry": False,
        "lost_after_s": 2.0,
        **more,
    }
    return compose_engine_table(settings)


@contextmanager
def serving_cluster(cluster, folder, *flags, config="", images=IMAGES, **more):
    """A started server whose jobs all go to the cluster; ``more`` are settings of the engine."""
    table = compose_table(cluster, folder, **more)
    images = compose_image_tables(cluster, images)
    with serving(folder, *flags, config=f"{table}\n{config}", images=images) as server:
        yield server
        assert "urllib3" not in server.output(), "its pool of connections is too small"


def prepare_server(cluster, folder, *flags, **more):
    """A server like that of ``serving_cluster``, not started."""
    table = compose_table(cluster, folder, **more)
    return prepared(folder, *flags, config=table, images=compose_image_tables(cluster))


def add_test_images(cluster, *more):
    """Add the images of the tests' jobs: this machine with the Python of the tests."""
    for name in (IMAGE, MACHINE, *more):
        cluster.images.add(name, PYTHON_IMAGE)
    cluster.images.add(USER_IMAGE, replace(PYTHON_IMAGE, user=f"{USER}:{USER}"))


def small_job(name, code="print('trained')", *, machine=SMALL, gpus=0, workers=0, **scheduling):
    """A job of Vertex on small machines, so that several fit a node."""
    document = custom_job(name, code, gpus=gpus, workers=workers)
    for pool in document["jobSpec"]["workerPoolSpecs"]:
        pool["machineSpec"]["machineType"] = machine
    if scheduling:
        document["jobSpec"]["scheduling"] = scheduling
    return document
