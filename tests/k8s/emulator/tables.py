"""Tables that ``kubectl get`` prints: columns and cells as the API server makes them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from .kinds import Resource
from .schemas import list_columns

Body = dict[str, Any]
_NONE = "<none>"
_UNKNOWN = "<unknown>"


def make_table(
    resource: Resource, version: str, objects: Iterable[Body], metadata: Body, now: float
) -> Body:
    """A Table of objects; each row brings the object's metadata along."""
    columns, read = _select_columns(resource, version)
    rows = [{"cells": read(obj, now), "object": _cut(obj)} for obj in objects]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [
            {
                "name": name,
                "type": "integer" if name == "Data" else "string",
                "format": "name" if name == "Name" else "",
                "description": name,
                "priority": priority,
            }
            for name, priority in columns
        ],
        "rows": rows,
    }


def _cut(obj: Body) -> Body:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }


Reader = Callable[[Body, float], list[Any]]


def _select_columns(resource: Resource, version: str) -> tuple[list[tuple[str, int]], Reader]:
    if resource.is_custom:
        columns = list_columns(resource, version)
        if not columns:
            return _split("Name Age"), _read_plain

        def read(obj: Body, now: float) -> list[Any]:
            cells = [_read_cell(obj, column.path, column.type, now) for column in columns]
            return [obj["metadata"]["name"], *cells]

        return [("Name", 0), *((column.name, column.priority) for column in columns)], read
    names, reader = _COLUMNS.get(resource.kind, ("Name Age", _read_plain))
    return _split(names), reader


def _split(names: str) -> list[tuple[str, int]]:
    """Names of columns; one that begins with ``+`` shows in wide output only."""
    return [(name.lstrip("+").replace("_", " "), int(name[0] == "+")) for name in names.split()]


def read_path(obj: Any, path: str) -> list[Any]:
    """The values of a simple JSONPath: members and ``[?(@.type=="X")]``."""
    values = [obj]
    for name, key, wanted in re.findall(
        r"\.([A-Za-z0-9_/-]+)|\[\?\(@\.(\w+)==[\"']([^\"']*)[\"']\)\]", path
    ):
        if name:
            values = [v[name] for v in values if isinstance(v, Mapping) and name in v]
        else:
            rows = [row for v in values if isinstance(v, list) for row in v]
            values = [row for row in rows if row.get(key) == wanted]
    return values


def _read_cell(obj: Body, path: str, kind: str, now: float) -> Any:
    values = read_path(obj, path)
    if kind == "date":
        return write_age(values[0] if values else None, now)
    if not values:
        return None if kind == "integer" else ""
    value = values[0]
    if kind == "integer":
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_age(stamp: str | None, now: float) -> str:
    """``5s``, ``3m``, ``2h``, ``9d`` since a time."""
    if not stamp:
        return _UNKNOWN
    then = datetime.fromisoformat(stamp).astimezone(UTC)
    return _write_duration(int(now - then.timestamp()))


def _write_duration(seconds: int) -> str:
    if seconds < 0:
        return "0s"
    for unit_s, unit, enough in ((86400, "d", 2), (3600, "h", 3), (60, "m", 2)):
        if seconds >= unit_s * enough:
            return f"{seconds // unit_s}{unit}"
    return f"{seconds}s"


def _read_plain(obj: Body, now: float) -> list[Any]:
    return [obj["metadata"]["name"], _read_age(obj, now)]


def _read_age(obj: Body, now: float) -> str:
    return write_age(obj["metadata"].get("creationTimestamp"), now)


