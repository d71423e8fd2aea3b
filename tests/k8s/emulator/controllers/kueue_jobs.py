"""Kueue's part for JobSets: a Workload for each queued one, and start and stop as it says."""

from contextlib import suppress

from k8s.emulator.controllers.jobset_plan import is_jobset_finished
from k8s.emulator.controllers.kueue_plan import (
    FINALIZER,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    are_pods_ready,
    compose_condition,
    compose_start,
    compose_stop,
    compose_workload,
    is_jobset_active,
)
from k8s.emulator.controllers.objects import (
    JOBSET_KIND,
    find_condition,
    is_deleting,
    is_true,
    key_of,
    labels_of,
    set_condition,
    status_copy,
    uid_of,
)
from k8s.emulator.controllers.recorder import NORMAL, WARNING
from k8s.emulator.statuses import NotFound

SOURCE = "jobset.x-k8s.io/jobset-kueue-controller"
READY_WORDS = {
    "WaitForStart": ("False", "Not all pods are ready or succeeded"),
    "Started": ("True", "All pods reached readiness and the workload is running"),
    "WaitForRecovery": ("False", "At least one pod has failed, waiting for recovery"),
    "Recovered": ("True", "All pods reached readiness and the workload is running"),
}


def suspend_queued(jobset, write):
    """Kueue's webhook: a new JobSet with a queue's label starts suspended."""
    del write
    if labels_of(jobset).get(QUEUE_LABEL):
        jobset["spec"]["suspend"] = True


