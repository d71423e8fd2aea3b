"""The JobSet controller: Jobs and a Service for a JobSet, and its end by success or failure."""

from contextlib import suppress

from k8s.emulator.controllers.jobset_plan import (
    REPLICATED_JOB,
    are_all_ready,
    compose_jobs,
    compose_service,
    count_jobs,
    decide_failure,
    find_first_failed,
    is_current,
    is_jobset_finished,
    is_successful,
    merge_admission,
    needs_deletion,
    restarts_of,
)
from k8s.emulator.controllers.objects import (
    JOB_KIND,
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
from k8s.emulator.statuses import AlreadyExists, ApiError, NotFound

SOURCE = "jobset"
RESTARTING = "RestartingJobSet"
SUSPENDED = {
    True: ("SuspendedJobs", "jobset is suspended"),
    False: ("ResumeJobs", "jobset is resumed"),
}
CREATE_RETRY_S = 1.0


class JobSetController:
    """Writes a JobSet's status once a pass, then its events."""

    def __init__(self, parts):
        self._parts = parts

    def keys_of(self, _change, obj):
        if obj["kind"] == JOBSET_KIND:
            yield key_of(obj), 0.0
        elif obj["kind"] in {JOB_KIND, "Service"}:
            for owner in obj["metadata"].get("ownerReferences") or ():
                if owner["kind"] == JOBSET_KIND:
                    yield (obj["metadata"]["namespace"], owner["name"]), 0.0

    def reconcile(self, key):
        jobset = self._parts.cache.get(JOBSET_KIND, key)
        if jobset is None or is_deleting(jobset):
            return
        jobs = self._parts.cache.owned_by(jobset, JOB_KIND)
        current = [job for job in jobs if is_current(jobset, job)]
        if is_jobset_finished(jobset):
            self._clean(jobset, current)
        elif failed := find_first_failed(current):
            self._fail(jobset, current, decide_failure(jobset, failed))
        elif is_successful(jobset, current):
            self._complete(jobset, current)
        else:
            self._run(jobset, jobs, current)

    def _clean(self, jobset, jobs):
        """Delete what is still active; finished Jobs stay with their pods."""
        self._write(jobset, jobs, status_copy(jobset))
        self._delete(job for job in jobs if needs_deletion(job))

    def _complete(self, jobset, jobs):
        status = status_copy(jobset) | {"terminalState": "Completed"}
        message = "jobset completed successfully"
        was_restarting = find_condition(jobset, RESTARTING) is not None
        if was_restarting:
            self._say(status, RESTARTING, "JobSetCompleted", message, value="False")
        self._say(status, "Completed", "AllJobsCompleted", message)
        jobset = self._write(jobset, jobs, status)
        self._record(jobset, NORMAL, "AllJobsCompleted", message)
        if was_restarting:
            self._record(jobset, NORMAL, "JobSetCompleted", message)

    def _fail(self, jobset, jobs, action):
        status = status_copy(jobset)
        if action.is_restart:
            self._restart(jobset, jobs, status, action)
            return
        was_restarting = find_condition(jobset, RESTARTING) is not None
        if was_restarting:
            self._say(status, RESTARTING, "JobSetFailed", "jobset failed", value="False")
        self._say(status, "Failed", action.reason, action.message)
        jobset = self._write(jobset, jobs, status | {"terminalState": "Failed"})
        self._record(jobset, WARNING, action.reason, action.message)
        if was_restarting:
            self._record(jobset, NORMAL, "JobSetFailed", "jobset failed")

    def _restart(self, jobset, jobs, status, action):
        status["restarts"] = restarts_of(jobset) + 1
        if action.is_counted:
            status["restartsCountTowardsMax"] = status.get("restartsCountTowardsMax", 0) + 1
        self._say(status, RESTARTING, action.reason, action.message)
        jobset = self._write(jobset, jobs, status)
        self._record(jobset, WARNING, action.event, action.message)
        self._record(jobset, WARNING, action.reason, action.message)

    def _run(self, jobset, jobs, current):
        self._delete(job for job in jobs if not is_current(jobset, job) and not is_deleting(job))
        for job in current:
            self._set_suspended(jobset, job)
        self._create_missing(jobset, jobs)
        status = status_copy(jobset)
        status.setdefault("restarts", 0)
        news = [
            self._note_suspension(jobset, status),
            self._note_readiness(status, jobset, current),
        ]
        jobset = self._write(jobset, current, status)
        for reason, message in filter(None, news):
            self._record(jobset, NORMAL, reason, message)

    def _note_suspension(self, jobset, status):
        is_suspended = bool(jobset["spec"].get("suspend"))
        if is_suspended == is_true(jobset, "Suspended"):
            return None
        words = SUSPENDED[is_suspended]
        self._say(status, "Suspended", *words, value=str(is_suspended))
        return words

    def _note_readiness(self, status, jobset, current):
        words = ("JobsReady", "all jobs are ready")
        if not is_true(jobset, RESTARTING):
            return None
        if not are_all_ready(jobset, count_jobs(jobset, current)):
            return None
        self._say(status, RESTARTING, *words, value="False")
        return words

    def _set_suspended(self, jobset, job):
        """Suspend or resume a Job; its pod template follows the JobSet's when it starts."""
        wanted = bool(jobset["spec"].get("suspend"))
        if bool(job["spec"].get("suspend")) == wanted or is_deleting(job):
            return
        spec = {**job["spec"], "suspend": wanted}
        if not wanted:
            roles = jobset["spec"]["replicatedJobs"]
            role = next(row for row in roles if row["name"] == labels_of(job)[REPLICATED_JOB])
            spec["template"] = merge_admission(job, role["template"])
        self._parts.store.update({**job, "spec": spec})

    def _create_missing(self, jobset, jobs):
        if (jobset["spec"].get("network") or {}).get("enableDNSHostnames", True):
            service = compose_service(jobset)
            if self._parts.cache.get("Service", key_of(service)) is None:
                self._parts.store.create(service)
        names = {key_of(job) for job in jobs}
        for job in compose_jobs(jobset):
            if key_of(job) not in names:
                self._create_job(jobset, job)

    def _create_job(self, jobset, job):
        try:
            self._parts.store.create(job)
        except AlreadyExists:
            pass
        except ApiError as error:
            name = key_of(job)[1]
            message = f'job "{name}" creation failed with error: {error}'
            self._record(jobset, WARNING, "JobCreationFailed", message)
            self._parts.loop.wake(self, key_of(jobset), CREATE_RETRY_S)

    def _delete(self, jobs):
        for job in jobs:
            with suppress(NotFound):
                namespace, name = key_of(job)
                self._parts.store.delete(
                    JOB_KIND, namespace, name, uid=uid_of(job), propagation="Foreground"
                )

    def _say(self, status, name, reason, message, *, value="True"):
        row = {"type": name, "status": value, "reason": reason, "message": message}
        set_condition(status, row, self._parts.now_s)

    def _write(self, jobset, jobs, status):
        """Write the status if it changes; the store's answer, or the JobSet as it was."""
        status["replicatedJobsStatus"] = count_jobs({**jobset, "status": status}, jobs)
        if status == jobset.get("status"):
            return jobset
        return self._parts.store.update({**jobset, "status": status}, subresource="status")

    def _record(self, jobset, severity, reason, message):
        self._parts.recorder.record(jobset, severity, reason, message, SOURCE)
