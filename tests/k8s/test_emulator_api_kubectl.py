"""A real ``kubectl`` gets, describes, labels, deletes, cordons and drains in the emulator."""

import json

import pytest

from k8s.emulator.api import make_tls, start_api
from k8s.http_calls import make_job, make_jobset, make_pod, own
from k8s.kubectl import Kubectl, needs_kubectl
from trainshed.service.auth.certificates import ensure_tls

pytestmark = [pytest.mark.slow, needs_kubectl]


@pytest.fixture
def tls_files(tmp_path):
    return ensure_tls(tmp_path, ["127.0.0.1"])


@pytest.fixture
def api(tls_files):
    """With TLS: ``kubectl`` sends no tokens without."""
    with start_api(tls=make_tls(tls_files.certificate, tls_files.key)) as running:
        yield running


@pytest.fixture
def kubectl(tmp_path, api, tls_files):
    return Kubectl(tmp_path, api, tls_files.ca)


def make_node(name):
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"conditions": conditions, "nodeInfo": {"kubeletVersion": "v1.36.2"}},
    }


def run_pod(store, name="p", node="n1"):
    """A pod of a Job on a node; deleting it ends it at once, as an obedient kubelet does."""
    job = store.create(make_job(f"{name}-job"))
    pod = store.create(own(make_pod(name), job))
    pod["spec"]["nodeName"] = node
    pod = store.update(pod, subresource="binding")
    state = {"running": {"startedAt": store.read_time()}}
    row = {"name": "main", "ready": True, "restartCount": 0, "image": "trainer:1", "state": state}
    pod["status"].update({"phase": "Running", "containerStatuses": [row]})
    store.update(pod, subresource="status")

    def end(happened, obj):
        if (
            happened == "MODIFIED"
            and obj["kind"] == "Pod"
            and obj["metadata"].get("deletionTimestamp")
        ):
            store.delete("Pod", "default", obj["metadata"]["name"], grace_s=0)

    store.subscribe(end)


def test_it_lists_and_describes_pods_with_their_events(api, kubectl):
    run_pod(api.store)
    uid = api.store.get("Pod", "default", "p")["metadata"]["uid"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "p.1", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default", "uid": uid},
        "reason": "FailedScheduling",
        "message": "0/1 nodes are available",
        "type": "Warning",
    }
    api.store.create(event)
    assert kubectl.run("get", "pods").split()[:7] == [
        *("NAME", "READY", "STATUS", "RESTARTS", "AGE"),
        *("p", "1/1"),
    ]
    assert "n1" in kubectl.run("get", "pods", "--output", "wide")
    described = kubectl.run("describe", "pod", "p")
    assert "Job/p-job" in described
    assert "0/1 nodes are available" in described
    assert "FailedScheduling" in kubectl.run("get", "events")


def test_it_creates_labels_and_deletes_a_jobset(api, kubectl):
    created = kubectl.run("create", "--filename", "-", text=json.dumps(make_jobset(suspend=True)))
    assert created == "jobset.jobset.x-k8s.io/js created\n"
    refused = kubectl.run(
        "create", "--filename", "-", text=json.dumps(make_jobset("other", bogus=1)), code=1
    )
    assert 'strict decoding error: unknown field "spec.bogus"' in refused
    assert "SUSPENDED" in kubectl.run("get", "jobsets")
    kubectl.run("label", "jobset", "js", "team=a")
    assert api.store.get("JobSet", "default", "js")["metadata"]["labels"] == {"team": "a"}
    assert "Name:         js" in kubectl.run("describe", "jobset", "js")
    assert "deleted" in kubectl.run("delete", "jobset", "js", "--cascade=foreground")
    assert "NotFound" in kubectl.run("get", "jobset", "js", code=1)


def test_it_cordons_and_drains_a_node(api, kubectl):
    api.store.create(make_node("n1"))
    run_pod(api.store)
    assert kubectl.run("cordon", "n1") == "node/n1 cordoned\n"
    assert "Ready,SchedulingDisabled" in kubectl.run("get", "nodes")
    drained = kubectl.run("drain", "n1")
    assert "pod/p evicted" in drained
    assert "node/n1 drained" in drained
    kubectl.run("uncordon", "n1")
    assert "unschedulable" not in api.store.get("Node", None, "n1")["spec"]
    assert "No resources found" in kubectl.run("get", "pods")


def write_log(pod, container, _):
    yield f"{container} of {pod['metadata']['name']}\n".encode()


def test_it_reads_logs(api, kubectl):
    run_pod(api.store)
    api.server.handlers.logs = write_log
    assert kubectl.run("logs", "p") == "main of p\n"
