"""The nodes of the cluster as the API last showed them, for the fleet and for ``judge``."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from trainshed.engines.kubernetes.gpus import GpuRow, count_gpus, seed_rows, type_of_node
from trainshed.engines.kubernetes.options import KubernetesOptions
from trainshed.engines.kubernetes.quantities import parse_quantity
from trainshed.model.resources import ANY_GPU, Node, NodeState

_BYTES_PER_GB: Final = 1024**3
_ARCHITECTURE: Final = "kubernetes.io/arch"


class ClusterNode(NamedTuple):
    """One node of the cluster."""

    name: str
    labels: Mapping[str, str]
    cpus: float
    """The CPUs that pods may request."""
    memory_gb: float
    gpus: int
    gpu_type: str
    """The accelerator type of the GPUs; ``ANY_GPU`` if no row of the settings or labels has it."""
    is_open: bool
    """Whether the node is ready and not cordoned."""


def list_rows(
    options: KubernetesOptions, objects: Iterable[Mapping[str, Any]]
) -> Mapping[str, GpuRow]:
    """Return the rows of GPUs of the settings, and those that labels of nodes give."""
    return seed_rows(options.gpus, objects)


def read_nodes(
    objects: Collection[Mapping[str, Any]], options: KubernetesOptions
) -> Sequence[ClusterNode]:
    """Read the nodes that the settings let jobs use, sorted by name; ``objects`` are the API's."""
    rows = list_rows(options, objects)
    nodes = (_read_node(obj, rows) for obj in objects)
    selector = options.node_selector.items()
    accepted = (
        node for node in nodes if all(node.labels.get(key) == value for key, value in selector)
    )
    return sorted(accepted)


def trim_node(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a Node that this module and the state of attempts read."""
    metadata, status = obj.get("metadata") or {}, obj.get("status") or {}
    fields = ("name", "uid", "labels")
    ready = [
        {"type": "Ready", "status": row.get("status")}  # without the time of the last heartbeat
        for row in status.get("conditions") or ()
        if row.get("type") == "Ready"
    ]
    return {
        "kind": "Node",
        "metadata": {field: metadata[field] for field in fields if field in metadata},
        "spec": {"unschedulable": bool((obj.get("spec") or {}).get("unschedulable"))},
        "status": {"conditions": ready, "allocatable": status.get("allocatable") or {}},
    }


def convert_nodes(nodes: Iterable[ClusterNode], options: KubernetesOptions) -> Sequence[Node]:
    """Convert the cluster's nodes to nodes of the fleet."""
    return [
        Node(
            name=node.name,
            vcpus=int(node.cpus),
            memory_gb=node.memory_gb,
            gpus={node.gpu_type: node.gpus} if node.gpus else {},
            policy=options.policy,
            state=NodeState.READY if node.is_open else NodeState.DRAINED,
        )
        for node in nodes
    ]


def _read_node(obj: Mapping[str, Any], rows: Mapping[str, GpuRow]) -> ClusterNode:
    status = obj.get("status") or {}
    allocatable = status.get("allocatable") or {}
    gpu_type = type_of_node(obj, rows)
    resource = rows[gpu_type].resource if gpu_type else GpuRow().resource
    ready = {row.get("type"): row.get("status") for row in status.get("conditions") or ()}
    is_cordoned = bool((obj.get("spec") or {}).get("unschedulable"))
    return ClusterNode(
        name=str(obj["metadata"]["name"]),
        labels=obj["metadata"].get("labels") or {},
        cpus=float(parse_quantity(allocatable.get("cpu", 0))),
        memory_gb=float(parse_quantity(allocatable.get("memory", 0)) / _BYTES_PER_GB),
        gpus=count_gpus(obj, resource),
        gpu_type=gpu_type or ANY_GPU,
        is_open=ready.get("Ready") == "True" and not is_cordoned,
    )
