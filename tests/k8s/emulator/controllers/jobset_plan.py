"""What the JobSet controller concludes from a JobSet and its Jobs; pure."""

import copy
import hashlib
import re
from dataclasses import dataclass

from k8s.emulator.controllers.job_plan import is_job_finished
from k8s.emulator.controllers.objects import (
    find_condition,
    is_true,
    key_of,
    labels_of,
    owner_reference,
    status_of,
    uid_of,
)

PREFIX = "jobset.sigs.k8s.io"
RESTART, REPLICATED_JOB = f"{PREFIX}/restart-attempt", f"{PREFIX}/replicatedjob-name"


@dataclass(frozen=True, slots=True)
class FailureAction:
    """What a failed Job leads to; ``is_counted`` says whether a restart counts to maxRestarts."""

    is_restart: bool
    reason: str
    message: str
    event: str = ""
    is_counted: bool = True


def is_jobset_finished(jobset):
    return is_true(jobset, "Completed") or is_true(jobset, "Failed")


def restarts_of(jobset):
    return status_of(jobset).get("restarts", 0)


def is_current(jobset, job):
    return labels_of(job)[RESTART] == str(restarts_of(jobset))


def count_jobs(jobset, jobs):
    """The rows of ``replicatedJobsStatus``: counts of Jobs, not of pods."""
    rows = []
    for role in jobset["spec"]["replicatedJobs"]:
        own = [job for job in jobs if labels_of(job)[REPLICATED_JOB] == role["name"]]
        rows.append({"name": role["name"], **_count_role(own)})
    return sorted(rows, key=lambda row: row["name"], reverse=True)


def _count_role(jobs):
    counts = dict.fromkeys(("active", "failed", "ready", "succeeded", "suspended"), 0)
    for job in jobs:
        status = status_of(job)
        if is_true(job, "Failed"):
            counts["failed"] += 1
        elif is_true(job, "Complete"):
            counts["succeeded"] += 1
        else:
            pods = status.get("ready", 0) + status.get("succeeded", 0)
            counts["active"] += status.get("active", 0) > 0
            counts["ready"] += pods == job["spec"]["parallelism"]
            counts["suspended"] += bool(job["spec"].get("suspend"))
    return counts


def is_successful(jobset, jobs):
    policy = jobset["spec"].get("successPolicy") or {"operator": "All"}
    targets = policy.get("targetReplicatedJobs") or [
        role["name"] for role in jobset["spec"]["replicatedJobs"]
    ]
    own = [job for job in jobs if labels_of(job)[REPLICATED_JOB] in targets]
    complete = [is_true(job, "Complete") for job in own]
    if policy["operator"] == "Any":
        return any(complete)
    wanted = sum(
        role["replicas"] for role in jobset["spec"]["replicatedJobs"] if role["name"] in targets
    )
    return sum(complete) == wanted


def are_all_ready(jobset, rows):
    replicas = {role["name"]: role["replicas"] for role in jobset["spec"]["replicatedJobs"]}
    return all(row["ready"] + row["succeeded"] >= replicas[row["name"]] for row in rows)


def find_first_failed(jobs):
    failed = [job for job in jobs if is_true(job, "Failed")]
    since = [(find_condition(job, "Failed")["lastTransitionTime"], key_of(job)) for job in failed]
    return failed[since.index(min(since))] if failed else None


def decide_failure(jobset, job):
    """Apply the failure policy to the first failed Job."""
    name = f"(first failed job: {key_of(job)[1]})"
    policy = jobset["spec"].get("failurePolicy")
    if policy is None:
        message = f"jobset failed due to one or more job failures {name}"
        return FailureAction(False, "FailedJobs", message)
    rule = _matching_rule(policy, job)
    action = rule["action"] if rule else "RestartJobSet"
    message = f"applying {action} failure policy action {name}"
    if action == "FailJobSet":
        return FailureAction(False, "FailJobSetFailurePolicyAction", message)
    is_counted = action == "RestartJobSet"
    counted = status_of(jobset).get("restartsCountTowardsMax", 0)
    if is_counted and counted >= policy.get("maxRestarts", 0):
        message = f"jobset failed due to reaching max number of restarts {name}"
        return FailureAction(False, "ReachedMaxRestarts", message)
    reason = f"FailurePolicy_{rule['name']}" if rule else "DefaultFailurePolicy"
    return FailureAction(True, reason, message, f"{action}FailurePolicyAction", is_counted)


def _matching_rule(policy, job):
    condition = find_condition(job, "Failed")
    role = labels_of(job)[REPLICATED_JOB]
    for rule in policy.get("rules") or ():
        reasons = rule.get("onJobFailureReasons") or [condition["reason"]]
        patterns = rule.get("onJobFailureMessagePatterns") or [".*"]
        roles = rule.get("targetReplicatedJobs") or [role]
        is_match = any(_matches(pattern, condition["message"]) for pattern in patterns)
        if condition["reason"] in reasons and role in roles and is_match:
            return rule
    return None


