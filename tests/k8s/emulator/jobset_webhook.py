"""JobSet's own admission webhooks: defaults of a new JobSet, and what they refuse."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .kinds import BY_KIND
from .names import SUBDOMAIN_TEXT, is_subdomain, list_1035_errors
from .statuses import FieldError, Invalid

VALIDATING = "vjobset.kb.io"
_JOB_NAME_MAX = 63
#: A pod's name has six characters more than its host name.
_POD_NAME_MAX = 57
_RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_JOB_FAILURES = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
#: A suspended JobSet may change these of a pod template.
_MUTABLE_IN_METADATA = ("labels", "annotations")
_MUTABLE_IN_SPEC = ("nodeSelector", "tolerations", "schedulingGates")
Spec = dict[str, Any]


def set_jobset_defaults(obj: dict[str, Any]) -> None:
    """What the mutating webhook adds to a new JobSet; quantities become strings."""
    spec = obj["spec"]
    spec.setdefault("successPolicy", {"operator": "All"})
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    if coordinator := spec.get("coordinator"):
        coordinator.setdefault("jobIndex", 0)
        coordinator.setdefault("podIndex", 0)
    for index, rule in enumerate(spec.get("failurePolicy", {}).get("rules", ())):
        rule.setdefault("name", f"failurePolicyRule{index}")
    for job in spec.get("replicatedJobs", ()):
        job_spec = job.setdefault("template", {}).setdefault("spec", {})
        job_spec.setdefault("completionMode", "Indexed")
        _set_pod_defaults(job_spec.setdefault("template", {}).setdefault("spec", {}))


def _set_pod_defaults(pod: Spec) -> None:
    pod.setdefault("restartPolicy", "OnFailure")
    pod.setdefault("containers", None)
    for container in (*(pod.get("initContainers") or ()), *(pod["containers"] or ())):
        if isinstance(container, dict):
            resources = container.setdefault("resources", {})
            for kind in ("limits", "requests"):
                write_quantities(resources.get(kind))


def write_quantities(amounts: Any) -> None:
    """Make numbers of a resource list texts, as Go's types write them."""
    for name, amount in (amounts or {}).items():
        if isinstance(amount, int):
            amounts[name] = str(amount)
        elif isinstance(amount, float):
            amounts[name] = f"{round(amount * 1000)}m"


def validate_new_jobset(obj: Mapping[str, Any]) -> None:
    """Raise Invalid for what the validating webhook refuses of a new JobSet."""
    errors = list(_list_errors(obj))
    if errors:
        raise Invalid(BY_KIND["JobSet"], obj["metadata"]["name"], errors, webhook=VALIDATING)


def validate_changed_jobset(obj: Mapping[str, Any], old: Mapping[str, Any]) -> None:
    """Raise Invalid where an update changes what a JobSet may not change."""
    is_suspended = bool(obj["spec"].get("suspend") or old["spec"].get("suspend"))
    new_jobs, old_jobs = obj["spec"]["replicatedJobs"], old["spec"]["replicatedJobs"]
    new_fixed, old_fixed = (
        [_copy_fixed(job, is_suspended=is_suspended) for job in jobs]
        for jobs in (new_jobs, old_jobs)
    )
    if new_fixed == old_fixed:
        return
    shown = [_order_job(job) for job in new_jobs]
    error = FieldError("spec.replicatedJobs", "FieldValueInvalid", "field is immutable", shown)
    raise Invalid(BY_KIND["JobSet"], obj["metadata"]["name"], [error], webhook=VALIDATING)


def _list_errors(obj: Mapping[str, Any]) -> Iterator[FieldError]:
    spec = obj["spec"]
    jobs = spec.get("replicatedJobs", [])
    roles = [job["name"] for job in jobs]
    yield from _check_subdomain(spec, obj["metadata"]["name"])
    for index, job in enumerate(jobs):
        yield from _check_names(obj["metadata"]["name"], index, job)
    for role in spec["successPolicy"].get("targetReplicatedJobs", ()):
        if role not in roles:
            yield _refuse(
                f"invalid replicatedJob name '{role}' does not appear in .spec.ReplicatedJobs"
            )
    for rule in spec.get("failurePolicy", {}).get("rules", ()):
        yield from _check_rule(rule, roles)
    coordinator = spec.get("coordinator")
    if coordinator and coordinator["replicatedJob"] not in roles:
        yield _refuse(f"coordinator replicatedJob {coordinator['replicatedJob']} does not exist")


def _check_subdomain(spec: Spec, name: str) -> Iterator[FieldError]:
    subdomain = spec["network"].get("subdomain", "")
    path = "spec.network.subdomain"
    if not subdomain:
        return
    if not is_subdomain(subdomain):
        yield FieldError(path, "FieldValueInvalid", SUBDOMAIN_TEXT, subdomain)
    for text in list_1035_errors(subdomain):
        # a subdomain that is the JobSet's name is too long only as part of its Jobs' names
        if subdomain != name or "63" not in text:
            yield FieldError(path, "FieldValueInvalid", text, subdomain)


