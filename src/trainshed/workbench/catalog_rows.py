"""The catalog as rows for tables and JSON: one function for each noun, all with the same signature.

A row is a flat mapping; the first key is the row's name.  The table shows the keys of ``COLUMNS``,
JSON shows them all.
"""

from collections.abc import Callable, Mapping
from typing import Any

from trainshed.catalog import Catalog, editions
from trainshed.catalog.rows import rows
from trainshed.catalog.software import runtimes

Row = dict[str, Any]


def machine_types(catalog: Catalog) -> list[Row]:
    """Return the machine types that the edition accepts."""
    return [
        {
            "name": machine.name,
            "category": machine.category,
            "vcpus": machine.vcpus,
            "memory_gb": machine.memory_gb,
            "accelerator": f"{machine.bundled.count} x {machine.bundled.type}"
            if machine.bundled
            else None,
            "egress_gbps": machine.egress_gbps,
            "equivalent": machine.equivalent,
            "fits": _fits(catalog, machine.name),
            "sources": list(machine.sources),
        }
        for machine in catalog.machines.values()
    ]


def _fits(catalog: Catalog, name: str) -> dict[str, list[int]]:
    machine = catalog.machines[name]
    by_accelerator = {
        accelerator.enum_by_product[catalog.product]: catalog.fitting_counts(machine, accelerator)
        for accelerator in catalog.accelerators
        if catalog.product in accelerator.enum_by_product and catalog.in_edition(accelerator)
    }
    return {name: list(counts) for name, counts in by_accelerator.items() if counts}


def accelerators(catalog: Catalog) -> list[Row]:
    """Return the accelerators of the edition, with the names of its dialect."""
    return [
        {
            "name": accelerator.enum_by_product[catalog.product],
            "short_name": accelerator.name,
            "counts": list(accelerator.counts),
            "memory_gib": accelerator.memory_gib,
            "attached_to": accelerator.family,
            "end_of_support": str(accelerator.end_of_support or "") or None,
            "regions": [r.name for r in catalog.regions.values() if r.offers(accelerator.name)],
            "sources": list(accelerator.sources),
        }
        for accelerator in catalog.accelerators
        if catalog.product in accelerator.enum_by_product and catalog.in_edition(accelerator)
    ]


def regions(catalog: Catalog) -> list[Row]:
    """Return the regions with their accelerators for training."""
    zones = catalog.snapshot.regions if catalog.snapshot else {}
    return [
        {
            "name": region.name,
            "gpus": region.has_gpus,
            "accelerators": sorted(region.types),
            "zones": {zone: sorted(types) for zone, types in zones.get(region.name, {}).items()},
        }
        for region in catalog.regions.values()
    ]


def runtime_versions(_catalog: Catalog) -> list[Row]:
    """Return the runtime versions of AI Platform Training."""
    return [
        {
            "name": runtime.version,
            "tensorflow": runtime.tensorflow,
            "python": list(runtime.python),
            "released": str(runtime.released or "") or None,
        }
        for runtime in runtimes().values()
    ]


def images(_catalog: Catalog) -> list[Row]:
    """Return the prebuilt images of Vertex AI."""
    return [
        {
            "name": row["path"],
            **{key: row[key] for key in ("framework", "version", "accelerator")},
            **{key: row.get(key) for key in ("python", "end_of_patch", "end_of_availability")},
        }
        for row in rows("vertex_images", "image")
    ]


def edition_rows(_catalog: Catalog) -> list[Row]:
    """Return the editions, oldest first."""
    return [
        {
            "name": edition.id,
            "aliases": list(edition.aliases),
            "product": edition.product.value,
            "date": str(edition.date),
            "zone_snapshot": edition.zone_snapshot,
        }
        for edition in editions()
    ]


NOUNS: Mapping[str, Callable[[Catalog], list[Row]]] = {
    "machine-types": machine_types,
    "accelerators": accelerators,
    "regions": regions,
    "runtimes": runtime_versions,
    "images": images,
    "editions": edition_rows,
}

#: The columns of a table; ``describe`` and JSON show all keys.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "machine-types": ("name", "category", "vcpus", "memory_gb", "accelerator"),
    "accelerators": ("name", "counts", "memory_gib", "attached_to", "end_of_support"),
    "regions": ("name", "gpus", "accelerators"),
    "runtimes": ("name", "tensorflow", "python", "released"),
    "images": ("name", "framework", "version", "accelerator", "end_of_availability"),
    "editions": ("name", "aliases", "product", "date", "zone_snapshot"),
}
