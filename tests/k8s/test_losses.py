"""What others do to running jobs: what is said of it, which budget pays, and what starts again."""

import json

import pytest

from e2e import fleet
from e2e.support import native, wait_until
from k8s.kubectl import needs_kubectl
from k8s.kueue_objects import create_kueue
from k8s.secured_api import kubectl_for
from k8s.serving import serving_cluster, small_job
from k8s.started_programs import bucket_of, ran_beside, read_starts, waits_for

pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(300), needs_kubectl]

WISH = "trainshed-kubernetes-workload-priority-class"
DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")


@pytest.fixture(scope="module")
def server(live_cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("losses") / "data"
    with serving_cluster(live_cluster, folder, policy="best-effort") as server:
        fleet.make_bucket(server)
        yield server
        check_starts(server)


def check_starts(server):
    """No program was started twice in an attempt, or beside that of another attempt."""
    starts = read_starts(bucket_of(server))
    assert set(starts.values()) == {1}, starts
    assert not ran_beside(bucket_of(server))


@pytest.fixture(scope="module")
def kubectl(live_cluster, tmp_path_factory):
    with kubectl_for(live_cluster, tmp_path_factory.mktemp("kubectl")) as kubectl:
        yield kubectl


def begun(server, name, *, workers=0):
    return fleet.begun(server, small_job(name, waits_for(f"go-{name}"), workers=workers))


def started_again(server, name, *, words, **restarts):
    """Wait for the second attempt, whose cause has these words; then let the job end."""
    fleet.running(server, name, 2)
    job = native(server, name)
    paid = {"infra": 0, "maintenance": 0, "user": 0, **restarts}
    assert job["restarts"] == paid, fleet.story_text(server, name)
    texts = [event["message"] for event in fleet.story(server, name)]
    assert any(words in text for text in texts), texts
    (bucket_of(server) / f"go-{job['displayName']}").touch()
    job = fleet.ended(server, name)
    assert (job["state"], job["attempt"]) == ("SUCCEEDED", 2), fleet.story_text(server, name)
    return job


def node_of(server, name):
    return native(server, name)["replicas"][0]["node"]


def jobset_of(cluster, server, name):
    """The JobSet of a job's newest attempt."""
    job = native(server, name)
    label = {"trainshed.dev/job": job["uid"], "trainshed.dev/attempt": str(job["attempt"])}
    rows, _ = cluster.store.list("JobSet", "default")
    (jobset,) = [row for row in rows if label.items() <= row["metadata"]["labels"].items()]
    return jobset


def pods_of(cluster, jobset):
    label = ("jobset.sigs.k8s.io/jobset-name", jobset["metadata"]["name"])
    rows, _ = cluster.store.list("Pod", "default")
    return [row for row in rows if label in row["metadata"]["labels"].items()]


def test_a_node_that_kubectl_drains_costs_the_budget_of_maintenance(server, kubectl):
    name = begun(server, "drained", workers=1)
    node = node_of(server, name)
    kubectl.run("drain", node, *DRAIN)
    try:
        job = started_again(server, name, words="EvictionByEvictionAPI", maintenance=1)
        assert node not in {row["node"] for row in job["replicas"]}
    finally:
        kubectl.run("uncordon", node)


def test_a_pod_that_others_delete_costs_the_budget_of_machines(server, live_cluster, kubectl):
    name = begun(server, "pod-deleted", workers=1)
    worker = next(
        row["metadata"]["name"]
        for row in pods_of(live_cluster, jobset_of(live_cluster, server, name))
        if "worker" in row["metadata"]["name"]
    )
    kubectl.run("delete", "pod", worker)
    started_again(server, name, words=f"has deleted the pod {worker}", infra=1)


def test_a_jobset_that_others_delete_and_make_again_starts_nothing(server, live_cluster, kubectl):
    name = begun(server, "made-again")
    jobset = jobset_of(live_cluster, server, name)
    own = jobset["metadata"]["name"]
    copy = {**jobset, "metadata": {k: jobset["metadata"][k] for k in ("name", "labels")}}
    copy.pop("status", None)
    kubectl.run("delete", "jobset", own, "--cascade=foreground")
    kubectl.run("create", "--filename", "-", text=json.dumps(copy))
    started_again(server, name, words=f"has deleted the JobSet {own}", infra=1)
    wait_until(lambda: not live_cluster.is_there("JobSet", own))


def test_a_jobset_that_others_suspend_and_resume_starts_once(server, live_cluster, kubectl):
    name = begun(server, "suspended")
    own = jobset_of(live_cluster, server, name)["metadata"]["name"]
    for value in (True, False):
        patch = json.dumps({"spec": {"suspend": value}})
        kubectl.run("patch", "jobset", own, "--type=merge", f"--patch={patch}")
        if value:
            live_cluster.wait_for(
                lambda: not pods_of(live_cluster, {"metadata": {"name": own}}), "the pods to go"
            )
    started_again(server, name, words="suspended after the attempt had begun", infra=1)


def test_a_node_that_is_removed_costs_the_budget_of_machines(server, live_cluster, kubectl):
    name = begun(server, "removed")
    node = node_of(server, name)
    live_cluster.plane.kill_node(node)
    try:
        kubectl.run("delete", "node", node)
        job = started_again(server, name, words=f"the node {node}", infra=1)
        assert node not in {row["node"] for row in job["replicas"]}
    finally:
        live_cluster.add_node(node)


def test_a_silent_node_is_unknown_until_its_attempt_is_fenced(server, live_cluster):
    name = begun(server, "silent")
    node = node_of(server, name)
    live_cluster.plane.kill_node(node)
    try:
        why = wait_until(lambda: fleet.reason(native(server, name)))
        assert node in why["message"], why
        assert (native(server, name)["state"], native(server, name)["attempt"]) == ("RUNNING", 1)
        uid = native(server, name)["uid"]
        fleet.trainshed(server, "attempts", "fence", f"{uid}/1")
        job = started_again(server, name, words="an administrator confirmed", infra=1)
        assert node not in {row["node"] for row in job["replicas"]}
    finally:
        live_cluster.store.delete("Node", None, node)
        live_cluster.add_node(node)


def test_a_job_that_kueue_preempts_costs_the_budget_of_maintenance(live_cluster, tmp_path):
    make_queue(live_cluster)
    settings = {"queue": "train", "wishes": ["workload-priority-class"]}
    with serving_cluster(live_cluster, tmp_path / "data", **settings) as server:
        fleet.make_bucket(server)
        low = fleet.begun(server, with_class("low"))
        high = fleet.begun(server, with_class("high"))
        wait_until(lambda: native(server, low)["attempt"] == 2)
        texts = [event["message"] for event in fleet.story(server, low)]
        assert any("Kueue has evicted the JobSet" in text for text in texts), texts
        why = wait_until(lambda: fleet.reason(native(server, low)))
        assert why["reason"] in {"CAPACITY", "QUOTA", "ENGINE_QUEUE"}, why
        (bucket_of(server) / "go-high").touch()
        assert fleet.ended(server, high)["state"] == "SUCCEEDED"
        started_again(server, low, words="Preempted", maintenance=1)
        check_starts(server)


def with_class(name):
    document = small_job(name, waits_for(f"go-{name}"))
    return {**document, "labels": {WISH: name}}


def make_queue(cluster):
    """A queue of six CPUs that preempts low priorities for high ones."""
    flavor = {"metadata": {"name": "all"}, "spec": {}}
    create_kueue(cluster, "ResourceFlavor", flavor)
    quotas = [
        {"name": "cpu", "nominalQuota": "6"},
        {"name": "memory", "nominalQuota": "512Gi"},
    ]
    group = {
        "coveredResources": ["cpu", "memory"],
        "flavors": [{"name": "all", "resources": quotas}],
    }
    spec = {
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [group],
    }
    create_kueue(cluster, "ClusterQueue", {"metadata": {"name": "train"}, "spec": spec})
    meta = {"name": "train", "namespace": "default"}
    create_kueue(cluster, "LocalQueue", {"metadata": meta, "spec": {"clusterQueue": "train"}})
    for name, value in (("low", 10), ("high", 1000)):
        create_kueue(cluster, "WorkloadPriorityClass", {"metadata": {"name": name}, "value": value})
