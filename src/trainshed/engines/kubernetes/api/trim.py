"""Cuts objects of the API down to the fields that the engine reads, so that many fit into memory.

A Pod of a training job has about 10 kB as JSON and four times as much as Python values.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

#: Fields of a path to keep, as nested mappings; an empty mapping keeps the whole value.
_Tree = dict[str, Any]
#: Fields of every kind; annotations may be large, and the engine reads none.
_METADATA: Final = tuple(
    f"metadata.{name}"
    for name in (
        "name",
        "namespace",
        "uid",
        "labels",
        "creationTimestamp",
        "deletionTimestamp",
        "ownerReferences",
    )
)
#: Texts of at most this length are stored once, however many objects have them.
_SHARED_LENGTH_MAX: Final = 64


def make_trim(paths: Iterable[str]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return a function that keeps these fields, such as ``status.conditions.reason``.

    A field of a list's elements has the path of the list before it.
    """
    tree: _Tree = {}
    for path in paths:
        branch = tree
        for name in path.split("."):
            branch = branch.setdefault(sys.intern(name), {})

    def trim(value: Mapping[str, Any]) -> dict[str, Any]:
        picked: dict[str, Any] = _pick(value, tree)
        return picked

    return trim


def _pick(value: Any, tree: _Tree) -> Any:
    if not tree:
        return _share(value)
    if isinstance(value, list):
        return [_pick(element, tree) for element in value]
    if isinstance(value, Mapping):
        return {name: _pick(value[name], tree[name]) for name in tree if name in value}
    return _share(value)


def _share(value: Any) -> Any:
    """Copy a value; equal short texts become one."""
    if isinstance(value, str):
        return sys.intern(value) if len(value) <= _SHARED_LENGTH_MAX else value
    if isinstance(value, list):
        return [_share(element) for element in value]
    if isinstance(value, Mapping):
        return {sys.intern(name): _share(inner) for name, inner in value.items()}
    return value


trim_jobset: Final = make_trim((*_METADATA, "spec.suspend", "status"))
trim_pod: Final = make_trim(
    (
        *_METADATA,
        "spec.nodeName",
        "status.phase",
        "status.reason",
        "status.message",
        "status.podIP",
        "status.startTime",
        "status.conditions.type",
        "status.conditions.status",
        "status.conditions.reason",
        "status.conditions.message",
        "status.conditions.lastTransitionTime",
        *(
            f"status.{kind}.{name}"
            for kind in ("containerStatuses", "initContainerStatuses")
            for name in ("name", "ready", "restartCount", "state", "lastState", "imageID")
        ),
    )
)
trim_event: Final = make_trim(
    (
        *_METADATA,
        "involvedObject.kind",
        "involvedObject.name",
        "involvedObject.uid",
        "type",
        "reason",
        "message",
        "count",
        "firstTimestamp",
        "lastTimestamp",
        "eventTime",
        "series",
    )
)
trim_workload: Final = make_trim(
    (*_METADATA, "spec.active", "spec.queueName", "status.conditions", "status.admission")
)
trim_node: Final = make_trim(
    (
        *_METADATA,
        "spec.unschedulable",
        "spec.taints",
        "status.allocatable",
        "status.nodeInfo.architecture",
        "status.conditions.type",
        "status.conditions.status",
        "status.conditions.reason",
    )
)
