"""What the Job controller concludes from a Job and its pods; pure.

Only Indexed Jobs whose pods are never restarted.  A rule of a pod failure policy may fail the Job
or count the failure.
"""

from dataclasses import dataclass

from k8s.emulator.controllers.objects import (
    TRACKING_FINALIZER,
    find_condition,
    is_deleting,
    is_true,
    key_of,
    labels_of,
    seconds_of,
    status_of,
)

INDEX = "batch.kubernetes.io/job-completion-index"
FINAL_PHASES = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class JobFailure:
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class JobPods:
    """Pods of a Job, sorted by what they mean to it."""

    active: tuple
    ready: int
    terminating: tuple
    failed: tuple
    """Failures that the Job's status does not count yet."""
    succeeded: frozenset
    """Indexes."""
    missing: tuple
    """Indexes without a pod, and without success, that may have a pod now."""
    failure: JobFailure | None
    is_complete: bool


def is_job_finished(job):
    return is_true(job, "Complete") or is_true(job, "Failed")


def index_of(pod):
    return int(labels_of(pod)[INDEX])


def is_tracked(pod):
    return TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or ())


def observe_job(job, pods, now_s):
    spec = job["spec"]
    live = [pod for pod in pods if status_of(pod).get("phase") not in FINAL_PHASES]
    active = tuple(pod for pod in live if not is_deleting(pod))
    terminating = tuple(pod for pod in live if is_deleting(pod))
    failed = tuple(pod for pod in pods if is_tracked(pod) and _is_failure(job, pod))
    succeeded = _succeeded(job, pods)
    waits_for_end = () if _counts_terminating(job) else terminating
    taken = succeeded | {index_of(pod) for pod in (*active, *waits_for_end)}
    missing = [index for index in range(spec["completions"]) if index not in taken]
    room = max(0, spec["parallelism"] - len(active))
    return JobPods(
        active=active,
        ready=sum(is_true(pod, "Ready") for pod in active),
        terminating=terminating,
        failed=failed,
        succeeded=succeeded,
        missing=tuple(missing[:room]),
        failure=find_failure(job, failed, now_s),
        is_complete=len(succeeded) >= spec["completions"],
    )


def find_failure(job, failed, now_s):
    """Why a Job fails; what it has once told stays."""
    if target := find_condition(job, "FailureTarget"):
        return JobFailure(target["reason"], target["message"])
    if matched := match_pod_failure_policy(job, failed):
        return JobFailure("PodFailurePolicy", matched)
    if status_of(job).get("failed", 0) + len(failed) > job["spec"].get("backoffLimit", 6):
        reason = "BackoffLimitExceeded"
        return JobFailure(reason, "Job has reached the specified backoff limit")
    deadline_s = deadline_of(job)
    if deadline_s is not None and deadline_s <= now_s:
        return JobFailure("DeadlineExceeded", "Job was active longer than specified deadline")
    return None


def deadline_of(job):
    """When a Job has been active for too long, or None."""
    limit_s, start = job["spec"].get("activeDeadlineSeconds"), status_of(job).get("startTime")
    return None if limit_s is None or start is None else seconds_of(start) + limit_s


def match_pod_failure_policy(job, failed):
    """The message of the first pod that a rule fails the Job for, or None."""
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or ()
    for pod in failed:
        for number, rule in enumerate(rules):
            cause = _cause_in_conditions(rule, pod) or _cause_in_exits(rule, pod)
            if cause and rule["action"] == "FailJob":
                return f"{cause} matching FailJob rule at index {number}"
            if cause:
                break
    return None


def parse_indexes(text):
    """The indexes of ``0,2-4``."""
    pairs = [part.partition("-") for part in text.split(",") if part]
    ranges = [range(int(first), int(last or first) + 1) for first, _, last in pairs]
    return frozenset(index for indexes in ranges for index in indexes)


def format_indexes(indexes):
    """Write runs of three and more as the API does: ``0,2-4``, and two as ``0,1``."""
    runs = []
    for index in sorted(indexes):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs
    )


def _is_failure(job, pod):
    phase = status_of(pod).get("phase")
    going = is_deleting(pod) and phase != "Succeeded"
    return phase == "Failed" or (going and _counts_terminating(job))


def _counts_terminating(job):
    return job["spec"].get("podReplacementPolicy") != "Failed"


def _succeeded(job, pods):
    before = parse_indexes(status_of(job).get("completedIndexes", ""))
    return before | {index_of(pod) for pod in pods if status_of(pod).get("phase") == "Succeeded"}


def _cause_in_conditions(rule, pod):
    for wanted in rule.get("onPodConditions") or ():
        condition = find_condition(pod, wanted["type"])
        if condition and condition["status"] == wanted.get("status", "True"):
            return f"Pod {'/'.join(key_of(pod))} has condition {wanted['type']}"
    return None


def _cause_in_exits(rule, pod):
    wanted = rule.get("onExitCodes")
    if not wanted:
        return None
    for row in status_of(pod).get("containerStatuses") or ():
        code = (row["state"].get("terminated") or {}).get("exitCode", 0)
        is_named = wanted.get("containerName") in {None, row["name"]}
        if code and is_named and (code in wanted["values"]) == (wanted["operator"] == "In"):
            where = f"Container {row['name']} for pod {'/'.join(key_of(pod))}"
            return f"{where} failed with exit code {code}"
    return None
