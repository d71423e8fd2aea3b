"""Which image a job's pods run, and the program that it starts with."""

import pytest

from e2e import fleet
from e2e.support import IMAGE, ml_job, submit
from engines.registry_server import Pusher, running_registry
from k8s.serving import IMAGES, PYTHON_IMAGE, serving_cluster, small_job
from k8s.static_image import make_static_image
from trainshed.engines.kubernetes.runtime import architecture
from trainshed.service.auth.certificates import ensure_tls

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]

STATIC, WITH_ROW = "static.test/program:1", "registry.test/p/with-row:1"
WORDS = ("python", "-c", "import sys; print('started with', sys.argv[1:])")
ROWS = f"""\
[[image]]
image = "{STATIC}"
environment = "container"
entrypoint = ["/program"]

[[image]]
image = "{WITH_ROW}"
environment = "container"
entrypoint = ["python", "-c", "{WORDS[-1]}"]

"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """A registry with TLS; where images are pushed to, and its certificate authority."""
    folder = tmp_path_factory.mktemp("registry")
    tls = ensure_tls(folder, ["127.0.0.1"])
    http = {"tls": {"certificate": str(tls.certificate), "key": str(tls.key)}}
    with running_registry(folder / "served", http=http) as host:
        yield Pusher(host, ca=tls.ca), tls.ca


@pytest.fixture(scope="module")
def server(live_cluster, registry, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    live_cluster.images.add(STATIC, make_static_image(folder, "no library here"))
    live_cluster.images.add(WITH_ROW, PYTHON_IMAGE)
    settings = {"registry": True, "ca_file": str(registry[1])}
    with serving_cluster(live_cluster, folder / "data", images=ROWS + IMAGES, **settings) as server:
        fleet.make_bucket(server)
        yield server


def in_image(image, *args):
    """A job that names an image and no command."""
    document = small_job("in-image")
    container = {"imageUri": image, "args": list(args)}
    document["jobSpec"]["workerPoolSpecs"][0]["containerSpec"] = container
    return document


def succeed(server, document):
    """Run a job to its good end; what it printed."""
    name = submit(server, document)
    assert fleet.ended(server, name)["state"] == "SUCCEEDED", fleet.story_text(server, name)
    return fleet.output_lines(server, name)


def test_an_image_of_one_static_program_runs(server):
    assert succeed(server, in_image(STATIC)) == ["no library here"]


def test_a_row_gives_the_entry_point_of_an_image(server):
    assert succeed(server, in_image(WITH_ROW, "a  b", "$c")) == ["started with ['a  b', '$c']"]


def test_a_row_gives_the_image_of_a_runtime_version(server):
    training = {"masterType": "n1-standard-4", "runtimeVersion": "2.11", "pythonVersion": "3.7"}
    document = ml_job("by_version", **training)
    del document["trainingInput"]["masterConfig"]
    document["trainingInput"] |= {"pythonModule": "this", "packageUris": []}
    name = submit(server, document)
    assert fleet.ended(server, name)["state"] == "SUCCEEDED", fleet.story_text(server, name)
    note = f"Asked for runtime version 2.11; the configuration maps it to the image {IMAGE}."
    assert note in fleet.story_text(server, name)
    assert "Beautiful is better than ugly." in fleet.output_lines(server, name, "master-replica-0")


def test_a_registry_gives_the_entry_point_and_pods_run_that_digest(server, live_cluster, registry):
    pusher = registry[0]
    config = {"Entrypoint": list(WORDS), "Cmd": ["of the image"]}
    digest = pusher.image("p/img", "1", architecture=architecture(), **config)
    pinned = f"{pusher.host}/p/img@{digest}"
    live_cluster.images.add(pinned, PYTHON_IMAGE)
    name = submit(server, in_image(f"{pusher.host}/p/img:1"))
    job = fleet.ended(server, name)
    assert job["state"] == "SUCCEEDED", fleet.story_text(server, name)
    assert fleet.output_lines(server, name) == ["started with ['of the image']"]
    manifest = fleet.trainshed(server, "jobs", "manifest", name)
    assert f'"image": "{pinned}"' in manifest


def test_an_image_that_its_registry_does_not_have_fails_with_the_ways(server, registry):
    host = registry[0].host
    name = submit(server, in_image(f"{host}/p/absent:1"))
    job = fleet.ended(server, name)
    assert job["state"] == "FAILED"
    assert f"the registry {host} has no image {host}/p/absent:1; give the command" in job["error"]


def test_without_a_registry_a_job_without_a_command_is_refused(live_cluster, tmp_path):
    with serving_cluster(live_cluster, tmp_path / "data") as server:
        path = "/v1/projects/demo-proj/locations/us-central1/customJobs"
        status, refusal = server.call("POST", path, in_image(IMAGE))
    assert status == 400
    message = refusal["error"]["message"]
    for way in ("containerSpec.command", "[[image]]", "registry = true"):
        assert way in message
