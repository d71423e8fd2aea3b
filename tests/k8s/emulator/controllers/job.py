"""The Job controller: it makes pods, counts how they end, and says how the Job ended."""

import copy
import random
import string
from contextlib import suppress

from k8s.emulator.controllers.job_plan import (
    INDEX,
    deadline_of,
    format_indexes,
    is_job_finished,
    is_tracked,
    observe_job,
)
from k8s.emulator.controllers.objects import (
    JOB_KIND,
    POD_KIND,
    TRACKING_FINALIZER,
    controller_of,
    is_deleting,
    is_true,
    key_of,
    owner_reference,
    set_condition,
    stamp,
    status_copy,
    uid_of,
)
from k8s.emulator.controllers.recorder import NORMAL, WARNING
from k8s.emulator.statuses import ApiError, Conflict, NotFound

SOURCE = "job-controller"
RANDOM_LENGTH = 5
RANDOM_LETTERS = string.ascii_lowercase + string.digits
GENERATE_NAME_LENGTH_MAX = 63 - RANDOM_LENGTH
COMPLETED = ("CompletionsReached", "Reached expected number of succeeded pods")


class JobController:
    """Reads Jobs and their pods, and writes pods and the status of Jobs."""

    def __init__(self, parts):
        self._parts = parts
        self._generations = {}
        self._refusals = {}
        """How often the pods of a Job were refused in a row, by its uid."""
        self._backoff_until_s = {}
        """When a failed pod of a Job may be replaced, by the Job's uid."""

    def keys_of(self, change, obj):
        if obj["kind"] == JOB_KIND:
            yield key_of(obj), self._delay_of_job(change, obj)
        elif obj["kind"] == POD_KIND and (uid := controller_of(obj, JOB_KIND)):
            yield self._job_key(obj, uid), self._parts.times.job_batch_s

    def reconcile(self, key):
        job = self._parts.cache.get(JOB_KIND, key)
        if job is None:
            self._release(self._list_orphans(key))
            return
        pods = self._parts.cache.owned_by(job, POD_KIND)
        if is_deleting(job):
            self._release(pods)
            self._write_counts(job, observe_job(job, pods, self._parts.now_s))
        elif is_job_finished(job):
            self._release(pods)
        elif job["spec"].get("suspend"):
            self._suspend(job, observe_job(job, pods, self._parts.now_s))
        else:
            self._advance(job, observe_job(job, pods, self._parts.now_s))

    def _list_orphans(self, key):
        """Pods that were created while their Job was deleted; nothing else releases them."""
        pods = ((pod, controller_of(pod, JOB_KIND)) for pod in self._parts.cache.all_of(POD_KIND))
        return [pod for pod, uid in pods if uid and self._job_key(pod, uid) == key]

    def _delay_of_job(self, change, job):
        """A Job's own status changes wait for the next batch."""
        row = (job["metadata"].get("generation"), is_deleting(job))
        is_new = self._generations.get(uid_of(job)) != row
        self._generations[uid_of(job)] = row
        if change == "DELETED":
            self._generations.pop(uid_of(job), None)
            self._refusals.pop(uid_of(job), None)
            self._backoff_until_s.pop(uid_of(job), None)
        return 0.0 if is_new else self._parts.times.job_batch_s

    @staticmethod
    def _job_key(pod, uid):
        owners = pod["metadata"]["ownerReferences"]
        name = next(owner["name"] for owner in owners if owner["uid"] == uid)
        return pod["metadata"]["namespace"], name

    def _advance(self, job, facts):
        if facts.failure:
            self._fail(job, facts)
        elif facts.is_complete:
            self._complete(job, facts)
        else:
            self._run(job, facts)

    def _run(self, job, facts):
        created = self._create_pods(job, self._due_indexes(job, facts))
        job = self._count_failures(job, facts)
        status = self._counts(job, facts, active=len(facts.active) + created)
        status.setdefault("startTime", stamp(self._parts.now_s))
        resumed = is_true(job, "Suspended")
        if resumed:
            self._say(status, "Suspended", "JobResumed", "Job resumed", value="False")
            status["startTime"] = stamp(self._parts.now_s)
        job = self._write(job, status)
        if resumed:
            self._record(job, NORMAL, "Resumed", "Job resumed")
        deadline_s = deadline_of(job)
        if deadline_s is not None:
            self._parts.loop.wake(self, key_of(job), max(0.0, deadline_s - self._parts.now_s))

    def _suspend(self, job, facts):
        for pod in facts.active:
            self._delete_pod(job, self._release_one(pod))
        status = self._counts(job, facts, active=0, terminating=facts.terminating + facts.active)
        status.pop("startTime", None)
        is_news = not is_true(job, "Suspended")
        if is_news:
            self._say(status, "Suspended", "JobSuspended", "Job suspended")
        self._write(job, status)
        if is_news:
            self._record(job, NORMAL, "Suspended", "Job suspended")

    def _complete(self, job, facts):
        status = self._counts(job, facts, active=0)
        self._say(status, "SuccessCriteriaMet", *COMPLETED)
        job = self._write(job, status)
        self._release(self._parts.cache.owned_by(job, POD_KIND))
        status = status_copy(job)
        self._say(status, "Complete", *COMPLETED)
        status["completionTime"] = stamp(self._parts.now_s)
        self._write(job, status)
        self._record(job, NORMAL, "Completed", "Job completed")

    def _fail(self, job, facts):
        """Delete what runs, count it as failed, and wait until it has ended."""
        for pod in facts.active:
            self._delete_pod(job, pod)
        going = facts.terminating + facts.active
        failed = {uid_of(pod): pod for pod in (*facts.failed, *filter(is_tracked, facts.active))}
        status = self._counts(job, facts, active=0, terminating=going)
        self._say(status, "FailureTarget", facts.failure.reason, facts.failure.message)
        if failed:
            status["uncountedTerminatedPods"] = {"failed": list(failed)}
        job = self._write(job, status)
        self._release(failed.values())
        status = status_copy(job)
        status["uncountedTerminatedPods"] = {}
        if failed:
            status["failed"] = status.get("failed", 0) + len(failed)
        if going:
            self._write(job, status)
            return
        self._say(status, "Failed", facts.failure.reason, facts.failure.message)
        self._write(job, status)
        self._record(job, WARNING, facts.failure.reason, facts.failure.message)

    def _due_indexes(self, job, facts):
        """The indexes that get a pod now; after a failure they wait, longer each time."""
        now_s, uid = self._parts.now_s, uid_of(job)
        if facts.failed:
            count = status_copy(job).get("failed", 0)
            self._backoff_until_s[uid] = now_s + self._parts.times.pod_backoff_s * 2**count
        wait_s = self._backoff_until_s.get(uid, 0.0) - now_s
        if wait_s <= 0:
            return facts.missing
        self._parts.loop.wake(self, key_of(job), wait_s)
        return ()

    def _count_failures(self, job, facts):
        """Count failures that the Job survives."""
        if not facts.failed:
            return job
        status = status_copy(job)
        status["failed"] = status.get("failed", 0) + len(facts.failed)
        job = self._write(job, status)
        self._release(facts.failed)
        return job

    def _create_pods(self, job, indexes):
        created = 0
        for index in indexes:
            try:
                pod = self._parts.store.create(compose_pod(job, index))
            except ApiError as error:
                self._refuse(job, error)
                break
            created += 1
            self._refusals.pop(uid_of(job), None)
            self._record(job, NORMAL, "SuccessfulCreate", f"Created pod: {key_of(pod)[1]}")
        return created

    def _refuse(self, job, error):
        count = self._refusals[uid_of(job)] = self._refusals.get(uid_of(job), 0) + 1
        self._record(job, WARNING, "FailedCreate", f"Error creating: {error}")
        wait_s = self._parts.times.create_retry_s * 2 ** (count - 1)
        self._parts.loop.wake(self, key_of(job), wait_s)

    def _delete_pod(self, job, pod):
        with suppress(NotFound):
            namespace, name = key_of(pod)
            self._parts.store.delete(
                POD_KIND, namespace, name, uid=uid_of(pod), propagation="Background"
            )
            self._record(job, NORMAL, "SuccessfulDelete", f"Deleted pod: {name}")

    def _release(self, pods):
        for pod in pods:
            if is_tracked(pod):
                self._release_one(pod)

    def _release_one(self, pod):
        """Take the Job's finalizer off a pod; another writer may be faster once."""
        namespace, name = key_of(pod)
        for _ in range(2):
            with suppress(Conflict, NotFound):
                latest = self._parts.store.get(POD_KIND, namespace, name)
                meta = copy.deepcopy(latest["metadata"])
                rest = [row for row in meta.pop("finalizers", ()) if row != TRACKING_FINALIZER]
                meta |= {"finalizers": rest} if rest else {}
                return self._parts.store.update({**latest, "metadata": meta})
        return pod

    def _counts(self, job, facts, *, active, terminating=None):
        status = status_copy(job)
        going = facts.terminating if terminating is None else terminating
        status |= {"terminating": len(going), "ready": facts.ready if active else 0}
        status.setdefault("uncountedTerminatedPods", {})
        status.pop("active", None)
        if active:
            status["active"] = active
        if facts.succeeded:
            status["succeeded"] = len(facts.succeeded)
            status["completedIndexes"] = format_indexes(facts.succeeded)
        return status

    def _write_counts(self, job, facts):
        if status_copy(job):
            self._write(job, self._counts(job, facts, active=len(facts.active)))

    def _say(self, status, name, reason, message, *, value="True"):
        row = {"type": name, "status": value, "reason": reason, "message": message}
        set_condition(status, row, self._parts.now_s)

    def _write(self, job, status):
        if status == job.get("status"):
            return job
        return self._parts.store.update({**job, "status": status}, subresource="status")

    def _record(self, job, severity, reason, message):
        self._parts.recorder.record(job, severity, reason, message, SOURCE)


