"""Composes the pods of a role: containers, volumes, resources, and the nodes that they accept.

The object has nothing that the programs of a job need: the launcher sends their commands and
variables to the wardens.  So its size does not depend on the number of replicas.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainshed.engines.kubernetes import mounts, names, security
from trainshed.engines.kubernetes.gpus import GpuRow, choose_row
from trainshed.engines.kubernetes.options import KubernetesOptions
from trainshed.engines.kubernetes.quantities import write_memory
from trainshed.engines.kubernetes.request import LAUNCHER_PORT, ManifestRequest, RoleRequest
from trainshed.engines.kubernetes.tolerations import Toleration
from trainshed.engines.warden.launcher_variables import LAUNCHER, SECRET
from trainshed.model.resources import Demand, FleetPolicy
from trainshed.model.roles import Role

#: The container of a replica, in every pod, and that of the launcher, in the primary's pod.
MAIN: Final = "main"
LAUNCHER_CONTAINER: Final = "launcher"
#: The key of the secret in the Secret of an attempt.
SECRET_KEY: Final = "secret"  # noqa: S105 - a name, no secret
#: The variable of a pod with the index of its replica in its role.
RANK_VARIABLE: Final = "JOB_COMPLETION_INDEX"
#: Seconds for which a pod may write its last records after the grace period of its programs.
RECORD_S: Final = 30
#: Seconds for which a warden dials after the time within which all pods must run.  Before, the
#: server ends the attempt and names the pods that do not run.
DIAL_SPARE_S: Final = 300
#: Turns off what other software would add to pods.  Istio reads the label, older versions and
#: Linkerd the annotation.
_OPT_OUTS: Final = {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled"}
#: Autoscalers must not end a pod to save a node: all replicas of the job would start again.
_KEEP_RUNNING: Final = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
_POD_UID: Final = "TRAINSHED_POD_UID"


def compose_pod(request: ManifestRequest, role: RoleRequest) -> dict[str, Any]:
    """Compose the template of the pods of a role.  Raises EngineFault for unknown GPUs."""
    labels = names.labels_of(request.installation, request.key, role.role)
    return {
        "metadata": {
            "labels": {**labels, **_OPT_OUTS},
            "annotations": {**request.annotations, **_OPT_OUTS, **_KEEP_RUNNING},
        },
        "spec": _compose_spec(request, role),
    }


def _compose_spec(request: ManifestRequest, role: RoleRequest) -> dict[str, Any]:
    options, row = request.options, _choose_gpu_row(request, role.demand)
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": math.ceil(options.grace_s_max) + RECORD_S,
        "priorityClassName": request.scheduling.priority_class,
        "runtimeClassName": row.runtime_class if row else "",
        "imagePullSecrets": [{"name": name} for name in options.image_pull_secrets],
        "securityContext": security.compose_pod_context(options.security, request.group),
        "nodeSelector": _compose_selector(request, row),
        "affinity": _compose_affinity(row),
        "tolerations": _compose_tolerations(options, row),
        "containers": list(_list_containers(request, role, row)),
        "volumes": mounts.list_volumes(request, role.role),
    }
    return {name: value for name, value in spec.items() if value not in ("", [], {})}


def _list_containers(
    request: ManifestRequest, role: RoleRequest, row: GpuRow | None
) -> Iterator[dict[str, Any]]:
    yield _compose_main(request, role, row)
    if role.role is Role.PRIMARY:
        yield _compose_launcher(request, role)


def _compose_main(
    request: ManifestRequest, role: RoleRequest, row: GpuRow | None
) -> dict[str, Any]:
    dial_s = str(math.ceil(request.options.start_timeout_s) + DIAL_SPARE_S)
    task = ["task", "--first", str(role.first), "--rank-variable", RANK_VARIABLE]
    container = {
        "name": MAIN,
        **_compose_image(request, role),
        "command": [*_compose_archive_command(request), *task, "--dial-s", dial_s],
        "env": [
            {"name": LAUNCHER, "value": _compose_address(request)},
            _compose_secret_env(request),
        ],
        "resources": _compose_resources(request.options, role.demand, row),
        "volumeMounts": mounts.list_main_mounts(request, role.role),
    }
    context = security.compose_main_context(request.options.security)
    return {**container, "securityContext": context} if context else container


def _compose_launcher(request: ManifestRequest, role: RoleRequest) -> dict[str, Any]:
    uid = {"name": _POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
    attempt = ["attempt", mounts.ATTEMPT, f"$({_POD_UID})"]
    return {
        "name": LAUNCHER_CONTAINER,
        **_compose_image(request, role),
        "command": [*_compose_archive_command(request), *attempt],
        "env": [uid, _compose_secret_env(request)],
        "resources": {"requests": _compose_least(request.options)},
        "securityContext": security.compose_launcher_context(request.user, request.group),
        "volumeMounts": mounts.list_launcher_mounts(request),
        # a launcher that cannot begin has no other place for its reason
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _compose_image(request: ManifestRequest, role: RoleRequest) -> dict[str, str]:
    policy = request.options.image_pull_policy
    image = {"image": role.image}
    return {**image, "imagePullPolicy": policy} if policy else image


def _compose_archive_command(request: ManifestRequest) -> list[str]:
    return [*request.start, request.archive]


def _compose_address(request: ManifestRequest) -> str:
    """Compose the address of the launcher for wardens, as in ``launcher_variables.LAUNCHER``."""
    name = names.name_of(request.installation, request.key)
    host = names.host_of(name, Role.PRIMARY, 0)
    return f"{host};{LAUNCHER_PORT};{names.dns_name_of(name, Role.PRIMARY, 0)};"


def _compose_secret_env(request: ManifestRequest) -> dict[str, Any]:
    name = names.name_of(request.installation, request.key)
    return {"name": SECRET, "valueFrom": {"secretKeyRef": {"name": name, "key": SECRET_KEY}}}


def _choose_gpu_row(request: ManifestRequest, demand: Demand) -> GpuRow | None:
    return choose_row(demand.gpu_type, request.gpus) if demand.gpu_count else None


def _compose_resources(
    options: KubernetesOptions, demand: Demand, row: GpuRow | None
) -> dict[str, dict[str, str]]:
    """Compose requests and limits; only memory and GPUs have limits."""
    requests, limits = _compose_least(options), {}
    if options.policy is FleetPolicy.EXACT and demand.vcpus:
        requests["cpu"] = str(demand.vcpus)
    if options.policy is FleetPolicy.EXACT and demand.memory_gb:
        requests["memory"] = limits["memory"] = write_memory(demand.memory_gb)
    if row is not None:
        requests[row.resource] = limits[row.resource] = str(demand.gpu_count)
    resources = {"requests": requests, "limits": limits}
    return {name: amounts for name, amounts in resources.items() if amounts}


def _compose_least(options: KubernetesOptions) -> dict[str, str]:
    """Compose the requests of a launcher, without amounts that the settings leave empty."""
    amounts = {"cpu": options.launcher_cpu, "memory": options.launcher_memory}
    return {name: amount for name, amount in amounts.items() if amount}


def _compose_selector(request: ManifestRequest, row: GpuRow | None) -> dict[str, str]:
    """Compose the labels of accepted nodes; the server's Python runs on its architecture alone."""
    selectors = row.selector.items() if row else ()
    return {
        **request.options.node_selector,
        **{label: values[0] for label, values in selectors if len(values) == 1},
        "kubernetes.io/arch": request.architecture,
    }


def _compose_affinity(row: GpuRow | None) -> dict[str, Any]:
    """Compose the labels of accepted nodes that may have several values."""
    selectors = row.selector.items() if row else ()
    expressions = [
        {"key": label, "operator": "In", "values": list(values)}
        for label, values in selectors
        if len(values) > 1
    ]
    if not expressions:
        return {}
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _compose_tolerations(options: KubernetesOptions, row: GpuRow | None) -> list[Mapping[str, Any]]:
    tolerations = (*options.tolerations, *(row.all_tolerations if row else ()))
    return [_compose_toleration(toleration) for toleration in dict.fromkeys(tolerations)]


def _compose_toleration(toleration: Toleration) -> Mapping[str, Any]:
    fields = {
        "key": toleration.key or None,
        "operator": "Exists" if toleration.value is None else "Equal",
        "value": toleration.value,
        "effect": toleration.effect or None,
        "tolerationSeconds": toleration.seconds,
    }
    return {name: value for name, value in fields.items() if value is not None}
