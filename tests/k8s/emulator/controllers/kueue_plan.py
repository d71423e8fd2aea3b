"""Kueue's arithmetic: what a workload needs, what a ClusterQueue has left, and who gives way; pure.

A ClusterQueue has one flavor for each of its resource groups; cohorts do not exist here.
"""

import copy
import hashlib
from dataclasses import dataclass
from fractions import Fraction

from k8s.emulator.controllers.objects import (
    is_true,
    key_of,
    labels_of,
    owner_reference,
    parse_quantity,
    requests_of,
    status_of,
    uid_of,
)
from k8s.emulator.quantities import write_quantity

PREFIX = "kueue.x-k8s.io"
QUEUE_LABEL, PRIORITY_LABEL = f"{PREFIX}/queue-name", f"{PREFIX}/priority-class"
POD_LABELS = tuple(
    f"{PREFIX}/{name}" for name in ("local-queue-name", "cluster-queue-name", "podset")
)
WORKLOAD_ANNOTATION = f"{PREFIX}/workload"
FINALIZER = f"{PREFIX}/resource-in-use"
HELD_POLICIES = frozenset({"Hold", "HoldAndDrain"})


@dataclass(frozen=True, slots=True)
class QuotaVerdict:
    """Whether a workload fits; else the reason and message of QuotaReserved=False."""

    reason: str = ""
    message: str = ""
    victims: tuple = ()
    """Workloads whose end would make room."""

    @property
    def is_fit(self):
        return not self.reason


def is_held(cluster_queue):
    return cluster_queue["spec"].get("stopPolicy") in HELD_POLICIES


def flavors_of(cluster_queue):
    """The flavor and the nominal quota of each resource: ``{resource: (flavor, quota)}``."""
    rows = {}
    for group in cluster_queue["spec"].get("resourceGroups") or ():
        flavor = group["flavors"][0]
        for resource in flavor["resources"]:
            quota = parse_quantity(resource["nominalQuota"])
            rows[resource["name"]] = (flavor["name"], quota)
    return rows


def pod_sets_of(workload):
    return workload["spec"]["podSets"]


def requests_of_pod_set(pod_set):
    rows = requests_of(pod_set["template"]["spec"])
    return {name: value * pod_set["count"] for name, value in rows.items()}


def usage_of(workloads):
    """What workloads with a reservation hold, by resource."""
    totals = {}
    for workload in workloads:
        for row in (status_of(workload).get("admission") or {}).get("podSetAssignments", ()):
            for name, value in row.get("resourceUsage", {}).items():
                totals[name] = totals.get(name, 0) + parse_quantity(value)
    return totals


def judge_quota(cluster_queue, workload, reserved):
    """Compare a workload with the quota that other workloads (``reserved``) leave."""
    verdict = _check_max(cluster_queue, workload)
    if verdict.is_fit:
        verdict = _check_unused(cluster_queue, workload, usage_of(reserved))
    if verdict.reason != "WaitingForQuota":
        return verdict
    victims = choose_victims(cluster_queue, workload, reserved)
    if not victims:
        return verdict
    tail = f". Pending the preemption of {len(victims)} workload(s)"
    return QuotaVerdict("WaitingForPreemptedWorkloads", verdict.message + tail, tuple(victims))


def choose_victims(cluster_queue, workload, reserved):
    """The fewest workloads of lower priority whose quota is enough, lowest and newest first."""
    policy = (cluster_queue["spec"].get("preemption") or {}).get("withinClusterQueue", "Never")
    if policy != "LowerPriority":
        return []
    lower = [row for row in reserved if priority_of(row) < priority_of(workload)]
    lower.sort(key=lambda row: row["metadata"]["creationTimestamp"], reverse=True)
    lower.sort(key=priority_of)
    for count in range(1, len(lower) + 1):
        rest = [row for row in reserved if row not in lower[:count]]
        if _check_unused(cluster_queue, workload, usage_of(rest)).is_fit:
            return lower[:count]
    return []


def priority_of(workload):
    return workload["spec"].get("priority", 0)


def _check_max(cluster_queue, workload):
    flavors, before = flavors_of(cluster_queue), {}
    for pod_set in pod_sets_of(workload):
        for name, value in requests_of_pod_set(pod_set).items():
            where = f"couldn't assign flavors to pod set {pod_set['name']}: "
            if name not in flavors:
                message = f"{where}resource {name} unavailable in ClusterQueue"
                return QuotaVerdict("ExceedsMaxQuota", message)
            flavor, quota = flavors[name]
            earlier = before.get(name, 0)
            if earlier + value > quota:
                message = (
                    f"{where}insufficient quota for {name} in flavor {flavor}, previously "
                    f"considered podsets requests ({earlier:g}) + current podset request "
                    f"({value:g}) > maximum capacity ({quota:g})"
                )
                return QuotaVerdict("ExceedsMaxQuota", message)
            before[name] = earlier + value
    return QuotaVerdict()


def _check_unused(cluster_queue, workload, usage):
    flavors, totals = flavors_of(cluster_queue), dict(usage)
    for pod_set in pod_sets_of(workload):
        for name, value in requests_of_pod_set(pod_set).items():
            flavor, quota = flavors[name]
            totals[name] = totals.get(name, 0) + value
            if totals[name] > quota:
                missing = Fraction(totals[name] - quota).limit_denominator(1000)
                amount = write_quantity(missing, is_binary=name == "memory")
                message = (
                    f"couldn't assign flavors to pod set {pod_set['name']}: insufficient unused "
                    f"quota for {name} in flavor {flavor}, {amount} more needed"
                )
                return QuotaVerdict("WaitingForQuota", message)
    return QuotaVerdict()


