"""Machine types: Compute Engine names, the legacy names of AI Platform, TPU hosts (R5, R6)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from trainshed.catalog.rows import Row, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledAccelerators:
    """The accelerators that a machine type comes with."""

    type: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tpu:
    """What makes a machine type a TPU host; ``topologies`` is empty where none is chosen."""

    types: tuple[str, ...]
    topologies: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    """One machine type.  vCPU and memory are None where no source prints them (TPU nodes)."""

    name: str
    family: str
    category: str
    vcpus: int | None
    memory_gb: float | None
    egress_gbps: float | None
    bundled: BundledAccelerators | None = None
    bundled_required: bool = False
    tpu: Tpu | None = None
    equivalent: str | None = None
    products: frozenset[str] = frozenset()
    sources: tuple[str, ...] = ()

    @property
    def is_legacy(self) -> bool:
        """Whether this is one of AI Platform's own names, which take no acceleratorConfig."""
        return self.category == "legacy"


def machine_from_row(row: Row) -> MachineType:
    """A machine type from a row of machine_types.toml or of a user's overlay."""
    bundled = row.get("accelerator")
    return MachineType(
        name=row["name"],
        family=row.get("family", row["name"].split("-", maxsplit=1)[0]),
        category=row.get("category", "general"),
        vcpus=row.get("vcpus"),
        memory_gb=row.get("memory_gb"),
        egress_gbps=row.get("egress_gbps"),
        bundled=BundledAccelerators(type=bundled["type"], count=bundled["count"])
        if bundled
        else None,
        bundled_required=bool(bundled) and row.get("accelerator_required", False),
        tpu=_tpu(row) if "tpu" in row else None,
        equivalent=row.get("compute_engine_equivalent"),
        products=frozenset(row.get("products", ["ml", "vertex"])),
        sources=tuple(row.get("src", ["overlay"])),
    )


def _tpu(row: Row) -> Tpu:
    tpu = row["tpu"]
    types = tuple(tpu.get("types", [tpu.get("kind")]))
    return Tpu(types=types, topologies=_topologies().get(row["name"], ()))


@cache
def _topologies() -> Mapping[str, tuple[str, ...]]:
    """Topologies by machine type, from the limits "TPU ... topologies" of job_limits.toml."""
    found = {}
    for limit in rows("job_limits", "limit"):
        if limit["field"].endswith("topologies"):
            for entry in limit["values"]:
                name, *topologies = entry.split()
                found[name] = tuple(topologies)
    return found


@cache
def known_machines() -> Mapping[str, MachineType]:
    """Every machine type of the data, also those that no product accepts."""
    found = (machine_from_row(row) for row in rows("machine_types", "machine_type"))
    return {machine.name: machine for machine in found}
