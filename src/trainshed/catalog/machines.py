"""Machine types, their prices, and their network bandwidth.

Names are those of Compute Engine, and the legacy ones of AI Platform; prices are Compute Engine's
list prices of one day, where prices.toml has them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from trainshed.catalog.rows import Row, rows, table


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledAccelerators:
    """The accelerators that a machine type comes with."""

    type: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tpu:
    """The TPU of a TPU host; ``topologies`` is empty if the type needs no topology."""

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
    """Return a machine type from a row of machine_types.toml or of a user's overlay."""
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
    """Return the topologies by machine type, from the limits of job_limits.toml."""
    by_machine = {}
    for limit in rows("job_limits", "limit"):
        if limit["field"].endswith("topologies"):
            for entry in limit["values"]:
                name, *topologies = entry.split()
                by_machine[name] = tuple(topologies)
    return by_machine


@cache
def known_machines() -> Mapping[str, MachineType]:
    """Return every machine type of machine_types.toml, also those that no product accepts."""
    machines = (machine_from_row(row) for row in rows("machine_types", "machine_type"))
    return {machine.name: machine for machine in machines}


#: The region whose list has most machine types; its prices replace missing ones of other regions.
US = "us-central1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """An approximate price.  Vertex's management fee is not in it (prices.toml, note)."""

    usd_hour: float
    """US dollars per hour, on demand or for a spot machine, as the caller requested."""
    region: str
    """The region of the price, which may be another than the requested region."""
    date: str


def price_of(machine_type: str, region: str | None, *, spot: bool = False) -> Price | None:
    """Return the price in a region, else the one in us-central1, else None."""
    for place in dict.fromkeys((region or US, US)):
        if (usd_hour := _prices_by_place(spot).get((machine_type, place))) is not None:
            date = table("prices")["machine_price_date"]
            return Price(usd_hour=usd_hour, region=place, date=date)
    return None


def accelerator_price_of(name: str, *, spot: bool = False) -> Price | None:
    """Return the price of one attached accelerator by its catalog name; None if unknown."""
    for row in rows("prices", "gpu_unit"):
        if row["type"] == name:
            usd_hour = row["preemptible_usd_hour" if spot else "on_demand_usd_hour"]
            return Price(usd_hour=usd_hour, region=US, date=table("prices")["gpu_price_date"])
    return None


@cache
def _prices_by_place(spot: bool) -> dict[tuple[str, str], float]:  # noqa: FBT001 - of a cached function
    column = "spot_usd_hour" if spot else "on_demand_usd_hour"
    return {
        (row["machine"], row["region"]): row[column]
        for row in rows("prices", "machine")
        if column in row
    }


#: The decimals to which a number of reducers is rounded: 3 * 0.1 is 0.30000000000000004.
_DECIMALS = 9


def egress_gbps(machine: MachineType, gpu: str | None = None, gpu_count: int = 0) -> float | None:
    """Return the most that one machine can send, Gbit/s; ``gpu`` is a catalog name such as V100.

    N1 machines gain or lose bandwidth with their GPUs (machine_types.toml,
    gpu_vm_bandwidth_rule); machine types of other families have one rate.  None when unknown.
    """
    if machine.family != "n1" or not gpu or machine.egress_gbps is None:
        return machine.egress_gbps
    ceiling = _ceilings().get(gpu, machine.egress_gbps)
    for row in _configs(gpu, gpu_count):
        if _matches(row, machine):
            return min(float(row["gbps"]), ceiling)
    return min(machine.egress_gbps, ceiling)


def reducers_needed(worker_gbps: float, reducer_gbps: float) -> int:
    """Return the fewest reducers whose total bandwidth matches the workers'.

    The rule is Google's (docs/sources/catalog.md, seed001).
    """
    return math.ceil(round(worker_gbps / reducer_gbps, _DECIMALS)) or 1


def recommended_reducer() -> str:
    """Return the machine type that Google advises for reducers (reduction_server.toml)."""
    return str(table("reduction_server")["reduction_server"]["recommended_machine"])


@cache
def _ceilings() -> dict[str, float]:
    return {row["gpu"]: row["max_gbps"] for row in rows("machine_types", "gpu_vm_bandwidth_max")}


def _configs(gpu: str, count: int) -> list[Row]:
    configs = rows("machine_types", "gpu_vm_bandwidth_config")
    return [row for row in configs if row["gpu"] == gpu and row["count"] == count]


def _matches(row: Row, machine: MachineType) -> bool:
    """Whether a rate applies to a machine: by its least vCPUs, else only to ``*-96`` types."""
    least = row.get("vcpus_at_least_for_this_rate")
    if least is None:
        return machine.name.endswith("-96")
    return machine.vcpus is not None and machine.vcpus >= least