def _check_names(name: str, index: int, job: Spec) -> Iterator[FieldError]:
    path = f"spec.replicatedJobs[{index}].name"
    last_job = max(job.get("replicas", 1) - 1, 0)
    job_name = f"{name}-{job['name']}-{last_job}"
    job_spec = job["template"]["spec"]
    for text in list_1035_errors(job_name):
        detail = _say_too_long("job") if "63" in text else text
        yield FieldError(path, "FieldValueInvalid", detail, job_name)
    if job_spec.get("completionMode") != "Indexed":
        return
    last = max(job_spec.get("completions", job_spec.get("parallelism", 1)) - 1, 0)
    if len(f"{job_name}-{last}") > _POD_NAME_MAX:
        yield FieldError(path, "FieldValueInvalid", _say_too_long("pod"), job_name)
    elif list_1035_errors(job_name):
        yield FieldError(path, "FieldValueInvalid", list_1035_errors(job_name)[0], job_name)


def _say_too_long(kind: str) -> str:
    return (
        f"JobSet name is too long, {kind} names generated for this JobSet will exceed 63 characters"
    )


def _check_rule(rule: Spec, roles: list[str]) -> Iterator[FieldError]:
    if rule["action"].startswith("RestartJob") and not rule["action"].startswith("RestartJobSet"):
        yield _refuse(
            "RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are not allowed "
            "when RestartJob feature gate is disabled"
        )
    if not _RULE_NAME.fullmatch(rule["name"]):
        yield _refuse(
            f"invalid failure policy rule name '{rule['name']}', a failure policy rule name must "
            "start with an alphabetic character, optionally followed by a string of alphanumeric "
            "characters or '_,:', and must end with an alphanumeric character or '_'"
        )
    for role in rule.get("targetReplicatedJobs", ()):
        if role not in roles:
            yield _refuse(
                f"invalid replicatedJob name '{role}' in failure policy does not appear in "
                ".spec.ReplicatedJobs"
            )
    for reason in rule.get("onJobFailureReasons", ()):
        if reason not in _JOB_FAILURES:
            yield _refuse(
                f"invalid job failure reason '{reason}' in failure policy is not a recognized job "
                "failure reason"
            )


def _refuse(text: str) -> FieldError:
    return FieldError("<nil>", "InternalError", text)


def _copy_fixed(job: Spec, *, is_suspended: bool) -> Spec:
    template = job["template"]["spec"]["template"]
    metadata, spec = dict(template.get("metadata") or {}), dict(template["spec"])
    spec["containers"] = [_copy_container(container) for container in spec["containers"]]
    if is_suspended:
        for name in _MUTABLE_IN_METADATA:
            metadata.pop(name, None)
        for name in _MUTABLE_IN_SPEC:
            spec.pop(name, None)
    job_spec = {**job["template"]["spec"], "template": {"metadata": metadata, "spec": spec}}
    return {**job, "template": {**job["template"], "spec": job_spec}}


def _copy_container(container: Spec) -> Spec:
    """With quantities as texts: a number and its text are one value."""
    resources = {
        kind: {name: str(amount) for name, amount in amounts.items()}
        for kind, amounts in container.get("resources", {}).items()
        if isinstance(amounts, dict)
    }
    return {**container, "resources": resources}


#: Go writes the fields of a type in the order of its definition; the refusal shows them so.
_ORDERS: Mapping[str, tuple[str, ...]] = {
    "job": ("name", "groupName", "template", "replicas", "dependsOn"),
    "template": ("metadata", "spec"),
    "job_spec": (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "podFailurePolicy",
        "successPolicy",
        "backoffLimit",
        "selector",
        "template",
        "ttlSecondsAfterFinished",
        "completionMode",
        "suspend",
    ),
    "pod_spec": (
        "volumes",
        "initContainers",
        "containers",
        "restartPolicy",
        "terminationGracePeriodSeconds",
        "activeDeadlineSeconds",
        "dnsPolicy",
        "nodeSelector",
        "serviceAccountName",
        "automountServiceAccountToken",
        "securityContext",
        "imagePullSecrets",
        "subdomain",
        "schedulerName",
        "tolerations",
        "priorityClassName",
        "enableServiceLinks",
    ),
    "container": (
        "name",
        "image",
        "command",
        "args",
        "workingDir",
        "ports",
        "env",
        "resources",
        "volumeMounts",
        "imagePullPolicy",
        "securityContext",
    ),
}


def _order(kind: str, value: Spec) -> Spec:
    names = [name for name in _ORDERS[kind] if name in value]
    return {name: value[name] for name in (*names, *(n for n in value if n not in names))}


def _order_job(job: Spec) -> Spec:
    job_spec = job["template"]["spec"]
    pod = job_spec["template"]
    containers = [
        _order("container", _copy_container(container)) for container in pod["spec"]["containers"]
    ]
    pod_spec = _order("pod_spec", {**pod["spec"], "containers": containers})
    pod = _order("template", {**_sort_labels(pod), "spec": pod_spec})
    job_spec = _order("job_spec", {**job_spec, "template": pod})
    template = _order("template", {**_sort_labels(job["template"]), "spec": job_spec})
    return _order("job", {**job, "template": template})


def _sort_labels(template: Spec) -> Spec:
    metadata = dict(template.get("metadata") or {})
    for name in _MUTABLE_IN_METADATA:
        if name in metadata:
            metadata[name] = dict(sorted(metadata[name].items()))
    return {**template, "metadata": metadata}
