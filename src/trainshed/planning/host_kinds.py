"""Converts machine types of the catalog to the kinds of hosts that the planner predicts."""

from typing import Final

from trainshed.catalog.accelerators import AcceleratorType, known_accelerators
from trainshed.catalog.catalog import Catalog, fitting_counts
from trainshed.catalog.machines import MachineType, known_machines
from trainshed.model.job import ReplicaGroup
from trainshed.planning.scaling.cluster import HostKind

CPU: Final = "CPU"
_GIGA: Final = 1e9
_GIB: Final = 2.0**30


def kind_of(group: ReplicaGroup, catalog: Catalog) -> HostKind:
    """Return the kind of the hosts of a replica group; its spec must name all accelerators."""
    name, device = group.machine_type or "", group.accelerator
    machine = catalog.known_machines.get(name)
    devices = (device.type or CPU, device.count or 1) if device else (CPU, 1)
    attached = devices if device else (None, 0)
    gbps = catalog.egress_gbps(machine, *attached) if machine else None
    return host_kind(catalog, name, machine, devices, gbps or 0.0)


def counts_of(kind: HostKind, catalog: Catalog) -> tuple[int, ...]:
    """Return the accelerator counts that a host may have; empty: any number.

    These are the counts that admission accepts (``Catalog.fitting_counts``): a cluster that is
    refused at submit is not recommended.
    """
    machine = catalog.known_machines.get(kind.machine_type)
    accelerator = catalog.accelerator(kind.accelerator)
    return catalog.fitting_counts(machine, accelerator) if machine and accelerator else ()


def counts_known(kind: HostKind) -> tuple[int, ...]:
    """Return the counts of a measured host, without reading the whole catalog, which takes 0.1 s.

    Every measured count is possible.
    """
    machine = known_machines().get(kind.machine_type)
    count_lists = (
        fitting_counts(machine, accelerator, product)
        for accelerator in (known_accelerators() if machine else ())
        for product, name in accelerator.enum_by_product.items()
        if machine and name == kind.accelerator
    )
    counts = next(count_lists, ())
    return counts if kind.per_host in counts else ()


def host_kind(
    catalog: Catalog,
    machine_type: str,
    machine: MachineType | None,
    devices: tuple[str, int],
    gbps: float,
) -> HostKind:
    """Describe a kind of host with a network of ``gbps`` Gbit/s.

    Of a machine type of Google the rate is an assumption, and of an owner's overlay it is not.
    ``devices`` are the enum name and the count of its accelerators, or ``CPU`` and 1.
    """
    name, count = devices
    accelerator = catalog.accelerator(name)
    return HostKind(
        machine_type=machine_type,
        accelerator=name,
        per_host=count,
        cpus=int(machine.vcpus) if machine and machine.vcpus else 0,
        inside=accelerator.inside if accelerator and count > 1 else "",
        inside_bytes=accelerator.inside_gbytes * _GIGA if accelerator and count > 1 else 0.0,
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
