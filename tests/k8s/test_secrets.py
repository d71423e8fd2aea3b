"""The secret of an attempt is in its Secret and in the two containers that use it, nowhere else."""

import base64
import json
from stat import S_IRWXG, S_IRWXO

import pytest

from e2e import fleet
from e2e.support import native
from k8s.kubectl import needs_kubectl
from k8s.secured_api import kubectl_for
from k8s.serving import SERVER_CLAIM, serving_cluster, small_job
from k8s.started_programs import bucket_of, waits_for

pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(300), needs_kubectl]

#: Prints what a program can read of its own pod, and of the processes beside it.
LOOKS = """\
import glob
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        print(open(path, "rb").read().hex(), flush=True)
    except OSError:
        pass
"""


VALUE = "wandb-71c1f0e6b2"
ENCODED = base64.b64encode(VALUE.encode()).decode()


@pytest.fixture
def server(live_cluster, tmp_path):
    with serving_cluster(live_cluster, tmp_path / "data", policy="best-effort") as server:
        fleet.make_bucket(server)
        yield server


def read_secret(cluster):
    """The only Secret, and every form in which its value could be written."""
    (secret,) = cluster.store.list("Secret", "default")[0]
    encoded = secret["data"]["secret"]
    return secret, {encoded, base64.b64decode(encoded).decode()}


def check_absent(values, text, where):
    assert not [value for value in values if value in text], where


def list_files(*folders):
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


def test_the_secret_of_an_attempt_is_shown_nowhere(server, live_cluster, tmp_path_factory):
    code = waits_for("go") + LOOKS
    name = fleet.begun(server, small_job("hush", code, workers=1))
    secret, values = read_secret(live_cluster)
    folder = tmp_path_factory.mktemp("kubectl")
    with kubectl_for(live_cluster, folder) as kubectl:
        for kind in ("jobsets", "jobs", "pods", "events"):
            check_absent(values, kubectl.run("describe", kind), f"describe {kind}")
            check_absent(values, kubectl.run("get", kind, "--output", "json"), f"get {kind}")
        described = kubectl.run("describe", "secret", secret["metadata"]["name"])
        check_absent(values, described, "describe secret")
        check_absent(values, json.dumps(secret["metadata"]), "the metadata of the Secret")
        pods = json.loads(kubectl.run("get", "pods", "--output", "json"))["items"]
        assert len(pods) == 2
        for pod in pods:
            for container in pod["spec"]["containers"]:
                words = ("logs", pod["metadata"]["name"], "--container", container["name"])
                check_absent(values, kubectl.run(*words), words)
    (bucket_of(server) / "go").touch()
    assert fleet.ended(server, name)["state"] == "SUCCEEDED", fleet.story_text(server, name)
    for number in range(2):
        lines = fleet.output_lines(server, name, f"workerpool{number}-0")
        assert len(lines) > 1
        readable = "".join(bytes.fromhex(line).decode(errors="replace") for line in lines[1:])
        check_absent(values, readable, "what a program of the job can read of processes")
    uid = native(server, name)["uid"]
    for answer in (
        fleet.trainshed(server, "jobs", "manifest", uid),
        fleet.story_text(server, name),
        json.dumps(fleet.story(server, name)),
        server.output(),
    ):
        check_absent(values, answer, answer[:80])
    claim = live_cluster.folder / "claims" / "default" / SERVER_CLAIM
    paths = list_files(server.data_dir, claim)
    assert {"plan.json", "trainshed.db", "kubernetes.json"} <= {path.name for path in paths}
    for path in paths:
        data = path.read_bytes()
        assert not [value for value in values if value.encode() in data], path


def test_the_secret_is_another_one_for_each_attempt(server, live_cluster):
    earlier_values = set()
    for number in range(2):
        name = fleet.begun(server, small_job(f"hush-{number}", waits_for("never")))
        _, values = read_secret(live_cluster)
        assert not values & earlier_values
        earlier_values |= values
        fleet.cancel(server, name)
        fleet.wait_until(lambda: not live_cluster.store.list("Secret", "default")[0])


def test_a_secret_variable_of_a_job_is_in_no_object_and_masked_in_its_manifest(
    server, live_cluster, tmp_path_factory
):
    document = small_job("hush-variable", waits_for("never"))
    container = document["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    container["env"] = [{"name": "WANDB_API_KEY", "value": VALUE}]
    name = fleet.begun(server, document)
    with kubectl_for(live_cluster, tmp_path_factory.mktemp("kubectl")) as kubectl:
        for kind in ("jobsets", "jobs", "pods", "events", "secrets"):
            check_absent({VALUE, ENCODED}, kubectl.run("get", kind, "--output", "json"), kind)
    manifest = fleet.trainshed(server, "jobs", "manifest", native(server, name)["uid"])
    assert "WANDB_API_KEY" in manifest
    check_absent({VALUE, ENCODED}, manifest, "jobs manifest")
    check_absent({VALUE}, server.output(), "the server's log")
    claim = live_cluster.folder / "claims" / "default" / SERVER_CLAIM
    holders = [path for path in list_files(claim) if VALUE.encode() in path.read_bytes()]
    assert holders, "the launcher reads the variable from the plan"
    for path in holders:
        folders = [folder for folder in path.parents if folder.is_relative_to(claim)]
        modes = [row.stat().st_mode for row in (path, *folders)]
        assert any(not mode & (S_IRWXG | S_IRWXO) for mode in modes), path
