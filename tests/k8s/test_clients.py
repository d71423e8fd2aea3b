"""Unmodified clients run jobs on a cluster of pods, and ``kubectl`` shows the same jobs there."""

import subprocess
from base64 import b64decode
from functools import partial

import pytest

from conformance.client_scripts import SDKS, bucket_variables, python_of
from conformance.gcloud import needs_gcloud
from e2e import fleet
from e2e.support import FINAL, PROJECT, native, submit
from k8s.emulator.api import make_tls
from k8s.emulator.pods.logs import PodLogs
from k8s.emulator.server import ApiServer
from k8s.job_programs import list_pods, put_object, waits_for
from k8s.kubectl import Kubectl, needs_kubectl
from k8s.serving import serving_cluster, small_job
from slurm.test_service import VERTEX_RUN, create
from trainshed.engines.kubernetes import names
from trainshed.service.auth.certificates import ensure_tls

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]

#: Writes an object, reads what the job has written, and prints it.
STORAGE = """\
import sys
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
bucket = storage.Client("demo-proj", credentials=AnonymousCredentials()).bucket("results")
if sys.argv[1] == "write":
    bucket.blob("input/data.txt").upload_from_string("by the client")
else:
    print(bucket.blob("output/data.txt").download_as_text())
"""


@pytest.fixture(scope="module")
def server(live_cluster, tmp_path_factory):
    with serving_cluster(live_cluster, tmp_path_factory.mktemp("served") / "data") as server:
        fleet.make_bucket(server)
        yield server


@pytest.fixture(scope="module")
def kubectl(live_cluster, tmp_path_factory):
    """On the same objects over TLS: ``kubectl`` sends no token without."""
    folder = tmp_path_factory.mktemp("kubectl")
    tls = ensure_tls(folder, ["127.0.0.1"])
    api = live_cluster.api
    secured = ApiServer(api.store, api.access, tls=make_tls(tls.certificate, tls.key))
    plane = live_cluster.plane
    secured.handlers.logs = PodLogs(plane.parts.cache, plane.find_log)
    secured.start()
    yield Kubectl(folder, secured, tls.ca)
    secured.stop()


@needs_gcloud
def test_gcloud_creates_describes_streams_and_cancels(server, real_gcloud):
    jobs = partial(real_gcloud, "ai", "custom-jobs")
    done = create(real_gcloud, "by-gcloud", "print('hello from a pod')")
    assert server.wait_for(f"/v1/{done}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
    streamed = jobs("stream-logs", done, "--polling-interval=1").ok().stdout
    assert streamed.count("hello from a pod") == 1
    described = jobs("describe", done, "--format=value(state)").ok().stdout
    assert described.strip() == "JOB_STATE_SUCCEEDED"
    other = create(real_gcloud, "to-cancel", waits_for("never"))
    fleet.running(server, other)
    jobs("cancel", other).ok()
    assert server.wait_for(f"/v1/{other}", FINAL)["state"] == "JOB_STATE_CANCELLED"


@needs_gcloud
def test_gcloud_submits_a_package_of_ai_platform(server, real_gcloud, tmp_path):
    package = tmp_path / "trainer"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "task.py").write_text("import sys; print('packaged', sys.argv[1:])")
    jobs = partial(real_gcloud, "ai-platform", "jobs")
    jobs(
        *("submit", "training", "ml_packaged", "--region=us-central1"),
        *("--package-path", package, "--module-name=trainer.task", "--stream-logs"),
        *("--staging-bucket=gs://results", "--job-dir=gs://results/packaged"),
        *("--runtime-version=2.11", "--python-version=3.7", "--scale-tier=custom"),
        *("--master-machine-type=n1-standard-4", "--", "--epochs=3"),
    ).ok()
    described = jobs("describe", "ml_packaged", "--format=value(state)").ok().stdout
    assert described.strip() == "SUCCEEDED"
    lines = fleet.output_lines(server, f"projects/{PROJECT}/jobs/ml_packaged", "master-replica-0")
    assert lines[-1] == "packaged ['--epochs=3', '--job-dir', '/gcs/results/packaged']"


def test_the_vertex_sdk_runs_a_job(server):
    printed = run_python(server, VERTEX_RUN, server.url, server.token, "print('hello')")
    assert "RETURNED JOB_STATE_SUCCEEDED" in printed


def test_a_storage_client_and_a_pod_exchange_objects(server, tmp_path):
    script = tmp_path / "storage.py"
    script.write_text(STORAGE)
    variables = bucket_variables(server, PROJECT, fleet.BUCKET)
    run_python(server, script, "write", **variables)
    code = """\
import pathlib
target = pathlib.Path("/gcs/results/output/data.txt")
target.parent.mkdir()
target.write_text(pathlib.Path("/gcs/results/input/data.txt").read_text() + ", by the pod")
"""
    name = submit(server, small_job("exchange", code))
    assert fleet.ended(server, name)["state"] == "SUCCEEDED", fleet.story_text(server, name)
    assert run_python(server, script, "read", **variables) == "by the client, by the pod\n"


def test_commands_of_trainshed_show_a_job(server):
    name = fleet.begun(server, small_job("shown", waits_for("go-shown"), workers=1))
    uid = native(server, name)["uid"]
    listed = fleet.trainshed(server, "jobs", "list")
    assert listed.splitlines()[2].split()[:3] == ["shown", "custom", "RUNNING"]
    assert "node-1" in fleet.trainshed(server, "nodes", "list")
    assert "began" in fleet.trainshed(server, "jobs", "logs", name)
    manifest = fleet.trainshed(server, "jobs", "manifest", name)
    assert '"kind": "JobSet"' in manifest
    for words in (("describe",), ("explain",)):
        assert "RUNNING" in fleet.trainshed(server, "jobs", *words, name)
    put_object(server, "go-shown")
    fleet.ended(server, name)
    assert uid in fleet.trainshed(server, "jobs", "describe", name)


@needs_kubectl
def test_kubectl_shows_a_job_by_its_labels(server, live_cluster, kubectl):
    name = fleet.begun(server, small_job("labelled", waits_for("go-labelled"), workers=1))
    uid = native(server, name)["uid"]
    columns = ("-L", names.JOB, "-L", names.ATTEMPT, "-L", names.ROLE)
    shown = kubectl.run("get", "jobset,pods", "-l", f"{names.JOB}={uid}", *columns)
    rows = [line.split() for line in shown.splitlines() if uid in line.split()]
    assert [row[-1] for row in rows] == ["1", "primary", "worker"]
    pods = {pod["metadata"]["labels"][names.ROLE]: pod for pod in list_pods(live_cluster, uid)}
    primary = pods["primary"]["metadata"]["name"]
    assert kubectl.run("logs", primary, "--container=main").splitlines()[-1] == "began"
    jobset = primary.partition("-primary-")[0]
    secret = live_cluster.store.get("Secret", "default", jobset)["data"]["secret"]
    for kind, subject in (("pod", primary), ("jobset", jobset)):
        described = kubectl.run("describe", kind, subject)
        assert f"trainshed.dev/project: {PROJECT}" in " ".join(described.split())
        assert f"trainshed.dev/job={uid}" in described.replace(":  ", "=")
        assert b64decode(secret).decode() not in described
    put_object(server, "go-labelled")
    assert fleet.ended(server, name)["state"] == "SUCCEEDED"


def run_python(server, *words, **variables):
    """Run a script in the environment of the newest SDK; what it printed."""
    done = subprocess.run(
        [python_of(SDKS["newest"]), "-W", "ignore", *words],
        env={**server.certificates, **variables},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
