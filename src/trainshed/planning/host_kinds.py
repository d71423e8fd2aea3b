"""A machine type of the catalog as a kind of host that trains."""

from typing import Final

from trainshed.catalog.catalog import Catalog
from trainshed.catalog.machines import MachineType
from trainshed.planning.scaling.cluster import HostKind

CPU: Final = "CPU"
_GIGA: Final = 1e9


def host_kind(
    catalog: Catalog,
    machine_type: str,
    machine: MachineType | None,
    devices: tuple[str, int],
    gbps: float,
) -> HostKind:
    """``devices``: enum name and count of what is attached, or ``CPU`` and 1."""
    name, count = devices
    found = catalog.accelerator(name)
    return HostKind(
        machine_type=machine_type,
        accelerator=name,
        per_host=count,
        cpus=int(machine.vcpus) if machine and machine.vcpus else 0,
        inside=found.inside if found and count > 1 else "",
        inside_bytes=found.inside_gbytes * _GIGA if found and count > 1 else 0.0,
        network=found.network if found else "tcp",
        network_gbps=gbps,
    )
