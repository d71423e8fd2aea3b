"""Kueue: quota, priority, queues that are absent or held, and JobSets that somebody resumes."""

import pytest

from k8s.emulator.controllers.kueue_plan import choose_victims, judge_quota
from k8s.kueue_objects import cluster_queue, create_kueue, queues
from k8s.manifests import GPU, OBEYS, STUBBORN, job_role, jobset
from k8s.scripted_cluster import ScriptedCluster

HEAD = "couldn't assign flavors to pod set r1: "
BEFORE = "previously considered podsets requests (1) + "
NOW = "current podset request (9) > maximum capacity (4)"
QUEUE = {"kueue.x-k8s.io/queue-name": "train-q"}


@pytest.fixture
def cluster():
    scripted = ScriptedCluster()
    queues(scripted)
    for name, target in (("train-q", "train"), ("held-q", "held")):
        spec = {"clusterQueue": target}
        meta = {"name": name, "namespace": "default"}
        create_kueue(scripted, "LocalQueue", {"metadata": meta, "spec": spec})
    return scripted


def a_workload(name, *counts, priority=0, created="2026-01-01T00:00:00Z", is_reserved=False):
    pod = {"spec": {"containers": [{"resources": {"limits": {GPU: "1"}}}]}}
    sets = [{"name": f"r{at}", "count": count, "template": pod} for at, count in enumerate(counts)]
    usage = {"podSetAssignments": [{"resourceUsage": {GPU: str(count)}} for count in counts]}
    return {
        "metadata": {"name": name, "creationTimestamp": created},
        "spec": {"podSets": sets, "priority": priority},
        "status": {"admission": usage} if is_reserved else {},
    }


@pytest.mark.parametrize(
    ("counts", "used", "reason", "message"),
    [
        ((1, 2), 0, "", ""),
        ((1, 3), 0, "", ""),
        (
            (1, 2),
            3,
            "WaitingForQuota",
            f"{HEAD}insufficient unused quota for nvidia.com/gpu in flavor h200, 2 more needed",
        ),
        (
            (1, 9),
            0,
            "ExceedsMaxQuota",
            f"{HEAD}insufficient quota for nvidia.com/gpu in flavor h200, {BEFORE}{NOW}",
        ),
    ],
)
def test_quota_is_what_other_workloads_leave(counts, used, reason, message):
    reserved = [a_workload("other", used, is_reserved=True)]
    verdict = judge_quota(cluster_queue("train", "None"), a_workload("w", *counts), reserved)
    assert (verdict.reason, verdict.message) == (reason, message)


def test_the_newest_of_the_lowest_priority_gives_way_first():
    queue = cluster_queue("train", "None")
    rows = [
        a_workload("old", 2, priority=1, created="2026-01-01T00:00:00Z", is_reserved=True),
        a_workload("new", 2, priority=1, created="2026-01-02T00:00:00Z", is_reserved=True),
        a_workload("high", 0, priority=9, is_reserved=True),
    ]
    victims = choose_victims(queue, a_workload("w", 2, priority=5), rows)
    assert [row["metadata"]["name"] for row in victims] == ["new"]
    assert choose_victims(queue, a_workload("w", 2, priority=1), rows) == []
    assert len(choose_victims(queue, a_workload("w", 4, priority=5), rows)) == 2


def conditions_of(cluster, name):
    (workload,) = [
        row
        for row in cluster.list("Workload")
        if row["metadata"]["ownerReferences"][0]["name"] == name
    ]
    rows = workload["status"].get("conditions") or ()
    return {row["type"]: (row["status"], row["reason"]) for row in rows}


def test_an_admitted_jobset_runs_on_the_nodes_of_its_flavor(cluster):
    cluster.store.create(jobset("one", job_role("primary", OBEYS, gpus=1), labels=QUEUE))
    assert cluster.get("JobSet", "one")["spec"]["suspend"]
    cluster.run(4.0)
    (pod,) = cluster.list("Pod")
    assert pod["spec"]["nodeSelector"] == {"example.com/pool": "a"}
    assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "primary"
    assert pod["status"]["phase"] == "Running"
    assert conditions_of(cluster, "one")["PodsReady"] == ("True", "Started")


def test_a_jobset_waits_until_another_has_ended(cluster):
    for name in ("one", "two"):
        cluster.store.create(jobset(name, job_role("primary", "sleep 5", gpus=3), labels=QUEUE))
    cluster.run(3.0)
    assert conditions_of(cluster, "two")["QuotaReserved"] == ("False", "WaitingForQuota")
    cluster.run(20.0)
    for name in ("one", "two"):
        assert conditions_of(cluster, name)["Finished"] == ("True", "Succeeded")


def test_a_held_queue_admits_again_when_it_is_released(cluster):
    labels = {"kueue.x-k8s.io/queue-name": "held-q"}
    cluster.store.create(jobset("held", job_role("primary", OBEYS, gpus=1), labels=labels))
    cluster.run(2.0)
    assert conditions_of(cluster, "held")["QuotaReserved"] == ("False", "Suspended")

    def release(obj):
        obj["spec"]["stopPolicy"] = "None"

    cluster.store.modify("ClusterQueue", None, "held", release)
    cluster.run(2.0)
    assert conditions_of(cluster, "held")["Admitted"] == ("True", "Admitted")


def test_kueue_suspends_again_what_somebody_resumes(cluster):
    cluster.store.create(jobset("big", job_role("primary", STUBBORN, gpus=9), labels=QUEUE))
    cluster.run(2.0)

    def resume(obj):
        obj["spec"]["suspend"] = False

    cluster.store.modify("JobSet", "default", "big", resume)
    cluster.run(2.0)
    assert cluster.get("JobSet", "big")["spec"]["suspend"]
    assert cluster.list("Pod"), "containers start before Kueue notices"
    cluster.run(6.0)
    assert cluster.list("Pod") == []
    assert ("Stopped", "Not admitted by cluster queue") in cluster.events("big")


def test_an_unknown_priority_class_makes_no_workload_until_it_is_there(cluster):
    labels = {**QUEUE, "kueue.x-k8s.io/priority-class": "urgent"}
    cluster.store.create(jobset("prio", job_role("primary", OBEYS, gpus=1), labels=labels))
    cluster.run(2.0)
    assert cluster.list("Workload") == []
    reason = ("WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "urgent" not found')
    assert reason in cluster.events("prio")
    create_kueue(cluster, "WorkloadPriorityClass", {"metadata": {"name": "urgent"}, "value": 7})
    cluster.run(2.0)
    assert cluster.list("Workload")[0]["spec"]["priority"] == 7
