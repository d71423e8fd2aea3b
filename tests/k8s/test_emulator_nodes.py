"""The scheduler and the nodes of the emulator: places, the sentence of refusals, and lost nodes."""

import pytest

from k8s.emulator.controllers.fitting import explain_refusals, judge_node
from k8s.emulator.controllers.nodes import UNREACHABLE
from k8s.manifests import GPU, OBEYS, job_role, jobset
from k8s.scripted_cluster import ScriptedCluster

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def a_node(*, cpu="4", gpus="0", labels=None, taints=(), is_cordoned=False):
    spec = {"taints": list(taints), "unschedulable": is_cordoned}
    allocatable = {"cpu": cpu, GPU: gpus, "pods": "110"}
    return {
        "metadata": {"labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def a_pod(*, cpu="1", gpus="0", **spec):
    limits = {"cpu": cpu, GPU: gpus}
    return {"spec": {"containers": [{"resources": {"limits": limits}}], **spec}}


@pytest.mark.parametrize(
    ("pod", "node", "reasons"),
    [
        (a_pod(), a_node(), ()),
        (a_pod(cpu="5"), a_node(), ("Insufficient cpu",)),
        (a_pod(gpus="1"), a_node(), (f"Insufficient {GPU}",)),
        (a_pod(), a_node(is_cordoned=True), ("node(s) were unschedulable",)),
        (a_pod(), a_node(taints=[TAINT]), ("node(s) had untolerated taint(s)",)),
        (a_pod(tolerations=[{"key": "gpu", "operator": "Exists"}]), a_node(taints=[TAINT]), ()),
        (a_pod(tolerations=[{"key": "gpu", "value": "yes"}]), a_node(taints=[TAINT]), ()),
        (a_pod(tolerations=[{"operator": "Exists"}]), a_node(taints=[TAINT]), ()),
        (
            a_pod(nodeSelector={"pool": "a"}),
            a_node(labels={"pool": "b"}),
            ("node(s) didn't match Pod's node affinity/selector",),
        ),
    ],
)
def test_the_first_filter_that_refuses_a_node_gives_the_reason(pod, node, reasons):
    assert judge_node(pod, node, []).reasons == reasons


def test_room_is_what_other_pods_leave():
    verdict = judge_node(a_pod(cpu="2"), a_node(), [a_pod(cpu="3")])
    assert (verdict.reasons, verdict.is_preemptible) == (("Insufficient cpu",), True)


def test_the_sentence_counts_nodes_by_reason():
    pod = a_pod(gpus="8", nodeSelector={"pool": "a"})
    nodes = [
        a_node(labels={"pool": "a"}, gpus="8"),
        a_node(labels={"pool": "a"}),
        a_node(),
        a_node(),
    ]
    verdicts = [judge_node(pod, node, [a_pod(gpus="1")]) for node in nodes]
    assert explain_refusals(verdicts) == (
        "0/4 nodes are available: 2 Insufficient nvidia.com/gpu, 2 node(s) didn't match Pod's node "
        "affinity/selector. no new claims to deallocate, preemption: 0/4 nodes are available: 1 No "
        "preemption victims found for incoming pod, 3 Preemption is not helpful for scheduling."
    )


@pytest.fixture
def cluster():
    scripted = ScriptedCluster()
    scripted.add_node()
    return scripted


def a_started_jobset(cluster):
    cluster.store.create(jobset("s", job_role("primary", OBEYS)))
    cluster.run(3.0)
    (pod,) = cluster.list("Pod")
    assert pod["status"]["phase"] == "Running"
    return pod["metadata"]["name"]


def node_of(cluster):
    node = cluster.store.get("Node", None, "gpu-node-a")
    ready = next(row["status"] for row in node["status"]["conditions"] if row["type"] == "Ready")
    return ready, {row["key"] for row in node["spec"].get("taints", ())}


def test_a_pod_whose_claim_is_not_there_is_not_placed(cluster):
    spec = {
        "containers": [{"name": "main", "image": "localhost/trainer:1"}],
        "volumes": [{"name": "spool", "persistentVolumeClaim": {"claimName": "absent"}}],
    }
    meta = {"name": "p", "namespace": "default"}
    cluster.store.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    cluster.run(1.0)
    (condition,) = cluster.get("Pod", "p")["status"]["conditions"]
    assert condition["reason"] == "Unschedulable"
    assert 'persistentvolumeclaim "absent" not found' in condition["message"]


def test_a_silent_node_comes_back_with_its_pods(cluster):
    name = a_started_jobset(cluster)
    cluster.plane.silence_node("gpu-node-a")
    cluster.run(60.0)
    assert node_of(cluster) == ("Unknown", {UNREACHABLE})
    assert is_ready(cluster, name) == "False"
    cluster.plane.revive_node("gpu-node-a")
    cluster.run(2.0)
    assert node_of(cluster) == ("True", set())
    assert is_ready(cluster, name) == "True"


def is_ready(cluster, name):
    rows = cluster.get("Pod", name)["status"]["conditions"]
    return next(row["status"] for row in rows if row["type"] == "Ready")


def test_a_node_that_lost_its_pods_says_so_when_it_is_back(cluster):
    name = a_started_jobset(cluster)
    cluster.plane.kill_node("gpu-node-a")
    cluster.run(10.0)
    assert cluster.get("Pod", name)["status"]["phase"] == "Running"
    cluster.plane.revive_node("gpu-node-a")
    cluster.run(5.0)
    status = cluster.get("Pod", name)["status"]
    end = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["phase"], end["exitCode"], end["reason"]) == (
        "Failed",
        137,
        "ContainerStatusUnknown",
    )


def test_pods_leave_an_unreachable_node_after_five_minutes(cluster):
    name = a_started_jobset(cluster)
    cluster.plane.kill_node("gpu-node-a")
    cluster.run(330.0)
    assert "deletionTimestamp" not in cluster.get("Pod", name)["metadata"]
    cluster.run(30.0)
    pod = cluster.get("Pod", name)
    assert "deletionTimestamp" in pod["metadata"]
    assert pod["status"]["phase"] == "Running"


def test_a_cordoned_node_keeps_its_pods_and_gets_no_new_ones(cluster):
    name = a_started_jobset(cluster)
    cluster.plane.cordon("gpu-node-a")
    cluster.store.create(jobset("t", job_role("primary", OBEYS)))
    cluster.run(3.0)
    phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in cluster.list("Pod")}
    assert phases.pop(name) == "Running"
    assert list(phases.values()) == ["Pending"]
    cluster.plane.cordon("gpu-node-a", is_cordoned=False)
    cluster.run(3.0)
    assert {pod["status"]["phase"] for pod in cluster.list("Pod")} == {"Running"}
