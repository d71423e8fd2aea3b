"""Builds a catalog from one edition, a zone snapshot, and a user's overlays."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TypeVar

from trainshed.catalog.accelerators import AcceleratorType, accelerator_from_row, known_accelerators
from trainshed.catalog.catalog import Catalog
from trainshed.catalog.editions import Edition, Product, edition_named
from trainshed.catalog.machines import MachineType, known_machines, machine_from_row
from trainshed.catalog.quotas import quotas_of
from trainshed.catalog.regions import Region, regions_of, snapshot_named
from trainshed.catalog.rows import Row
from trainshed.model.faults import UsageFault

_Value = TypeVar("_Value")

OVERLAY_KEYS = frozenset({"machine_type", "accelerator", "region"})


def load(
    edition: str, *, overlays: Sequence[Row] = (), zone_snapshot: str | None = None
) -> Catalog:
    """Return the catalog of an edition, by id or alias.

    ``overlays`` are TOML documents with ``[[machine_type]]``, ``[[accelerator]]`` and
    ``[[region]]`` tables of a user's own; a row with the name of an existing row replaces that row.
    Raises UnknownEdition, UnknownSnapshot, and UsageFault for an overlay with a malformed row.
    """
    catalog = _base(edition_named(edition), zone_snapshot)
    for rows in overlays:
        catalog = overlay(catalog, rows)
    return catalog


@cache
def _base(edition: Edition, zone_snapshot: str | None) -> Catalog:
    snapshot = zone_snapshot or edition.zone_snapshot
    return Catalog(
        edition=edition,
        machines=_accepted_machines(edition, known_machines()),
        known_machines=known_machines(),
        accelerators=known_accelerators(),
        regions=regions_of(edition),
        snapshot=snapshot_named(snapshot) if snapshot else None,
        quotas=quotas_of(edition.product),
    )


def _accepted_machines(
    edition: Edition, machines: Mapping[str, MachineType]
) -> Mapping[str, MachineType]:
    """Return the machine types of the product whose category the edition's document has.

    A type is left out if its bundled accelerator is newer than the edition.
    """
    listed = edition.accelerators
    enums = {
        a.enum_by_product.get(edition.product)
        for a in known_accelerators()
        if listed is None or a.name in listed
    }
    return {
        name: machine
        for name, machine in machines.items()
        if edition.product.value in machine.products
        and machine.category in edition.machine_categories
        and (machine.bundled is None or machine.bundled.type in enums)
    }


def overlay(catalog: Catalog, rows: Row) -> Catalog:
    """Return the catalog with a user's own machine types, accelerators and regions added."""
    if unknown := set(rows) - OVERLAY_KEYS:
        raise UsageFault(
            f"a catalog overlay has no table {', '.join(sorted(unknown))}; "
            f"it may have {', '.join(sorted(OVERLAY_KEYS))}"
        )
    machines = {
        machine.name: machine for machine in _read_rows(rows, "machine_type", machine_from_row)
    }
    read_accelerator = partial(_own_accelerator, product=catalog.product)
    devices = list(_read_rows(rows, "accelerator", read_accelerator))
    regions = {region.name: region for region in _read_rows(rows, "region", _own_region)}
    replaced = {device.name for device in devices}
    unchanged = tuple(a for a in catalog.accelerators if a.name not in replaced)
    return replace(
        catalog,
        machines={**catalog.machines, **machines},
        known_machines={**catalog.known_machines, **machines},
        accelerators=(*unchanged, *devices),
        regions={**catalog.regions, **regions},
    )


def _read_rows(rows: Row, table: str, read: Callable[[Row], _Value]) -> Iterator[_Value]:
    """Read the rows of a table of the overlay.  Raises UsageFault with the row's number."""
    table_rows = rows.get(table, ())
    if not isinstance(table_rows, (list, tuple)):
        raise UsageFault(f"{table} of the catalog overlay must be a list of tables")
    for number, row in enumerate(table_rows, 1):
        field = f"{table} {number} of the catalog overlay"
        if not isinstance(row, dict) or not isinstance(row.get("name"), str):
            raise UsageFault(f"{field} must have a name, which is a text")
        try:
            yield read(row)
        except KeyError as error:
            raise UsageFault(f"{field} must have the key {error}") from error
        except (AttributeError, TypeError, ValueError) as error:
            raise UsageFault(f"{field} is malformed: {error}") from error


def _own_accelerator(row: Row, product: Product) -> AcceleratorType:
    """Read a user's accelerator; by default, its name is also its enum name."""
    enum = row.get("enum", row.get(f"enum_{product.value}", row["name"]))
    filled = {"attach_to": "any", "counts": [1, 2, 4, 8], **row, f"enum_{product.value}": enum}
    return accelerator_from_row(filled)


def _own_region(row: Row) -> Region:
    types = frozenset(row.get("accelerators", ()))
    types_judged = None if "accelerators" in row else frozenset[str]()
    return Region(name=row["name"], has_gpus=True, types=types, types_judged=types_judged)