def compose_pod(job, index):
    """The pod of one index, with what the Job controller adds to the template."""
    namespace, name = key_of(job)
    template = copy.deepcopy(job["spec"]["template"])
    meta, spec = template.get("metadata") or {}, template["spec"]
    base = f"{name}-{index}-"[:GENERATE_NAME_LENGTH_MAX]
    suffix = "".join(random.choices(RANDOM_LETTERS, k=RANDOM_LENGTH))  # noqa: S311 - a name
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        _add_index(container)
    spec.setdefault("hostname", f"{name}-{index}")
    return {
        "apiVersion": "v1",
        "kind": POD_KIND,
        "metadata": {
            "name": f"{base}{suffix}",
            "generateName": base,
            "namespace": namespace,
            "labels": {**_owner_labels(job), **(meta.get("labels") or {}), INDEX: str(index)},
            "annotations": {**(meta.get("annotations") or {}), INDEX: str(index)},
            "finalizers": [TRACKING_FINALIZER],
            "ownerReferences": [owner_reference(job)],
        },
        "spec": spec,
    }


def _owner_labels(job):
    uid, (_, name) = uid_of(job), key_of(job)
    rows = {"controller-uid": uid, "job-name": name}
    return {**rows, **{f"batch.kubernetes.io/{key}": value for key, value in rows.items()}}


def _add_index(container):
    env = container.setdefault("env", [])
    if all(row["name"] != "JOB_COMPLETION_INDEX" for row in env):
        source = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{INDEX}']"}
        env.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": source}})
