"""The scheduler: it binds pods to nodes, or says why none takes them."""

from collections import defaultdict

from k8s.emulator.controllers.fitting import explain_refusals, judge_node
from k8s.emulator.controllers.job_plan import FINAL_PHASES
from k8s.emulator.controllers.objects import (
    POD_KIND,
    find_condition,
    is_deleting,
    key_of,
    set_condition,
    status_copy,
    status_of,
    uid_of,
)
from k8s.emulator.controllers.recorder import NORMAL, WARNING
from k8s.emulator.statuses import Conflict

SOURCE = "default-scheduler"
ALL_PODS = ("", "all pods")


class PodScheduler:
    """One pass looks at all pods without a node, oldest first."""

    def __init__(self, parts):
        self._parts = parts
        self._bound = defaultdict(dict)
        """Pods that hold room, by node and uid."""

    def keys_of(self, change, obj):
        if obj["kind"] == POD_KIND:
            self._count(change, obj)
            is_ended = change == "DELETED" or status_of(obj).get("phase") in FINAL_PHASES
            if is_ended or not obj["spec"].get("nodeName"):
                yield ALL_PODS, 0.0
        elif obj["kind"] in {"Node", "PersistentVolumeClaim"}:
            yield ALL_PODS, 0.0

    def reconcile(self, key):
        nodes = sorted(self._parts.cache.all_of("Node"), key=key_of)
        waiting = [pod for pod in self._parts.cache.all_of(POD_KIND) if _is_waiting(pod)]
        waiting.sort(key=lambda pod: (-pod["spec"].get("priority", 0), _age_rank(pod)))
        for pod in waiting:
            try:
                self._place(pod, nodes)
            except Conflict:
                self._parts.loop.wake(self, key, 0.01)

    def _count(self, change, pod):
        node = pod["spec"].get("nodeName")
        is_over = change == "DELETED" or status_of(pod).get("phase") in FINAL_PHASES
        if node and is_over:
            self._bound[node].pop(uid_of(pod), None)
        elif node:
            self._bound[node][uid_of(pod)] = pod

    def _place(self, pod, nodes):
        if missing := self._missing_claim(pod):
            total = len(nodes)
            head = f"0/{total} nodes are available"
            tail = f"preemption: {head}: {total} Preemption is not helpful for scheduling."
            claim = f'persistentvolumeclaim "{missing}" not found'
            self._refuse(pod, f"{head}: {claim}. no new claims to deallocate, {tail}")
            return
        verdicts = []
        for node in nodes:
            pods = list(self._bound[key_of(node)[1]].values())
            verdict = judge_node(pod, node, pods)
            if verdict.is_fit:
                self._bind(pod, key_of(node)[1])
                return
            verdicts.append(verdict)
        self._refuse(pod, explain_refusals(verdicts))

    def _missing_claim(self, pod):
        for volume in pod["spec"].get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            key = (pod["metadata"]["namespace"], name)
            if name and self._parts.cache.get("PersistentVolumeClaim", key) is None:
                return name
        return None

    def _bind(self, pod, node):
        bound = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        bound = self._parts.store.update(bound, subresource="binding")
        self._bound[node][uid_of(pod)] = bound
        status = status_copy(bound)
        set_condition(status, {"type": "PodScheduled", "status": "True"}, self._parts.now_s)
        self._parts.store.update({**bound, "status": status}, subresource="status")
        message = f"Successfully assigned {'/'.join(key_of(pod))} to {node}"
        self._parts.recorder.record(pod, NORMAL, "Scheduled", message, SOURCE)

    def _refuse(self, pod, message):
        before = find_condition(pod, "PodScheduled")
        if before and before.get("message") == message:
            return
        row = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = status_copy(pod)
        set_condition(status, {**row, "message": message}, self._parts.now_s)
        self._parts.store.update({**pod, "status": status}, subresource="status")
        self._parts.recorder.record(pod, WARNING, "FailedScheduling", message, SOURCE)


def _is_waiting(pod):
    is_open = status_of(pod).get("phase") not in FINAL_PHASES and not is_deleting(pod)
    return is_open and not pod["spec"].get("nodeName") and not pod["spec"].get("schedulingGates")


def _age_rank(pod):
    return pod["metadata"]["creationTimestamp"], int(pod["metadata"]["resourceVersion"])
