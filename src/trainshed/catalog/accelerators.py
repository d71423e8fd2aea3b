"""Accelerators: their names in each dialect, valid counts, and the limits of each count."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache

from trainshed.catalog.editions import Product
from trainshed.catalog.rows import Row, rows

UNSPECIFIED = "ACCELERATOR_TYPE_UNSPECIFIED"

# accelerators.toml marks K80 "end of support" for Vertex without a date; gcloud 528.0.0 (2025-06)
# already says so, which is the earliest date that a source proves.
RETIRED_ON_VERTEX = {"K80": date(2025, 6, 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLimit:
    """The most vCPU and memory that a machine with this many devices may have."""

    count: int
    vcpus_max: int
    memory_gb_max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorType:
    """One accelerator.  ``name`` is the catalog's own short name, such as ``T4``."""

    name: str
    enum_by_product: Mapping[Product, str]
    counts: tuple[int, ...]
    caps: tuple[MachineLimit, ...]
    family: str | None
    """The machine family it may be attached to; None if machine types include the accelerator."""
    memory_gib: float | None
    inside: str
    """The link between the accelerators of one host, such as ``nvlink2``; empty if unknown."""
    inside_gbytes: float
    """The nominal rate of this link in one direction, in GB/s; 0 if unknown."""
    network: str
    """The protocol between hosts: ``tcp``, or ``rdma`` where adapters write memory directly."""
    end_of_support: date | None
    sources: tuple[str, ...]

    def cap(self, count: int) -> MachineLimit | None:
        """Return the limits of a machine with ``count`` devices; None if there are none."""
        return next((cap for cap in self.caps if cap.count == count), None)

    @property
    def is_tpu(self) -> bool:
        """Whether this is a TPU and not a GPU."""
        return self.name.startswith("TPU")


def accelerator_from_row(row: Row) -> AcceleratorType:
    """Return an accelerator from a row of accelerators.toml or of a user's overlay."""
    enums = {Product.ML: row.get("enum_ml"), Product.VERTEX: row.get("enum_vertex")}
    ended = row.get("end_of_support")
    return AcceleratorType(
        name=row["name"],
        enum_by_product={product: name for product, name in enums.items() if name},
        counts=tuple(row["counts"]),
        caps=tuple(
            MachineLimit(
                count=c["count"], vcpus_max=c["max_vcpus"], memory_gb_max=c["max_memory_gb"]
            )
            for c in row.get("caps", [])
        ),
        family=_family(row.get("attach_to", "")),
        memory_gib=row.get("memory_gib_per_unit"),
        inside=row.get("inside", ""),
        inside_gbytes=row.get("inside_gbytes", 0.0),
        network=row.get("network", "tcp"),
        end_of_support=date.fromisoformat(ended) if ended else RETIRED_ON_VERTEX.get(row["name"]),
        sources=tuple(row.get("src", ["overlay"])),
    )


def _family(attach_to: str) -> str | None:
    """Return the machine family of a device that can be attached, such as ``n1``; else None."""
    return attach_to if attach_to and " " not in attach_to else None


@cache
def known_accelerators() -> tuple[AcceleratorType, ...]:
    """Return every accelerator of accelerators.toml, GPUs first."""
    return tuple(accelerator_from_row(row) for row in rows("accelerators", "accelerator"))
