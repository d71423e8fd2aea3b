"""Composes the Secret and the JobSet of an attempt from a request."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from trainshed.engines.kubernetes import names, paths
from trainshed.engines.kubernetes.pod import SECRET_KEY, compose_pod
from trainshed.engines.kubernetes.request import ManifestRequest, RoleRequest
from trainshed.model.roles import Role

JOBSET_VERSION: Final = f"{paths.JOBSET}/{paths.JOBSET_VERSION}"
JOBSET: Final = "JobSet"
#: The labels of Kueue with the names of a LocalQueue and a WorkloadPriorityClass.
QUEUE: Final = "kueue.x-k8s.io/queue-name"
WORKLOAD_PRIORITY_CLASS: Final = "kueue.x-k8s.io/priority-class"


def compose_secret(request: ManifestRequest, secret: str) -> dict[str, Any]:
    """Compose the Secret of an attempt; the result must not be printed or stored."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _compose_metadata(request),
        "type": "Opaque",
        "immutable": True,
        "data": {SECRET_KEY: base64.b64encode(secret.encode()).decode()},
    }


def compose_owner_patch(jobset: Mapping[str, Any]) -> dict[str, Any]:
    """Compose the merge patch of a Secret that makes the cluster delete it with its JobSet.

    ``jobset`` is the object as the API answered.
    """
    owner = {
        "apiVersion": JOBSET_VERSION,
        "kind": JOBSET,
        "name": jobset["metadata"]["name"],
        "uid": jobset["metadata"]["uid"],
    }
    return {"metadata": {"ownerReferences": [owner]}}


def compose_deletion(uid: str) -> dict[str, Any]:
    """Compose the options that delete an object, and its dependents first, if it has this uid."""
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": uid},
    }


def compose_jobset(request: ManifestRequest) -> dict[str, Any]:
    """Compose the JobSet of an attempt.

    Raises EngineFault for names that are too long, GPUs that the cluster does not have and bad
    names of buckets; UsageFault for a bad installation.
    """
    return {
        "apiVersion": JOBSET_VERSION,
        "kind": JOBSET,
        "metadata": _compose_jobset_metadata(request),
        "spec": _compose_spec(request),
    }


def _compose_jobset_metadata(request: ManifestRequest) -> dict[str, Any]:
    scheduling = request.scheduling
    metadata = {**_compose_metadata(request), "annotations": request.annotations}
    if scheduling.queue:
        metadata["labels"][QUEUE] = scheduling.queue
        if scheduling.workload_priority_class:
            metadata["labels"][WORKLOAD_PRIORITY_CLASS] = scheduling.workload_priority_class
    return metadata


def _compose_metadata(request: ManifestRequest) -> dict[str, Any]:
    return {
        "name": names.name_of(request.installation, request.key),
        "labels": names.labels_of(request.installation, request.key),
    }


def _compose_spec(request: ManifestRequest) -> dict[str, Any]:
    primary = names.JOB_NAMES[Role.PRIMARY]
    spec = {
        "network": {
            "enableDNSHostnames": True,
            "subdomain": names.name_of(request.installation, request.key),
            "publishNotReadyAddresses": True,
        },
        "successPolicy": {"operator": "All", "targetReplicatedJobs": [primary]},
        "failurePolicy": {"maxRestarts": 0},
        "replicatedJobs": [_compose_job(request, role) for role in request.roles],
    }
    # suspended from the first write: otherwise pods could start before Kueue has the JobSet
    return {"suspend": True, **spec} if request.scheduling.queue else spec


def _compose_job(request: ManifestRequest, role: RoleRequest) -> dict[str, Any]:
    """Compose the one Job of a role, whose pods are its replicas."""
    name = names.name_of(request.installation, request.key)
    names.check_replica_names(name, role.role, role.count)
    spec: dict[str, Any] = {
        "completionMode": "Indexed",
        "parallelism": role.count,
        "completions": role.count,
        "backoffLimit": 0,
        "template": compose_pod(request, role),
    }
    if request.deadline_s is not None:
        spec["activeDeadlineSeconds"] = request.deadline_s
    labels = names.labels_of(request.installation, request.key, role.role)
    return {
        "name": names.JOB_NAMES[role.role],
        "replicas": 1,
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }
