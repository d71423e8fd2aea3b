"""Chooses the resource, the nodes and the runtime class of GPUs by their accelerator type.

A row of the configuration describes the GPUs of a type.  For other types, labels of nodes that
GKE and NVIDIA's feature discovery set give the rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trainshed.engines.accelerator_names import find_accelerator
from trainshed.engines.kubernetes.quantities import parse_quantity
from trainshed.engines.kubernetes.tolerations import Toleration
from trainshed.model.faults import EngineFault
from trainshed.model.resources import ANY_GPU

#: The resource of NVIDIA's device plugin.
NVIDIA: Final = "nvidia.com/gpu"
#: Labels of nodes with the name of their GPUs, in order of preference.
TYPE_LABELS: Final = ("cloud.google.com/gke-accelerator", "nvidia.com/gpu.product")
#: Parts of names of GPUs that several programs share; each program gets only a part of the GPU.
_SHARES: Final = ("-MIG-", "-SHARED")
#: Labels of nodes of GKE whose GPUs are divided or shared.
_SHARE_LABELS: Final = (
    "cloud.google.com/gke-gpu-partition-size",
    "cloud.google.com/gke-gpu-sharing-strategy",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """How pods request GPUs of one accelerator type."""

    resource: str = NVIDIA
    selector: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The accepted values of labels of nodes; a node must match all labels."""
    tolerations: tuple[Toleration, ...] = ()
    """Further tolerations; nodes with a taint named as the resource are always accepted."""
    runtime_class: str = ""
    """The runtime class of the pods; empty: the cluster's default."""

    @property
    def all_tolerations(self) -> tuple[Toleration, ...]:
        """The tolerations of pods with these GPUs."""
        return (Toleration(key=self.resource, effect="NoSchedule"), *self.tolerations)


def choose_row(gpu_type: str | None, rows: Mapping[str, GpuRow]) -> GpuRow:
    """Return the row of a type; ``rows`` may have one for ``any`` other type.

    Without any row, the cluster is not known, and the type is ignored.  Raises EngineFault for a
    type that the cluster does not have.
    """
    row = rows.get(gpu_type or ANY_GPU) or rows.get(ANY_GPU)
    if row is None and gpu_type is not None and rows:
        types = ", ".join(sorted(rows))
        raise EngineFault(
            f"the cluster has no {gpu_type}; its GPUs are: {types}; request one of these, or add "
            f"the type to the table `gpus` of the engine"
        )
    return row or GpuRow()


def seed_rows(
    settings: Mapping[str, GpuRow], nodes: Iterable[Mapping[str, Any]]
) -> Mapping[str, GpuRow]:
    """Return the rows of the settings, and rows for the other types of GPUs of the nodes.

    ``nodes`` are objects of the API.  A node whose GPUs are divided or shared gives no row.
    """
    values: dict[str, dict[str, set[str]]] = {}
    for node in nodes:
        for label, value in _list_types(node):
            gpu_type = find_accelerator(value)
            if gpu_type is not None and gpu_type not in settings:
                values.setdefault(gpu_type, {}).setdefault(label, set()).add(value)
    seeded = {gpu_type: _make_row(labels) for gpu_type, labels in sorted(values.items())}
    return {**seeded, **settings}


def type_of_node(node: Mapping[str, Any], rows: Mapping[str, GpuRow]) -> str:
    """Return the accelerator type of a node's GPUs by the rows; empty: no row has the node."""
    labels = _read_labels(node)
    matches = (
        gpu_type
        for gpu_type, row in rows.items()
        if row.selector
        and all(labels.get(key) in accepted for key, accepted in row.selector.items())
    )
    return next(matches, "")


def count_gpus(node: Mapping[str, Any], resource: str = NVIDIA) -> int:
    """Return the number of a node's GPUs that pods may have."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return int(parse_quantity(allocatable.get(resource, 0)))


def _list_types(node: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List the labels with a name of the node's GPUs, and the names."""
    labels = _read_labels(node)
    pairs = [(label, str(labels[label])) for label in TYPE_LABELS if label in labels]
    is_shared = any(share in value for _, value in pairs for share in _SHARES)
    is_shared = is_shared or any(label in labels for label in _SHARE_LABELS)
    return [] if is_shared or not count_gpus(node) else pairs


def _make_row(labels: Mapping[str, set[str]]) -> GpuRow:
    """Make a row from the values of labels: one label suffices, and a node may lack the others."""
    label = next(label for label in TYPE_LABELS if label in labels)
    return GpuRow(selector={label: tuple(sorted(labels[label]))})


def _read_labels(node: Mapping[str, Any]) -> Mapping[str, Any]:
    labels: Mapping[str, Any] = (node.get("metadata") or {}).get("labels") or {}
    return labels
