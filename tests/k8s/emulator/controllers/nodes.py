"""Nodes that fall silent, are cordoned, or are gone: taints, eviction by taint, and pod garbage."""

from contextlib import suppress

from k8s.emulator.controllers.fitting import UNSCHEDULABLE, is_toleration_of
from k8s.emulator.controllers.job_plan import FINAL_PHASES
from k8s.emulator.controllers.objects import (
    POD_KIND,
    find_condition,
    is_deleting,
    is_true,
    key_of,
    seconds_of,
    set_condition,
    stamp,
    status_copy,
    status_of,
    uid_of,
)
from k8s.emulator.controllers.recorder import NORMAL, WARNING
from k8s.emulator.statuses import NotFound

HOST_LABEL = "kubernetes.io/hostname"
UNREACHABLE = "node.kubernetes.io/unreachable"
#: What admission gives to pods that say nothing; tests have a shorter time for it.
DEFAULT_TOLERATION_S = 300
AWAY = {
    "type": "Ready",
    "status": "Unknown",
    "reason": "NodeStatusUnknown",
    "message": "Kubelet stopped posting node status.",
}
BACK = {
    "type": "Ready",
    "status": "True",
    "reason": "KubeletReady",
    "message": "kubelet is posting ready status",
}


def add_node(store, name, *, resources, labels=None, taints=()):
    """Register a Node that is ready; ``resources`` is what it has for pods."""
    quantities = {"pods": "110", **{key: str(value) for key, value in resources.items()}}
    node = store.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {HOST_LABEL: name, **(labels or {})}},
            "spec": {"taints": list(taints)} if taints else {},
        }
    )
    status = {"capacity": quantities, "allocatable": quantities, "conditions": []}
    set_condition(status, BACK, store.clock())
    return store.update({**node, "status": status}, subresource="status")


