"""Kueue's admission: workloads of all queues against the quota of their ClusterQueues."""

from k8s.emulator.controllers.kueue_plan import (
    compose_admission,
    compose_condition,
    compose_requests,
    holds_quota,
    is_held,
    is_pending,
    judge_quota,
    priority_of,
)
from k8s.emulator.controllers.objects import (
    find_condition,
    is_deleting,
    is_true,
    key_of,
    seconds_of,
    set_condition,
    status_copy,
    uid_of,
)
from k8s.emulator.controllers.recorder import NORMAL, WARNING

SOURCE = "kueue-admission"
KINDS = frozenset({"Workload", "LocalQueue", "ClusterQueue", "ResourceFlavor"})
ALL_QUEUES = ("", "all queues")


class KueueQueues:
    """One pass looks at every pending workload, the highest priority and the oldest first."""

    def __init__(self, parts):
        self._parts = parts

    def keys_of(self, _change, obj):
        if obj["kind"] in KINDS:
            yield ALL_QUEUES, self._parts.times.admission_s

    def reconcile(self, _key):
        workloads = [row for row in self._parts.cache.all_of("Workload") if not is_deleting(row)]
        pending = [row for row in workloads if is_pending(row)]
        pending.sort(key=lambda row: (-priority_of(row), row["metadata"]["creationTimestamp"]))
        for workload in pending:
            self._judge(workload)

    def _judge(self, workload):
        queue, refusal = self._find_queue(workload)
        if refusal:
            self._wait(workload, *refusal, is_event=False)
            return
        name = key_of(queue)[1]
        reserved = [
            row
            for row in self._parts.cache.all_of("Workload")
            if holds_quota(row) and row["status"]["admission"]["clusterQueue"] == name
        ]
        verdict = judge_quota(queue, workload, reserved)
        if verdict.is_fit:
            self._admit(workload, queue)
            return
        for victim in verdict.victims:
            if not is_true(victim, "Evicted"):
                self._preempt(victim, workload, name)
        self._wait(workload, verdict.reason, verdict.message, requests=compose_requests(workload))

    def _find_queue(self, workload):
        """The ClusterQueue, or why there is none, as reason and message."""
        name = workload["spec"]["queueName"]
        local = self._parts.cache.get("LocalQueue", (workload["metadata"]["namespace"], name))
        if local is None:
            return None, ("Misconfigured", f"LocalQueue {name} doesn't exist")
        target = local["spec"]["clusterQueue"]
        queue = self._parts.cache.get("ClusterQueue", ("", target))
        if queue is None:
            return None, ("Misconfigured", f"ClusterQueue {target} doesn't exist")
        if is_held(local):
            return None, ("Suspended", f"LocalQueue {name} is inactive")
        if is_held(queue):
            return None, ("Suspended", f"ClusterQueue {target} is inactive")
        return queue, None

    def _wait(self, workload, reason, message, *, requests=None, is_event=True):
        before = find_condition(workload, "QuotaReserved")
        if before and (before["reason"], before["message"]) == (reason, message):
            return
        status = status_copy(workload)
        self._set(status, compose_condition(workload, "QuotaReserved", "False", reason, message))
        words = ("NoReservation", "The workload has no reservation")
        self._set(status, compose_condition(workload, "Admitted", "False", *words))
        if requests:
            status["resourceRequests"] = requests
        workload = self._write(workload, status)
        if is_event:
            self._record(workload, WARNING, reason, message)

    def _admit(self, workload, queue):
        name = key_of(queue)[1]
        queued_s = self._parts.now_s - seconds_of(workload["metadata"]["creationTimestamp"])
        status = status_copy(workload)
        status.pop("resourceRequests", None)
        status["admission"] = compose_admission(queue, workload)
        words = ("QuotaReserved", f"Quota reserved in ClusterQueue {name}")
        self._set(status, compose_condition(workload, "QuotaReserved", "True", *words))
        self._set(
            status,
            compose_condition(workload, "Admitted", "True", "Admitted", "The workload is admitted"),
        )
        for past in ("Evicted", "Preempted"):
            if condition := find_condition(workload, past):
                message = f"Previously: {condition['message'].removeprefix('Previously: ')}"
                self._set(
                    status, compose_condition(workload, past, "False", "QuotaReserved", message)
                )
        workload = self._write(workload, status)
        wait = f"wait time since queued was {max(0, queued_s):.0f}s"
        self._record(workload, NORMAL, "QuotaReserved", f"{words[1]}, {wait}")
        message = f"Admitted by ClusterQueue {name}, wait time since reservation was 0s"
        self._record(workload, NORMAL, "Admitted", message)

    def _preempt(self, victim, preemptor, queue):
        owner = preemptor["metadata"]["ownerReferences"][0]["uid"]
        message = (
            f"Preempted to accommodate a workload (UID: {uid_of(preemptor)}, JobUID: {owner}) due "
            f"to prioritization in the ClusterQueue; preemptor path: /{queue}; preemptee path: "
            f"/{queue}"
        )
        status = status_copy(victim)
        self._set(status, compose_condition(victim, "Evicted", "True", "Preempted", message))
        self._set(status, compose_condition(victim, "Preempted", "True", "InClusterQueue", message))
        counts = [{"reason": "Preempted", "underlyingCause": "", "count": 1}]
        status["schedulingStats"] = {"evictions": counts}
        victim = self._write(victim, status)
        rank = "; ".join(
            f"{who} effective priority: {value} (base: {value}, boost: 0)"
            for who, value in (
                ("preemptor", priority_of(preemptor)),
                ("preemptee", priority_of(victim)),
            )
        )
        self._record(victim, NORMAL, "EvictedDueToPreempted", message)
        self._record(victim, NORMAL, "Preempted", f"{message}; {rank}")
        whom = f"{'/'.join(key_of(victim))} (UID: {uid_of(victim)})"
        text = f"Preempted workload {whom} in ClusterQueue {queue}; {rank}"
        self._record(preemptor, NORMAL, "PreemptedWorkload", text)

    def _set(self, status, condition):
        set_condition(status, condition, self._parts.now_s)

    def _write(self, workload, status):
        return self._parts.store.update({**workload, "status": status}, subresource="status")

    def _record(self, workload, severity, reason, message):
        self._parts.recorder.record(workload, severity, reason, message, SOURCE)