def compose_admission(cluster_queue, workload):
    flavors = flavors_of(cluster_queue)
    rows = []
    for pod_set in pod_sets_of(workload):
        usage = requests_of_pod_set(pod_set)
        rows.append(
            {
                "name": pod_set["name"],
                "count": pod_set["count"],
                "flavors": {name: flavors[name][0] for name in usage},
                "resourceUsage": {name: f"{value:g}" for name, value in usage.items()},
            }
        )
    return {"clusterQueue": key_of(cluster_queue)[1], "podSetAssignments": rows}


def compose_requests(workload):
    """``status.resourceRequests`` of a workload that waits."""
    return [
        {
            "name": pod_set["name"],
            "resources": {name: f"{v:g}" for name, v in requests_of_pod_set(pod_set).items()},
        }
        for pod_set in pod_sets_of(workload)
    ]


def compose_condition(workload, name, value, reason, message):
    return {
        "type": name,
        "status": value,
        "reason": reason,
        "message": message,
        "observedGeneration": workload["metadata"].get("generation", 1),
    }


def workload_name(jobset):
    digest = hashlib.sha1(uid_of(jobset).encode(), usedforsecurity=False).hexdigest()
    return f"jobset-{key_of(jobset)[1]}-{digest[:5]}"


def compose_workload(jobset, priority, class_name):
    namespace, _ = key_of(jobset)
    reference = {"group": PREFIX, "kind": "WorkloadPriorityClass", "name": class_name}
    return {
        "apiVersion": f"{PREFIX}/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": workload_name(jobset),
            "namespace": namespace,
            "labels": {f"{PREFIX}/job-uid": uid_of(jobset)},
            "finalizers": [FINALIZER],
            "ownerReferences": [owner_reference(jobset)],
        },
        "spec": {
            "active": True,
            "podSets": [_compose_pod_set(role) for role in jobset["spec"]["replicatedJobs"]],
            "priority": priority,
            **({"priorityClassRef": reference} if class_name else {}),
            "queueName": labels_of(jobset)[QUEUE_LABEL],
        },
    }


def _compose_pod_set(role):
    spec = role["template"]["spec"]
    return {
        "name": role["name"],
        "count": role["replicas"] * spec.get("parallelism", 1),
        "template": copy.deepcopy(spec["template"]),
        "topologyRequest": {
            "podIndexLabel": "batch.kubernetes.io/job-completion-index",
            "subGroupIndexLabel": "jobset.sigs.k8s.io/job-index",
            "subGroupCount": role["replicas"],
        },
    }


def compose_start(jobset, workload, flavors):
    """The JobSet's spec once admitted: running, with labels and the flavors' node labels."""
    spec = copy.deepcopy(jobset["spec"])
    spec["suspend"] = False
    assigned = {row["name"]: row for row in status_of(workload)["admission"]["podSetAssignments"]}
    for role in spec["replicatedJobs"]:
        pod = role["template"]["spec"]["template"]
        meta = pod.setdefault("metadata", {})
        values = (
            workload["spec"]["queueName"],
            status_of(workload)["admission"]["clusterQueue"],
            role["name"],
        )
        meta["labels"] = {
            **(meta.get("labels") or {}),
            **dict(zip(POD_LABELS, values, strict=True)),
        }
        name = key_of(workload)[1]
        meta["annotations"] = {**(meta.get("annotations") or {}), WORKLOAD_ANNOTATION: name}
        selector = dict(pod["spec"].get("nodeSelector") or {})
        for flavor in assigned[role["name"]]["flavors"].values():
            selector |= flavors[flavor]["spec"].get("nodeLabels") or {}
        if selector:
            pod["spec"]["nodeSelector"] = selector
        tolerations = [
            row
            for flavor in sorted(set(assigned[role["name"]]["flavors"].values()))
            for row in flavors[flavor]["spec"].get("tolerations") or ()
        ]
        if tolerations:
            pod["spec"]["tolerations"] = [*pod["spec"].get("tolerations", ()), *tolerations]
    return spec


def compose_stop(jobset, workload):
    """The JobSet's spec once evicted: suspended, with the pod templates of its first day."""
    spec = copy.deepcopy(jobset["spec"])
    spec["suspend"] = True
    templates = {row["name"]: row["template"] for row in pod_sets_of(workload)}
    for role in spec["replicatedJobs"]:
        role["template"]["spec"]["template"] = copy.deepcopy(templates[role["name"]])
    return spec


def is_pending(workload):
    """Whether a workload waits for quota."""
    return not is_true(workload, "QuotaReserved") and not is_true(workload, "Finished")


def holds_quota(workload):
    return is_true(workload, "QuotaReserved") and not is_true(workload, "Finished")


def is_jobset_active(jobset):
    rows = status_of(jobset).get("replicatedJobsStatus") or ()
    return any(row["active"] for row in rows)


def are_pods_ready(jobset):
    """Whether all roles run or have ended well."""
    rows = {row["name"]: row for row in status_of(jobset).get("replicatedJobsStatus") or ()}
    return bool(rows) and all(
        rows[role["name"]]["ready"] + rows[role["name"]]["succeeded"] >= role["replicas"]
        for role in jobset["spec"]["replicatedJobs"]
    )
