"""Reading facts from the API's objects: real ones, trimmed ones, and ones without fields."""

import json

import pytest

from k8s.recorded import TRACES, read_trace
from k8s.replaying import Cluster
from trainshed.engines.kubernetes import nodes
from trainshed.engines.kubernetes.state import objects
from trainshed.engines.kubernetes.state.facts import EventFacts, ObjectCondition

READERS = {
    "JobSet": objects.read_jobset,
    "Pod": objects.read_pod,
    "Event": objects.read_event,
    "Workload": objects.read_workload,
}


@pytest.mark.parametrize("trace", sorted(path.stem for path in TRACES.glob("*.jsonl")))
def test_a_trimmed_object_has_the_same_facts(trace):
    sizes = [0, 0]
    for record in read_trace(trace):
        read = READERS.get(record["kind"]) if record["rec"] == "watch" else None
        if read is not None:
            trimmed = objects.trim_object(record["kind"], record["object"])
            assert read(trimmed) == read(record["object"])
            sizes[0] += len(json.dumps(trimmed))
            sizes[1] += len(json.dumps(record["object"]))
    assert sizes[0] <= 0.8 * sizes[1] or not sizes[1]


@pytest.mark.parametrize("read", READERS.values())
@pytest.mark.parametrize(
    "obj", [{}, {"metadata": None, "spec": None, "status": None}, {"spec": [], "status": "x"}]
)
def test_an_object_without_fields_is_read(read, obj):
    assert read(obj)


@pytest.mark.parametrize("kind", [*READERS, "Node"])
def test_an_object_without_fields_is_trimmed(kind):
    assert objects.trim_object(kind, {"kind": kind, "spec": None})["kind"] == kind


def test_nodes():
    def node(name, status):
        return {
            "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": status}], "images": ["many"]},
        }

    given = [node("a", "True"), node("b", "Unknown"), node("c", "False"), {"metadata": None}]
    expected = {"a": True, "b": False, "c": False, "": False}
    assert objects.read_nodes(given) == expected
    assert objects.read_nodes([objects.trim_object("Node", obj) for obj in given]) == expected


def test_a_heartbeat_of_a_node_and_a_new_version_change_no_trimmed_object():
    def node(version, beat):
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": beat}
        return {
            "metadata": {"name": "a", "uid": "u", "resourceVersion": version},
            "status": {"conditions": [ready, {"type": "DiskPressure", "status": "False"}]},
        }

    assert nodes.trim_node(node("1", "1s")) == nodes.trim_node(node("2", "2s"))
    for kind in (*READERS, "Node"):
        first, second = (objects.trim_object(kind, node(version, "1s")) for version in "12")
        assert first == second


def test_only_the_pods_of_the_first_run_of_the_jobset_are_read():
    """And the pod that began the attempt, whatever JobSet has made it."""

    def pod(name, uid, jobset, restart="0"):
        labels = {objects.JOBSET_UID: jobset, objects.RESTART: restart, objects.ROLE: "worker"}
        return {"metadata": {"name": name, "uid": uid, "labels": labels}}

    pods = [pod("c", "1", "own"), pod("b", "2", "own", "1"), pod("a", "3", "other")]
    assert [p.name for p in objects.read_pods(pods, "own")] == ["c"]
    assert [p.name for p in objects.read_pods(pods, "own", claimant="3")] == ["a", "c"]


def test_events_of_both_api_groups():
    core = {
        "involvedObject": {"kind": "Job", "name": "j-worker-0"},
        "reason": "FailedCreate",
        "message": "no",
        "lastTimestamp": "2026-11-21T01:00:02Z",
    }
    new = {
        "regarding": {"kind": "JobSet", "name": "j"},
        "reason": "JobCreationFailed",
        "note": "never",
        "eventTime": "2026-11-21T01:00:01.000000Z",
    }
    other = {"involvedObject": {"kind": "Job", "name": "jj-worker-0"}, "reason": "X"}
    expected = (
        EventFacts("JobSet", "j", "JobCreationFailed", "never", "2026-11-21T01:00:01.000000Z"),
        EventFacts("Job", "j-worker-0", "FailedCreate", "no", "2026-11-21T01:00:02Z"),
    )
    assert objects.read_events([core, other, new], "j") == expected
    trimmed = [objects.trim_object("Event", obj) for obj in (core, other, new)]
    assert objects.read_events(trimmed, "j") == expected


def test_workloads_of_both_versions():
    status = {
        "conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Pending"}],
        "admissionChecks": [{"name": "c", "state": "Pending", "message": "m"}],
        "clusterName": "west",
    }
    owner = {"metadata": {"ownerReferences": [{"uid": "u"}]}, "status": status}
    labelled = {"metadata": {"labels": {objects.JOB_UID: "u"}}, "status": status}
    for obj in (owner, labelled):
        workload = objects.find_workload([obj], "u")
        assert workload.condition("QuotaReserved") == ObjectCondition(False, "Pending", "")
        assert workload.clusters == ("west",)
        assert workload.checks == (("c", "Pending", "m"),)
        assert objects.find_workload([obj], "other") is None


def test_the_last_state_of_a_container_and_its_limit():
    cluster = Cluster()
    for record in read_trace("m2-bad-command-oom"):
        cluster.apply(record)
    pods = map(objects.read_pod, cluster.objects["Pod"].values())
    ends = {pod.containers[0].ended: pod.containers[0] for pod in pods}
    assert ends["OOMKilled"].memory_limit == "64Mi"
    assert not ends["StartError"].has_started
    assert ends["StartError"].exit_code == 128
    assert ends["Error"].exit_code == 139