def _read_pod(obj: Body, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    containers: Sequence[Body] = status.get("containerStatuses") or ()
    ready = sum(bool(row.get("ready")) for row in containers)
    return [
        obj["metadata"]["name"],
        f"{ready}/{len(spec['containers'])}",
        compute_pod_status(obj),
        str(sum(row.get("restartCount", 0) for row in containers)),
        _read_age(obj, now),
        status.get("podIP", _NONE),
        spec.get("nodeName", _NONE),
        status.get("nominatedNodeName", _NONE),
        _NONE,
    ]


def compute_pod_status(obj: Body) -> str:
    """The word that ``kubectl get pods`` shows for a pod."""
    status = obj.get("status", {})
    word = status.get("reason") or status.get("phase") or "Unknown"
    for row in reversed(status.get("containerStatuses") or ()):
        state = row.get("state") or {}
        if reason := (state.get("waiting") or {}).get("reason"):
            word = reason
        elif ended := state.get("terminated"):
            word = ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"
    if "deletionTimestamp" in obj["metadata"] and status.get("phase") not in (
        "Succeeded",
        "Failed",
    ):
        return "Terminating"
    return str(word)


def _read_job(obj: Body, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    start, end = status.get("startTime"), status.get("completionTime")
    duration = ""
    if start:
        until = datetime.fromisoformat(end).timestamp() if end else now
        duration = write_age(start, until)
    return [
        obj["metadata"]["name"],
        _compute_job_status(obj),
        f"{status.get('succeeded', 0)}/{spec.get('completions', 1)}",
        duration,
        _read_age(obj, now),
    ]


def _compute_job_status(obj: Body) -> str:
    conditions = obj.get("status", {}).get("conditions", ())
    true = {row["type"] for row in conditions if row["status"] == "True"}
    for condition in ("Complete", "Failed"):
        if condition in true:
            return condition
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return "Suspended" if "Suspended" in true else "Running"


def _read_node(obj: Body, now: float) -> list[Any]:
    conditions = obj.get("status", {}).get("conditions", ())
    ready = [row["status"] for row in conditions if row["type"] == "Ready"]
    words = ["Ready" if ready == ["True"] else "NotReady" if ready else "Unknown"]
    if obj.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    roles = [key.removeprefix(prefix) for key in sorted(labels) if key.startswith(prefix)]
    version = obj.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", "")
    name = obj["metadata"]["name"]
    return [name, ",".join(words), ",".join(roles) or _NONE, _read_age(obj, now), version]


def _read_event(obj: Body, now: float) -> list[Any]:
    about = obj.get("involvedObject", {})
    stamp = obj.get("lastTimestamp") or obj.get("eventTime") or obj.get("firstTimestamp")
    return [
        write_age(stamp[:19] + "Z" if stamp else None, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        obj.get("message", "").strip(),
        obj["metadata"]["name"],
    ]


def _read_secret(obj: Body, now: float) -> list[Any]:
    count = len(obj.get("data") or {})
    return [obj["metadata"]["name"], obj.get("type", ""), count, _read_age(obj, now)]


def _read_config_map(obj: Body, now: float) -> list[Any]:
    return [obj["metadata"]["name"], len(obj.get("data") or {}), _read_age(obj, now)]


def _read_namespace(obj: Body, now: float) -> list[Any]:
    return [obj["metadata"]["name"], obj["status"]["phase"], _read_age(obj, now)]


def _read_service(obj: Body, now: float) -> list[Any]:
    spec = obj["spec"]
    ports = ",".join(f"{p['port']}/{p.get('protocol', 'TCP')}" for p in spec.get("ports") or ())
    address = spec.get("clusterIP") or _NONE
    name = obj["metadata"]["name"]
    return [name, spec["type"], address, _NONE, ports or _NONE, _read_age(obj, now)]


def _read_claim(obj: Body, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status", {})
    return [
        obj["metadata"]["name"],
        status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", ""),
        ",".join(spec.get("accessModes") or ()),
        spec.get("storageClassName", ""),
        _read_age(obj, now),
    ]


_COLUMNS: Mapping[str, tuple[str, Reader]] = {
    "ConfigMap": ("Name Data Age", _read_config_map),
    "Event": ("Last_Seen Type Reason Object Message +Name", _read_event),
    "Job": ("Name Status Completions Duration Age", _read_job),
    "Namespace": ("Name Status Age", _read_namespace),
    "Node": ("Name Status Roles Age Version", _read_node),
    "PersistentVolumeClaim": (
        "Name Status Volume Capacity Access_Modes StorageClass Age",
        _read_claim,
    ),
    "Pod": (
        "Name Ready Status Restarts Age +IP +Node +Nominated_Node +Readiness_Gates",
        _read_pod,
    ),
    "Secret": ("Name Type Data Age", _read_secret),
    "Service": ("Name Type Cluster-IP External-IP Port(s) Age", _read_service),
}
