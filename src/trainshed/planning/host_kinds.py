"""Converts machine types of the catalog to the kinds of hosts that the planner predicts."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypedDict

from trainshed.catalog.accelerators import AcceleratorType, known_accelerators
from trainshed.catalog.catalog import Catalog, fitting_counts
from trainshed.catalog.machines import MachineType, known_machines
from trainshed.model.job import ReplicaGroup
from trainshed.planning.layouts import HostType
from trainshed.planning.scaling.cluster import HostKind

CPU: Final = "CPU"
_GIGA: Final = 1e9
_GIB: Final = 2.0**30


class _Inside(TypedDict):
    inside: str
    inside_bytes: float


def kind_of(group: ReplicaGroup, catalog: Catalog) -> HostKind:
    """Return the kind of the hosts of a replica group; its spec must name all accelerators."""
    name, device = group.machine_type or "", group.accelerator
    devices = (device.type or CPU, device.count or 1) if device else (CPU, 1)
    return host_kind(catalog, name, devices)


def host_type_of(host: HostKind, catalog: Catalog) -> HostType:
    """Return hosts of one machine type, with each accelerator count that it may have.

    These are the counts that admission accepts (``Catalog.fitting_counts``): a cluster that is
    refused at submit is not recommended.
    """
    machine = catalog.known_machines.get(host.machine_type)
    accelerator = catalog.accelerator(host.accelerator)
    if machine is None or accelerator is None:
        return HostType(host=host)
    variants = (
        host_kind(catalog, host.machine_type, (host.accelerator, count))
        for count in catalog.fitting_counts(machine, accelerator)
    )
    return HostType(host=host, variants=_with_own(host, variants))


def measured_host_type(host: HostKind) -> HostType:
    """Return the type of a measured host without the whole catalog, whose reading takes 0.1 s.

    Every measured count is possible, and other counts have the measured network.
    """
    machine = known_machines().get(host.machine_type)
    for accelerator in known_accelerators() if machine else ():
        for product, name in accelerator.enum_by_product.items():
            if machine and name == host.accelerator:
                counts = fitting_counts(machine, accelerator, product)
                variants = (
                    replace(host, per_host=count, **_inside(accelerator, count)) for count in counts
                )
                is_known = host.per_host in counts
                return HostType(host=host, variants=_with_own(host, variants) if is_known else ())
    return HostType(host=host)


def _with_own(host: HostKind, variants: Iterable[HostKind]) -> tuple[HostKind, ...]:
    """Put the host itself in place of the variant with as many accelerators."""
    return tuple(host if kind.per_host == host.per_host else kind for kind in variants)


def _inside(accelerator: AcceleratorType | None, count: int) -> _Inside:
    """Return the links among the accelerators of one host."""
    if accelerator is None or count == 1:
        return {"inside": "", "inside_bytes": 0.0}
    return {"inside": accelerator.inside, "inside_bytes": accelerator.inside_gbytes * _GIGA}


def host_kind(catalog: Catalog, machine_type: str, devices: tuple[str, int]) -> HostKind:
    """Describe hosts of a machine type.

    The rate of their network is an assumption for a type of Google, and not for an owner's overlay.
    ``devices`` are the enum name and the count of its accelerators, or ``CPU`` and 1.
    """
    name, count = devices
    machine, accelerator = catalog.known_machines.get(machine_type), catalog.accelerator(name)
    gbps = (catalog.egress_gbps(machine, name, count) if machine else None) or 0.0
    return HostKind(
        machine_type=machine_type,
        accelerator=name,
        per_host=count,
        cpus=int(machine.vcpus) if machine and machine.vcpus else 0,
        **_inside(accelerator, count),
        network=accelerator.network if accelerator else "tcp",
        network_gbps=gbps,
        network_assumed=gbps > 0 and machine is known_machines().get(machine_type),
        memory_bytes=_memory_bytes(accelerator, machine),
    )


def _memory_bytes(accelerator: AcceleratorType | None, machine: MachineType | None) -> float:
    """Return the memory of one accelerator, or of a host whose processors train."""
    if accelerator is not None:
        return (accelerator.memory_gib or 0.0) * _GIB
    # Compute Engine's GB of memory are GiB
    return (machine.memory_gb or 0.0) * _GIB if machine else 0.0
