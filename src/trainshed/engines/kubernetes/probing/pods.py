"""Composes the JobSet of a probe: that of a job with two replicas, and other programs.

So the probe meets whatever keeps jobs from starting: the queue, the quota, policies, the nodes'
labels, the image, the claim.  Its labels differ, so no server takes it for an attempt.
"""

import inspect
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from trainshed.engines.kubernetes import manifest, mounts, names
from trainshed.engines.kubernetes.options import KubernetesOptions, choose_scheduling
from trainshed.engines.kubernetes.pod import LAUNCHER_CONTAINER
from trainshed.engines.kubernetes.probing import task
from trainshed.engines.kubernetes.request import ManifestRequest, PodRuntime, RoleRequest
from trainshed.model.attempt import AttemptKey
from trainshed.model.resources import Demand
from trainshed.model.roles import Role

#: The label of the objects of a probe, with its name.
PROBE: Final = "trainshed.dev/probe"
#: The containers of a probe: those of the replicas, and the launcher's in the primary's pod.
PRIMARY, LAUNCHER, WORKER = "primary", "launcher", "worker"
CONTAINERS: Final = (PRIMARY, LAUNCHER, WORKER)
#: Seconds after which the cluster ends the pods of a probe whose program was killed, and deletes
#: the JobSet of one that has ended.
_DEADLINE_S: Final = 900
_LEFT_S: Final = 120
_GRACE_S: Final = 1
#: The attempt in whose place the probe runs; no job has the uid 0.
_KEY: Final = AttemptKey(0, 1)


class ProbeTarget(NamedTuple):
    """The engine that is probed."""

    options: KubernetesOptions
    installation: str
    namespace: str
    runtime: PodRuntime


def compose_probe(target: ProbeTarget, name: str) -> dict[str, Any]:
    """Compose the JobSet of a probe.  ``name`` is its name and that of its folder in the spool.

    Raises UsageFault for settings that no job could use.
    """
    request = _compose_request(target)
    jobset = manifest.compose_jobset(request)
    jobset["metadata"]["name"] = name
    jobset["metadata"]["labels"] = _replace_labels(jobset["metadata"]["labels"], name)
    spec = jobset["spec"]
    spec["network"]["subdomain"] = name
    spec["successPolicy"] = {"operator": "All"}
    spec["ttlSecondsAfterFinished"] = _LEFT_S
    for job in spec["replicatedJobs"]:
        _change_job(job["template"], job["name"], request, name)
    return jobset


def folder_of(installation: str, name: str) -> str:
    """Return the path in the claim of the folder of a probe."""
    return f"{installation}/{name}"


def _compose_request(target: ProbeTarget) -> ManifestRequest:
    options, runtime = target.options, target.runtime
    roles = tuple(
        RoleRequest(role=role, first=first, count=1, image=options.probe_image, demand=Demand())
        for first, role in enumerate((Role.PRIMARY, Role.WORKER))
    )
    return ManifestRequest(
        key=_KEY,
        job_id="probe",
        project="",
        installation=target.installation,
        roles=roles,
        start=runtime.start,
        archive=runtime.archive,
        options=options,
        user=runtime.user,
        group=runtime.group,
        architecture=runtime.architecture,
        scheduling=choose_scheduling({}, "", options),
        deadline_s=_DEADLINE_S,
    )


def _replace_labels(labels: Mapping[str, str], name: str) -> dict[str, str]:
    """Return labels without those that name an attempt, and with that of the probe."""
    own = (names.INSTALLATION, names.JOB, names.ATTEMPT, names.ROLE)
    return {**{key: text for key, text in labels.items() if key not in own}, PROBE: name}


def _change_job(template: dict[str, Any], role: str, request: ManifestRequest, name: str) -> None:
    """Give the pods of a role the programs of the probe."""
    pod = template["spec"]["template"]
    for metadata in (template["metadata"], pod["metadata"]):
        metadata["labels"] = _replace_labels(metadata["labels"], name)
    pod["spec"]["terminationGracePeriodSeconds"] = _GRACE_S
    pod["spec"]["containers"] = [
        _change_container(container, role, request, name) for container in pod["spec"]["containers"]
    ]


def _change_container(
    container: Mapping[str, Any], role: str, request: ManifestRequest, name: str
) -> dict[str, Any]:
    is_launcher = container["name"] == LAUNCHER_CONTAINER
    own_name = LAUNCHER if is_launcher else role
    peer = "" if is_launcher else names.dns_name_of(name, _PEERS[role], 0)
    source = inspect.getsource(task)
    node = {"name": "TRAINSHED_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    return {
        **container,
        "command": [*request.start, "-c", source, mounts.ATTEMPT, own_name, peer],
        "env": [node],
        "volumeMounts": mounts.list_probe_mounts(request, folder_of(request.installation, name)),
    }


_PEERS: Final = {PRIMARY: Role.WORKER, WORKER: Role.PRIMARY}