class NodeLifecycle:
    """A kubelet tells it when it falls silent and when it speaks again."""

    def __init__(self, parts):
        self._parts = parts
        self._silent_since_s = {}
        self._gone_since_s = {}

    def fall_silent(self, name):
        self._silent_since_s[name] = self._parts.now_s
        self._parts.loop.wake(self, ("", name), self._parts.times.node_grace_s)

    def speak(self, name):
        self._silent_since_s.pop(name, None)
        self._parts.loop.wake(self, ("", name))

    def keys_of(self, change, obj):
        if obj["kind"] == "Node":
            name = key_of(obj)[1]
            if change == "DELETED":
                self._gone_since_s[name] = self._parts.now_s
            else:
                self._gone_since_s.pop(name, None)
            yield ("", name), self._parts.times.pod_gc_s if change == "DELETED" else 0.0
        elif obj["kind"] == POD_KIND and obj["spec"].get("nodeName") in self._gone_since_s:
            yield ("", obj["spec"]["nodeName"]), self._parts.times.pod_gc_s

    def reconcile(self, key):
        node = self._parts.cache.get("Node", key)
        pods = [
            pod
            for pod in self._parts.cache.all_of(POD_KIND)
            if pod["spec"].get("nodeName") == key[1]
        ]
        if node is None:
            if self._is_gone_for_good(key[1]):
                self._collect(pods)
            return
        node = self._taint(self._note_readiness(node))
        if _is_away(node):
            self._mark_not_ready(pods)
        self._evict(node, pods)

    def _is_gone_for_good(self, name):
        gone_s = self._parts.now_s - self._gone_since_s.get(name, self._parts.now_s)
        if gone_s < self._parts.times.pod_gc_s:
            self._parts.loop.wake(self, ("", name), self._parts.times.pod_gc_s - gone_s)
            return False
        return True

    def _note_readiness(self, node):
        name = key_of(node)[1]
        since_s = self._silent_since_s.get(name, self._parts.now_s)
        is_away = self._parts.now_s - since_s >= self._parts.times.node_grace_s
        is_away = is_away and name in self._silent_since_s
        before = find_condition(node, "Ready")
        if before is None or (before["status"] == "Unknown") == is_away:
            return node
        if name in self._silent_since_s and not is_away:
            return node
        status = status_copy(node)
        set_condition(status, AWAY if is_away else BACK, self._parts.now_s)
        return self._parts.store.update({**node, "status": status}, subresource="status")

    def _taint(self, node):
        """Taints follow the node's readiness and its cordon."""
        own = {UNREACHABLE, UNSCHEDULABLE}
        before = node["spec"].get("taints") or []
        taints = [row for row in before if row["key"] not in own]
        wanted = []
        if node["spec"].get("unschedulable"):
            wanted.append((UNSCHEDULABLE, "NoSchedule"))
        if _is_away(node):
            wanted += [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
        old = {(row["key"], row["effect"]): row for row in before}
        for key, effect in wanted:
            row = {"key": key, "effect": effect, "timeAdded": stamp(self._parts.now_s)}
            taints.append(old.get((key, effect), row))
        if taints == before:
            return node
        spec = {**node["spec"], "taints": taints}
        if not taints:
            del spec["taints"]
        return self._parts.store.update({**node, "spec": spec})

    def _mark_not_ready(self, pods):
        for pod in pods:
            if is_true(pod, "Ready"):
                status = status_copy(pod)
                row = {"type": "Ready", "status": "False"}
                set_condition(status, row, self._parts.now_s)
                self._parts.store.update({**pod, "status": status}, subresource="status")
                words = ("NodeNotReady", "Node is not ready")
                self._parts.recorder.record(pod, WARNING, *words, "node-controller")

    def _evict(self, node, pods):
        taints = [row for row in node["spec"].get("taints") or () if row["effect"] == "NoExecute"]
        for pod in pods:
            is_over = is_deleting(pod) or status_of(pod).get("phase") in FINAL_PHASES
            if not taints or is_over:
                continue
            wait_s = min(self._wait_s(pod, taint) for taint in taints)
            if wait_s <= 0:
                self._delete_for_taint(pod)
            elif wait_s != float("inf"):
                self._parts.loop.wake(self, key_of(node), wait_s)

    def _wait_s(self, pod, taint):
        """How long a pod still tolerates a taint; it may be for ever."""
        rows = [row for row in pod["spec"].get("tolerations") or () if is_toleration_of(row, taint)]
        if rows:
            limit_s = min(row.get("tolerationSeconds", float("inf")) for row in rows)
            limit_s = self._parts.times.toleration_s if limit_s == DEFAULT_TOLERATION_S else limit_s
        else:
            limit_s = 0.0
        if limit_s == float("inf"):
            return limit_s
        return seconds_of(taint["timeAdded"]) + limit_s - self._parts.now_s

    def _delete_for_taint(self, pod):
        namespace, name = key_of(pod)
        words = ("TaintManagerEviction", f"Marking for deletion Pod {namespace}/{name}")
        self._parts.recorder.record(pod, NORMAL, *words, "taint-eviction-controller")
        message = "Taint manager: deleting due to NoExecute taint"
        disrupt(self._parts, pod, "DeletionByTaintManager", message)
        self._delete(pod)

    def _collect(self, pods):
        """End pods whose Node object is gone."""
        for pod in pods:
            status = status_copy(pod)
            if status.get("phase") not in FINAL_PHASES:
                message = "PodGC: node no longer exists"
                disrupt(self._parts, pod, "DeletionByPodGC", message, phase="Failed")
            self._delete(pod, grace_s=0)

    def _delete(self, pod, grace_s=None):
        namespace, name = key_of(pod)
        with suppress(NotFound):
            self._parts.store.delete(
                POD_KIND,
                namespace,
                name,
                uid=uid_of(pod),
                propagation="Background",
                grace_s=grace_s,
            )


def _is_away(node):
    condition = find_condition(node, "Ready")
    return condition is not None and condition["status"] == "Unknown"


def disrupt(parts, pod, reason, message, *, phase=None):
    """Write why a pod is disrupted; the condition comes first, as the API server writes it."""
    status = status_copy(pod)
    row = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    set_condition(status, row, parts.now_s)
    if phase:
        status["phase"] = phase
    return parts.store.update({**pod, "status": status}, subresource="status")
