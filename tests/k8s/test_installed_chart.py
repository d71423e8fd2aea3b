"""Helm installs the server on a cluster; it runs a job with the rights of its account, and goes."""

import base64
import stat

import pytest

from deploy.helm_chart import CHART, DATA_DIR, NAME, NAMESPACE, RELEASE, why_no_helm
from e2e.support import IMAGE as JOB_IMAGE
from k8s.installed_chart import (
    IMAGE,
    USER,
    ServerPod,
    helm,
    install,
    make_server_image,
    serving_with_tls,
)

pytestmark = [
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(why_no_helm()), reason=why_no_helm()),
]

VALUES = {
    "image": {"repository": IMAGE.partition(":")[0], "tag": IMAGE.partition(":")[2]},
    "engine": {"registry": False, "lost_after_s": 2},
    "config": {"image": [{"image": "registry.test/*", "environment": "container"}]},
    "resources": {"limits": {"memory": "4Gi"}},
}
TOKEN_SECRET = f"{NAME}-admin-token"
KEPT = [f"{NAME}-data", f"{NAME}-shared"]
PROJECT = ("--project", "demo", "--region", "us-central1")
PROBE = """
import ssl, sys, urllib.request
context = ssl._create_unverified_context()  # as a kubelet asks
url = "https://127.0.0.1:8080" + sys.argv[1]
print(urllib.request.urlopen(url, context=context, timeout=5).read().decode())
"""
MADE = ("Secret", "ConfigMap", "Service", "ServiceAccount", "StatefulSet", "Role", "RoleBinding")


@pytest.fixture(scope="module")
def installed(live_cluster, tmp_path_factory):
    """The cluster with the release and its running pod; (cluster, Helm, pod)."""
    folder = tmp_path_factory.mktemp("chart")
    live_cluster.api.create_namespace(NAMESPACE)
    live_cluster.images.add(IMAGE, make_server_image(folder / "image"))
    with (
        serving_with_tls(live_cluster, folder / "authority") as (ca, outside, inside),
        helm(folder, outside.url, ca) as config,
    ):
        install(config, VALUES)
        pod = ServerPod(live_cluster, inside, ca)
        pod.start()
        live_cluster.wait_for(lambda: is_ready(pod), "the server to be ready")
        yield live_cluster, config, pod, inside


def is_ready(pod):
    assert pod.phase() == "Running", pod.log()
    return pod.execute("python", "-c", PROBE, "/readyz").stdout == "ok\n"


def read_token(cluster):
    data = cluster.store.get("Secret", NAMESPACE, TOKEN_SECRET)["data"]["token"]
    return base64.b64decode(data).decode()


def names_of(cluster, kind, namespace=NAMESPACE):
    return [row["metadata"]["name"] for row in cluster.store.list(kind, namespace)[0]]


def test_the_server_runs_a_job_with_the_rights_of_its_account_alone(installed):
    _, _, pod, api = installed
    program = ("--command", "python3,-c", "--args", "print('trained on the cluster')")
    pool = f"machine-type=n1-standard-4,container-image-uri={JOB_IMAGE}"
    job = ("--display-name", "first", "--worker-pool-spec", pool, *PROJECT)
    done = pod.execute("trainshed", "ai", "custom-jobs", "create", *job, *program, "--stream-logs")
    assert "trained on the cluster" in done.stdout + done.stderr, (done, pod.log())
    listed = pod.execute("trainshed", "jobs", "list", "--project", "demo", "--format", "json")
    assert '"SUCCEEDED"' in listed.stdout, (listed, pod.log())
    own = [entry for entry in api.audit if entry.user == pod.user]
    assert {entry.verb for entry in own if entry.path.endswith("/jobsets")} >= {"create", "watch"}
    assert [entry for entry in own if entry.code in (401, 403)] == []
    assert {entry.user for entry in api.audit} == {pod.user}


def test_the_first_token_is_that_of_the_secret_and_opens_the_server(installed):
    cluster, _, pod, _ = installed
    file = pod.claim_folder(KEPT[0]) / "data" / "admin-token"
    assert file.read_text() == read_token(cluster)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    listed = pod.execute("trainshed", "tokens", "list", "--format", "json")
    assert "first-admin" in listed.stdout, listed


def test_kubelets_may_pass_the_folders_above_what_pods_mount(installed):
    _, _, pod, _ = installed
    (own,) = pod.claim_folder(KEPT[1]).iterdir()
    folders = [own, *(own / name for name in ("buckets", "jobs", "lib"))]
    assert {stat.S_IMODE(path.stat().st_mode) & 0o777 for path in folders} == {0o711}
    assert {path.stat().st_uid for path in folders} == {USER}


def test_the_servers_log_has_no_complaint_and_no_secret(installed):
    cluster, _, pod, _ = installed
    log = pod.log()
    assert f"data            {DATA_DIR}" in log
    assert "Traceback" not in log
    assert "cannot" not in log, log
    assert read_token(cluster) not in log


def test_the_command_of_the_notes_runs_pods_and_misses_nothing(installed):
    cluster, _, pod, _ = installed

    examined = []

    def finds_all_well():
        examined.append(pod.execute("trainshed", "doctor", "--engine", "cluster"))
        return examined[-1].returncode == 0 and "first line: " in examined[-1].stdout

    try:  # a request has 5 s for its connection, which a busy machine may exceed
        cluster.wait_for(finds_all_well, "a cluster without findings")
    except AssertionError as error:
        error.add_note(f"{examined[-1].stdout}\n{examined[-1].stderr}")
        raise
    assert pod.execute("trainshed", "doctor").returncode == 0


def test_an_upgrade_keeps_the_token_and_an_uninstall_hangs_on_nothing(installed):
    cluster, config, pod, _ = installed
    token = read_token(cluster)
    upgraded = config.upgrade(str(CHART), RELEASE, {**VALUES, "service": {"port": 9000}})
    assert upgraded["revision"] == 2
    assert read_token(cluster) == token
    ports = cluster.store.get("Service", NAMESPACE, NAME)["spec"]["ports"]
    assert [row["port"] for row in ports] == [9000, 8081]

    config.uninstall(RELEASE)
    left = {kind: set(names_of(cluster, kind)) - {pod.account} for kind in MADE}
    left["Secret"] -= {pod.account}  # its token is not of the chart
    assert left == {kind: set() for kind in MADE}
    assert names_of(cluster, "ClusterRole", None) == []
    assert names_of(cluster, "PersistentVolumeClaim") == KEPT
    pod.stop()
    assert (pod.claim_folder(KEPT[0]) / "data" / "trainshed.db").exists()

    install(config, VALUES)  # takes the claims with their data
    assert names_of(cluster, "PersistentVolumeClaim") == KEPT
    assert read_token(cluster) != token
    config.uninstall(RELEASE)
    assert names_of(cluster, "StatefulSet") == []