def _matches(pattern, message):
    """A pattern that is no expression matches nothing, as it does in a cluster."""
    try:
        return re.match(pattern, message) is not None
    except re.error:
        return False


def needs_deletion(job):
    return not is_job_finished(job) and "deletionTimestamp" not in job["metadata"]


def compose_jobs(jobset):
    """The Jobs of the current run, in the order of the JobSet."""
    roles = jobset["spec"]["replicatedJobs"]
    numbers = [(role, index) for role in roles for index in range(role["replicas"])]
    return [_compose_job(jobset, role, index, at) for at, (role, index) in enumerate(numbers)]


def subdomain_of(jobset):
    network = jobset["spec"].get("network") or {}
    return network.get("subdomain") or key_of(jobset)[1]


def compose_service(jobset):
    """The headless Service that gives pods their names."""
    namespace, name = key_of(jobset)
    network = jobset["spec"].get("network") or {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": subdomain_of(jobset),
            "namespace": namespace,
            "ownerReferences": [owner_reference(jobset)],
        },
        "spec": {
            "selector": {f"{PREFIX}/jobset-name": name},
            "clusterIP": "None",
            "clusterIPs": ["None"],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True),
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    }


def merge_admission(job, role_template):
    """A suspended Job's pod template with what may change before it starts."""
    template = copy.deepcopy(job["spec"]["template"])
    wanted = role_template["spec"]["template"]
    for part in ("labels", "annotations"):
        own = {k: v for k, v in template["metadata"].get(part, {}).items() if _is_own(k)}
        template["metadata"][part] = {**own, **(wanted.get("metadata", {}).get(part) or {})}
    for field in ("nodeSelector", "tolerations", "schedulingGates"):
        template["spec"].pop(field, None)
        if value := wanted["spec"].get(field):
            template["spec"][field] = copy.deepcopy(value)
    return template


def _is_own(label):
    return label.startswith((f"{PREFIX}/", "batch.kubernetes.io/")) or label in {
        "controller-uid",
        "job-name",
    }


def _compose_job(jobset, role, index, global_index):
    namespace, name = key_of(jobset)
    job_name = f"{name}-{role['name']}-{index}"
    marks = _marks(jobset, role, index, global_index, f"{namespace}/{job_name}")
    template = copy.deepcopy(role["template"])
    meta, spec = template.get("metadata") or {}, template["spec"]
    pod = spec["template"]
    pod_meta = pod.setdefault("metadata", {})
    for part in ("labels", "annotations"):
        pod_meta[part] = {**(pod_meta.get(part) or {}), **marks}
    pod_meta["labels"] |= {"job-name": job_name, "batch.kubernetes.io/job-name": job_name}
    if (jobset["spec"].get("network") or {}).get("enableDNSHostnames", True):
        pod["spec"].setdefault("subdomain", subdomain_of(jobset))
    _set_job_defaults(spec, is_suspended=bool(jobset["spec"].get("suspend")))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name,
            "namespace": namespace,
            "labels": {**(meta.get("labels") or {}), **marks},
            "annotations": {**(meta.get("annotations") or {}), **marks},
            "ownerReferences": [owner_reference(jobset)],
        },
        "spec": spec,
        "status": {},
    }


def _set_job_defaults(spec, *, is_suspended):
    policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    spec.setdefault("completionMode", "Indexed")
    spec.setdefault("parallelism", 1)
    spec.setdefault("completions", spec["parallelism"])
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("podReplacementPolicy", policy)
    spec["suspend"] = is_suspended


def _marks(jobset, role, index, global_index, job_key):
    """Labels, and annotations of the same names, of a Job and its pods."""
    roles = jobset["spec"]["replicatedJobs"]
    total = str(sum(row["replicas"] for row in roles))
    rows = {
        "global-replicas": total,
        "group-name": role.get("groupName", "default"),
        "group-replicas": total,
        "job-global-index": str(global_index),
        "job-group-index": str(global_index),
        "job-index": str(index),
        "job-key": hashlib.sha1(job_key.encode(), usedforsecurity=False).hexdigest(),
        "jobset-name": key_of(jobset)[1],
        "jobset-uid": uid_of(jobset),
        "replicatedjob-name": role["name"],
        "replicatedjob-replicas": str(role["replicas"]),
        "restart-attempt": str(restarts_of(jobset)),
    }
    if at := jobset["spec"].get("coordinator"):
        job = f"{key_of(jobset)[1]}-{at['replicatedJob']}-{at.get('jobIndex', 0)}"
        rows["coordinator"] = f"{job}-{at.get('podIndex', 0)}.{subdomain_of(jobset)}"
    return {f"{PREFIX}/{name}": value for name, value in rows.items()}