class KueueJobs:
    def __init__(self, parts):
        self._parts = parts
        self._resumed_s = {}
        """Since when a JobSet runs without admission, by its uid."""

    def keys_of(self, _change, obj):
        if obj["kind"] == JOBSET_KIND:
            yield key_of(obj), 0.0
        elif obj["kind"] == "WorkloadPriorityClass":
            for jobset in self._parts.cache.all_of(JOBSET_KIND):
                yield key_of(jobset), 0.0
        elif obj["kind"] == "Workload":
            for owner in obj["metadata"].get("ownerReferences") or ():
                yield (obj["metadata"]["namespace"], owner["name"]), 0.0

    def reconcile(self, key):
        jobset = self._parts.cache.get(JOBSET_KIND, key)
        if jobset is None or not labels_of(jobset).get(QUEUE_LABEL):
            return
        workloads = self._parts.cache.owned_by(jobset, "Workload")
        if is_deleting(jobset):
            for workload in workloads:
                self._orphan(workload)
        elif not workloads:
            self._create(jobset)
        else:
            self._follow(jobset, workloads[0])

    def _orphan(self, workload):
        self._finish(workload, "OwnerNotFound", "The workload's owner no longer exists")
        with suppress(NotFound):
            namespace, name = key_of(workload)
            self._parts.store.delete(
                "Workload", namespace, name, uid=uid_of(workload), propagation="Background"
            )

    def _create(self, jobset):
        class_name = labels_of(jobset).get(PRIORITY_LABEL, "")
        priority_class = self._parts.cache.get("WorkloadPriorityClass", ("", class_name))
        if class_name and priority_class is None:
            message = f'WorkloadPriorityClass "{class_name}" not found'
            self._record(jobset, WARNING, "WorkloadPriorityClassNotFound", message)
            return
        value = priority_class["value"] if priority_class else 0
        workload = self._parts.store.create(compose_workload(jobset, value, class_name))
        message = f"Created Workload: {'/'.join(key_of(workload))}"
        self._record(jobset, NORMAL, "CreatedWorkload", message)

    def _follow(self, jobset, workload):
        if is_jobset_finished(jobset):
            self._declare_finished(jobset, workload)
            return
        if workload["spec"]["queueName"] != labels_of(jobset)[QUEUE_LABEL]:
            spec = {**workload["spec"], "queueName": labels_of(jobset)[QUEUE_LABEL]}
            self._parts.store.update({**workload, "spec": spec})
            return
        workload = self._note_readiness(jobset, workload)
        is_suspended = bool(jobset["spec"].get("suspend"))
        if is_true(workload, "Evicted"):
            self._evict(jobset, workload, is_suspended=is_suspended)
        elif is_true(workload, "Admitted") and is_suspended:
            self._start(jobset, workload)
        elif not is_true(workload, "Admitted") and not is_suspended:
            self._stop_resumed(jobset, workload)

    def _stop_resumed(self, jobset, workload):
        """Somebody else resumed the JobSet; its pods start before Kueue suspends it again."""
        since_s = self._resumed_s.setdefault(uid_of(jobset), self._parts.now_s)
        left_s = since_s + self._parts.times.kueue_stop_s - self._parts.now_s
        if left_s > 0:
            self._parts.loop.wake(self, key_of(jobset), left_s)
            return
        del self._resumed_s[uid_of(jobset)]
        self._stop(jobset, workload, "Not admitted by cluster queue")

    def _start(self, jobset, workload):
        flavors = {key_of(row)[1]: row for row in self._parts.cache.all_of("ResourceFlavor")}
        spec = compose_start(jobset, workload, flavors)
        jobset = self._parts.store.update({**jobset, "spec": spec})
        queue = workload["status"]["admission"]["clusterQueue"]
        self._record(jobset, NORMAL, "Started", f"Admitted by clusterQueue {queue}")

    def _stop(self, jobset, workload, message):
        jobset = self._parts.store.update({**jobset, "spec": compose_stop(jobset, workload)})
        self._record(jobset, NORMAL, "Stopped", message)

    def _evict(self, jobset, workload, *, is_suspended):
        """Stop an evicted JobSet; once nothing of it is active, give its quota back."""
        message = find_condition(workload, "Evicted")["message"]
        if not is_suspended:
            self._stop(jobset, workload, message)
        elif not is_jobset_active(jobset) and is_true(workload, "QuotaReserved"):
            status = status_copy(workload)
            status.pop("admission", None)
            rows = (
                ("QuotaReserved", "False", "PendingEvaluation", message),
                ("Admitted", "False", "NoReservation", "The workload has no reservation"),
                ("Requeued", "True", "Preempted", message),
            )
            for row in rows:
                self._set(status, compose_condition(workload, *row))
            self._write(workload, status)

    def _note_readiness(self, jobset, workload):
        reason = self._readiness(jobset, workload)
        before = find_condition(workload, "PodsReady")
        if before and before["reason"] == reason:
            return workload
        status = status_copy(workload)
        value, message = READY_WORDS[reason]
        row = compose_condition(workload, "PodsReady", value, reason, message)
        self._set(status, row)
        return self._write(workload, status)

    @staticmethod
    def _readiness(jobset, workload):
        before = find_condition(workload, "PodsReady")
        is_over = before is None or not is_true(workload, "Admitted")
        if is_over:
            return "WaitForStart"
        if are_pods_ready(jobset):
            if before["status"] == "True":
                return before["reason"]
            return "Recovered" if before["reason"] == "WaitForRecovery" else "Started"
        is_news = before["status"] == "True"
        return "WaitForRecovery" if is_news else before["reason"]

    def _declare_finished(self, jobset, workload):
        if is_true(workload, "Finished"):
            return
        workload = self._note_readiness(jobset, workload)
        end = find_condition(jobset, "Completed") or find_condition(jobset, "Failed")
        reason = "Succeeded" if end["type"] == "Completed" else "Failed"
        workload = self._finish(workload, reason, end["message"])
        message = f"Workload '{'/'.join(key_of(workload))}' is declared finished"
        self._record(jobset, NORMAL, "FinishedWorkload", message)

    def _finish(self, workload, reason, message):
        if not is_true(workload, "Finished"):
            status = status_copy(workload)
            self._set(status, compose_condition(workload, "Finished", "True", reason, message))
            workload = self._write(workload, status)
        meta = dict(workload["metadata"])
        rest = [row for row in meta.pop("finalizers", ()) if row != FINALIZER]
        meta |= {"finalizers": rest} if rest else {}
        return self._parts.store.update({**workload, "metadata": meta})

    def _set(self, status, condition):
        set_condition(status, condition, self._parts.now_s)

    def _write(self, workload, status):
        return self._parts.store.update({**workload, "status": status}, subresource="status")

    def _record(self, jobset, severity, reason, message):
        self._parts.recorder.record(jobset, severity, reason, message, SOURCE)
