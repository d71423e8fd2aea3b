"""Fields that the API server fills in on its own for core kinds: pods, Jobs, Services, Secrets."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from .jobset_webhook import write_quantities

Body = dict[str, Any]
#: Seconds that a pod tolerates a silent node before it is deleted.
TOLERATION_S = 300
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_MODES = ("secret", "configMap", "projected", "downwardAPI")
_DEFAULT_MODE = 420


def set_core_defaults(obj: Body) -> None:
    """Fill in what a new object of a core kind lacks."""
    if setter := _SETTERS.get(obj["kind"]):
        setter(obj)


def _set_pod(obj: Body) -> None:
    spec = obj["spec"]
    set_template_defaults(spec)
    spec.setdefault("serviceAccountName", "default")
    spec["serviceAccount"] = spec["serviceAccountName"]
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    for container in list_containers(spec):
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    _set_tolerations(spec)
    obj["status"] = {"phase": "Pending", "qosClass": compute_qos_class(spec)}


def _set_tolerations(spec: Body) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for key in _TAINTS:
        if not any(row.get("key") in (key, None) for row in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": TOLERATION_S,
                }
            )


def set_template_defaults(spec: Body) -> None:
    """Defaults of a pod's spec that a Job's template has too."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for container in list_containers(spec):
        _set_container(container)
    for volume in spec.get("volumes") or ():
        for kind in _MODES:
            if isinstance(volume.get(kind), dict):
                volume[kind].setdefault("defaultMode", _DEFAULT_MODE)


def list_containers(spec: Mapping[str, Any]) -> list[Body]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _set_container(container: Body) -> None:
    container.setdefault("resources", {})
    for kind in ("limits", "requests"):
        write_quantities(container["resources"].get(kind))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = container.get("image") or ""
    tag = image.rpartition("/")[2].partition(":")[2] or "latest"
    is_latest = tag == "latest" and "@" not in image
    container.setdefault("imagePullPolicy", "Always" if is_latest else "IfNotPresent")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        if field := (variable.get("valueFrom") or {}).get("fieldRef"):
            field.setdefault("apiVersion", "v1")


def compute_qos_class(spec: Mapping[str, Any]) -> str:
    containers = list_containers(spec)
    needs = [container.get("resources", {}) for container in containers]
    names = ("cpu", "memory")
    is_best_effort = not any(
        name in need.get(kind, {})
        for need in needs
        for kind in ("limits", "requests")
        for name in names
    )
    if is_best_effort:
        return "BestEffort"
    is_guaranteed = all(
        name in need.get("limits", {}) and need["limits"][name] == need["requests"][name]
        for need in needs
        for name in names
    )
    return "Guaranteed" if is_guaranteed else "Burstable"


def _set_job(obj: Body) -> None:
    spec, uid, name = obj["spec"], obj["metadata"]["uid"], obj["metadata"]["name"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    policy = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", policy)
    template = spec.setdefault("template", {})
    metadata = template.setdefault("metadata", {})
    labels = metadata.setdefault("labels", {})
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)
    if not spec["manualSelector"]:
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        labels["batch.kubernetes.io/controller-uid"] = labels["controller-uid"] = uid
        labels["batch.kubernetes.io/job-name"] = labels["job-name"] = name
    set_template_defaults(template.setdefault("spec", {}))
    obj["status"] = {}


def _set_service(obj: Body) -> None:
    spec = obj["spec"]
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if address := spec.get("clusterIP"):
        spec["clusterIPs"] = [address]
    obj["status"] = {"loadBalancer": {}}


def _set_secret(obj: Body) -> None:
    obj.setdefault("type", "Opaque")
    texts = obj.pop("stringData", None) or {}
    if texts:
        data = obj.setdefault("data", {})
        data.update({k: base64.b64encode(v.encode()).decode() for k, v in texts.items()})


def _set_claim(obj: Body) -> None:
    obj["spec"].setdefault("volumeMode", "Filesystem")
    obj["status"] = {"phase": "Pending"}


def _set_runtime_status(obj: Body) -> None:
    obj.setdefault("status", {})


_SETTERS: Mapping[str, Callable[[Body], None]] = {
    "Job": _set_job,
    "Node": _set_runtime_status,
    "PersistentVolumeClaim": _set_claim,
    "Pod": _set_pod,
    "ResourceQuota": _set_runtime_status,
    "Secret": _set_secret,
    "Service": _set_service,
}
