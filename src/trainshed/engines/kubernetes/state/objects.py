"""Reads facts from the API's objects, as plain dicts.

Each function reads only the fields that ``trim_object`` keeps: a watcher that keeps thousands of
objects in memory trims them first.  An object without a field is read as one with its default.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from trainshed.engines.kubernetes import names
from trainshed.engines.kubernetes.state.facts import (
    CheckFacts,
    ContainerFacts,
    EventFacts,
    JobSetFacts,
    ObjectCondition,
    PodFacts,
    WorkloadFacts,
)

#: An object of the API, or a part of it.
ApiObject = Mapping[str, Any]

JOBSET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
RESTART: Final = "jobset.sigs.k8s.io/restart-attempt"
ROLE: Final = "jobset.sigs.k8s.io/replicatedjob-name"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS: Final = "kueue.x-k8s.io/priority-class"
JOB_UID: Final = "kueue.x-k8s.io/job-uid"

_SCHEDULED: Final = "PodScheduled"
_READY: Final = "Ready"
_DISRUPTED: Final = "DisruptionTarget"
_POD_CONDITIONS: Final = frozenset({_SCHEDULED, _READY, _DISRUPTED})

_NOT_FOUND: Final = 404
#: Longest message of a condition or an event that is read, in characters.
_MESSAGE_MAX: Final = 2000


def read_jobset(obj: ApiObject) -> JobSetFacts:
    """Read a JobSet."""
    metadata, spec, labels = _part(obj, "metadata"), _part(obj, "spec"), _labels(obj)
    return JobSetFacts(
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        namespace=_text(metadata, "namespace"),
        is_deleting=bool(metadata.get("deletionTimestamp")),
        is_suspended=bool(spec.get("suspend")),
        conditions=_read_conditions(obj),
        replicas={
            _text(job, "name"): _count_replicas(job) for job in _list(spec, "replicatedJobs")
        },
        queue=_text(labels, QUEUE),
        priority_class=_text(labels, PRIORITY_CLASS),
        managed_by=_text(spec, "managedBy"),
    )


def read_pods(objects: Iterable[ApiObject], uid: str, claimant: str = "") -> tuple[PodFacts, ...]:
    """Read the pods of the JobSet with a uid, in the order of their names.

    A JobSet that others let restart makes new pods, which start no program: only the pods of its
    first run are read, and the pod with the uid ``claimant``, which began the attempt.
    """
    pods = (read_pod(obj) for obj in objects if _is_pod_of(obj, uid, claimant))
    return tuple(sorted(pods, key=lambda pod: pod.name))


def read_pod(obj: ApiObject) -> PodFacts:
    """Read a pod."""
    metadata, spec, status = _part(obj, "metadata"), _part(obj, "spec"), _part(obj, "status")
    labels, conditions = _labels(obj), _read_conditions(obj)
    is_scheduled = _SCHEDULED not in conditions or conditions[_SCHEDULED].is_true
    disruption = conditions.get(_DISRUPTED)
    index = _text(labels, INDEX) or _text(_part(metadata, "annotations"), INDEX)
    return PodFacts(
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        role=_text(labels, ROLE),
        index=int(index) if index.isdecimal() else 0,
        phase=_text(status, "phase") or "Pending",
        node=_text(spec, "nodeName"),
        is_deleting=bool(metadata.get("deletionTimestamp")),
        is_ready=_is_ready(conditions),
        unscheduled=None if is_scheduled else conditions[_SCHEDULED],
        disruption=disruption if disruption is not None and disruption.is_true else None,
        reason=_text(status, "reason"),
        message=_text(status, "message"),
        containers=tuple(_read_containers(spec, status)),
    )


def read_events(objects: Iterable[ApiObject], name: str) -> tuple[EventFacts, ...]:
    """Read the events of a JobSet by its name, its Jobs and its pods; the last event is last."""
    events = (read_event(obj) for obj in objects)
    own = (event for event in events if event.name == name or event.name.startswith(f"{name}-"))
    return tuple(sorted(own, key=lambda event: event.at))


def read_event(obj: ApiObject) -> EventFacts:
    """Read an event, also one of the API group events.k8s.io."""
    target = _part(obj, "involvedObject") or _part(obj, "regarding")
    times = (
        _text(obj, "lastTimestamp"),
        _text(_part(obj, "series"), "lastObservedTime"),
        _text(obj, "eventTime"),
        _text(_part(obj, "metadata"), "creationTimestamp"),
    )
    return EventFacts(
        kind=_text(target, "kind"),
        name=_text(target, "name"),
        reason=_text(obj, "reason"),
        message=_text(obj, "message") or _text(obj, "note"),
        at=next((time for time in times if time), ""),
    )


def find_workload(objects: Iterable[ApiObject], uid: str) -> WorkloadFacts | None:
    """Read the Workload of the JobSet with a uid; None: Kueue has made none."""
    return next((read_workload(obj) for obj in objects if _is_workload_of(obj, uid)), None)


def read_workload(obj: ApiObject) -> WorkloadFacts:
    """Read a Workload, of v1beta1 or v1beta2."""
    spec, status = _part(obj, "spec"), _part(obj, "status")
    checks = tuple(
        CheckFacts(_text(check, "name"), _text(check, "state"), _text(check, "message"))
        for check in _list(status, "admissionChecks")
    )
    clusters = status.get("nominatedClusterNames") or [_text(status, "clusterName")]
    return WorkloadFacts(
        name=_text(_part(obj, "metadata"), "name"),
        queue=_text(spec, "queueName"),
        is_active=spec.get("active") is not False,
        conditions=_read_conditions(obj),
        checks=checks,
        clusters=tuple(str(cluster) for cluster in clusters if cluster),
    )


def read_nodes(objects: Iterable[ApiObject]) -> dict[str, bool]:
    """Return whether each node is ready: whether its kubelet reports to the cluster."""
    return {
        _text(_part(obj, "metadata"), "name"): _is_ready(_read_conditions(obj)) for obj in objects
    }


def proves_absence(status: int, reason: str, details: ApiObject, name: str) -> bool:
    """Return whether the API's refusal proves that the JobSet of a name does not exist.

    A 404 may also mean that the API does not serve JobSets now, or that the namespace is unknown.
    """
    is_of_jobset = details.get("kind") == "jobsets" and details.get("name") == name
    return status == _NOT_FOUND and reason == "NotFound" and is_of_jobset


def trim_object(kind: str, obj: ApiObject) -> dict[str, Any]:
    """Return the parts of an object that this package reads.

    The version of an object is not one of them: most new versions are of no interest.
    """
    metadata = _trim_metadata(_part(obj, "metadata"), _METADATA.get(kind, ()))
    return {**_trim(obj, _COMMON), "metadata": metadata, **_TRIMS[kind](obj)}


def _trim_jobset(obj: ApiObject) -> dict[str, Any]:
    spec = _part(obj, "spec")
    jobs = [
        {"name": _text(job, "name"), "replicas": 1, "template": {"spec": {"parallelism": count}}}
        for job in _list(spec, "replicatedJobs")
        for count in (_count_replicas(job),)
    ]
    own = {"suspend": spec.get("suspend"), "managedBy": spec.get("managedBy")}
    return {"spec": {**own, "replicatedJobs": jobs}, "status": _trim_conditions(obj)}


def _trim_pod(obj: ApiObject) -> dict[str, Any]:
    spec, status = _part(obj, "spec"), _part(obj, "status")
    containers = [
        {"name": _text(c, "name"), "resources": {"limits": {"memory": _memory_limit(c)}}}
        for field in _SPECS
        for c in _list(spec, field)
        if _memory_limit(c)
    ]
    statuses = [_trim(c, ("name", "image", "state")) for c in _list_statuses(status)]
    return {
        "spec": {"nodeName": spec.get("nodeName"), "containers": containers},
        "status": {
            **_trim(status, ("phase", "reason", "message")),
            **_trim_conditions(obj, _POD_CONDITIONS),
            "containerStatuses": statuses,
        },
    }


def _trim_event(obj: ApiObject) -> dict[str, Any]:
    fields = ("reason", "message", "note", "lastTimestamp", "eventTime", "series")
    target = _part(obj, "involvedObject") or _part(obj, "regarding")
    return {**_trim(obj, fields), "involvedObject": _trim(target, ("kind", "name"))}


def _trim_workload(obj: ApiObject) -> dict[str, Any]:
    fields = ("admissionChecks", "nominatedClusterNames", "clusterName")
    status = {**_trim(_part(obj, "status"), fields), **_trim_conditions(obj)}
    return {"spec": _trim(_part(obj, "spec"), ("queueName", "active")), "status": status}


def _trim_node(obj: ApiObject) -> dict[str, Any]:
    ready = [c for c in _list(_part(obj, "status"), "conditions") if c.get("type") == "Ready"]
    return {"status": {"conditions": ready}}


_TRIMS: Final[Mapping[str, Callable[[ApiObject], dict[str, Any]]]] = {
    "JobSet": _trim_jobset,
    "Pod": _trim_pod,
    "Event": _trim_event,
    "Workload": _trim_workload,
    "Node": _trim_node,
}
#: Fields that every object keeps, and fields of the metadata of every object and of one kind.
_COMMON: Final = ("kind",)
_IDENTITY: Final = ("name", "namespace", "uid", "deletionTimestamp")
_METADATA: Final[Mapping[str, tuple[str, ...]]] = {
    "Event": ("creationTimestamp",),
    "Workload": ("ownerReferences",),
}
_LABELS: Final = (
    *(names.INSTALLATION, names.JOB, names.ATTEMPT),
    *(JOBSET_UID, RESTART, ROLE, INDEX, QUEUE, PRIORITY_CLASS, JOB_UID),
)
_SPECS: Final = ("containers", "initContainers")
_STATUSES: Final = ("initContainerStatuses", "containerStatuses")


def _trim(obj: ApiObject, fields: Iterable[str]) -> dict[str, Any]:
    return {field: obj[field] for field in fields if field in obj}


def _trim_metadata(metadata: ApiObject, fields: tuple[str, ...]) -> dict[str, Any]:
    maps = {"labels": _LABELS, "annotations": (INDEX,)}
    parts = {part: _trim(_part(metadata, part), keys) for part, keys in maps.items()}
    own = {part: values for part, values in parts.items() if values}
    return {**_trim(metadata, (*_IDENTITY, *fields)), **own}


def _trim_conditions(obj: ApiObject, types: Collection[str] | None = None) -> dict[str, Any]:
    """Trim the conditions of these types; None: of all types."""
    fields = ("type", "status", "reason", "message")
    rows = _list(_part(obj, "status"), "conditions")
    return {"conditions": [_trim(c, fields) for c in rows if not types or c.get("type") in types]}


def _read_conditions(obj: ApiObject) -> dict[str, ObjectCondition]:
    return {
        _text(c, "type"): ObjectCondition(
            c.get("status") == "True", _text(c, "reason"), _text(c, "message")
        )
        for c in _list(_part(obj, "status"), "conditions")
    }


def _read_containers(spec: ApiObject, status: ApiObject) -> Iterator[ContainerFacts]:
    limits = {_text(c, "name"): _memory_limit(c) for f in _SPECS for c in _list(spec, f)}
    for container in _list_statuses(status):
        state = _part(container, "state")
        waiting, ended = _part(state, "waiting"), _part(state, "terminated")
        code = ended.get("exitCode")
        yield ContainerFacts(
            name=_text(container, "name"),
            image=_text(container, "image"),
            waiting=_text(waiting, "reason"),
            is_running="running" in state,
            ended=(_text(ended, "reason") or "Error") if ended else "",
            exit_code=code if isinstance(code, int) else None,
            message=_text(waiting, "message") or _text(ended, "message"),
            memory_limit=limits.get(_text(container, "name"), ""),
        )


def _list_statuses(status: ApiObject) -> Iterator[ApiObject]:
    for field in _STATUSES:
        yield from _list(status, field)


def _is_pod_of(obj: ApiObject, uid: str, claimant: str) -> bool:
    labels = _labels(obj)
    is_first_run = (_text(labels, RESTART) or "0") == "0"
    is_claimant = bool(claimant) and _text(_part(obj, "metadata"), "uid") == claimant
    return is_claimant or (_text(labels, JOBSET_UID) == uid and is_first_run)


def _is_workload_of(obj: ApiObject, uid: str) -> bool:
    owners = _list(_part(obj, "metadata"), "ownerReferences")
    return _text(_labels(obj), JOB_UID) == uid or any(o.get("uid") == uid for o in owners)


def _is_ready(conditions: Mapping[str, ObjectCondition]) -> bool:
    return _READY in conditions and conditions[_READY].is_true


def _count_replicas(job: ApiObject) -> int:
    template = _part(_part(job, "template"), "spec")
    replicas, parallelism = job.get("replicas"), template.get("parallelism")
    return (1 if replicas is None else int(replicas)) * (
        1 if parallelism is None else int(parallelism)
    )


def _memory_limit(container: ApiObject) -> str:
    return _text(_part(_part(container, "resources"), "limits"), "memory")


def _labels(obj: ApiObject) -> ApiObject:
    return _part(_part(obj, "metadata"), "labels")


def _part(obj: ApiObject, field: str) -> ApiObject:
    """Return an object in a field; an empty one if the field is absent or null."""
    value = obj.get(field)
    return value if isinstance(value, Mapping) else {}


def _list(obj: ApiObject, field: str) -> list[ApiObject]:
    """Return the objects of a list in a field; none if the field is absent or null."""
    value = obj.get(field)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _text(obj: ApiObject, field: str) -> str:
    """Return a text in a field, cut to a length; empty if the field is absent or null."""
    value = obj.get(field)
    return "" if value is None else str(value)[:_MESSAGE_MAX]
