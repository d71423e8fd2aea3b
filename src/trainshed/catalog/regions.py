"""Regions, and the accelerators that a job may use in a region or in one zone.

A zone snapshot has the facts of one day, and each edition has its own snapshot.  The
counter-example in the documents (T4, K80 and P100 in us-central1) is true only in the older ones.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from trainshed.catalog.editions import Edition, Product
from trainshed.catalog.rows import rows, table


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A region with the facts of one edition.

    ``types`` are the accelerators that training may use.  ``excluded`` are listed for the region
    but not for training.  Availability of types outside ``types_judged`` is unknown, so not
    checked.
    """

    name: str
    has_gpus: bool
    types: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    types_judged: frozenset[str] | None = frozenset()
    """None: the availability of every type is known."""

    def offers(self, accelerator: str) -> bool | None:
        """Whether the region has the accelerator for training; None when that is not known."""
        if accelerator in self.types:
            return True
        return False if self.types_judged is None or accelerator in self.types_judged else None


def regions_of(edition: Edition) -> Mapping[str, Region]:
    """Return all regions of an edition by name."""
    return _vertex_regions() if edition.product is Product.VERTEX else _ml_regions(edition)


@cache
def _vertex_regions() -> Mapping[str, Region]:
    listed = {row["region"]: row for row in rows("regions", "vertex_region")}
    return {
        name: Region(
            name=name,
            has_gpus=name in listed,
            types=frozenset(listed.get(name, {}).get("training", ())),
            excluded=frozenset(listed.get(name, {}).get("listed_but_not_for_training", ())),
            types_judged=None,
        )
        for name in dict.fromkeys((*_names(), *listed))
    }


@cache
def _ml_regions(edition: Edition) -> Mapping[str, Region]:
    document = next(d for d in rows("regions", "doc_version") if d["id"] == edition.document)
    gpu_regions = set(document["gpu_regions"])
    types = {row["region"]: set(row["use"]) for row in rows("regions", "ml_region")}
    tpu_types = _tpu_types()
    judged = {"TPU v2", "TPU v3"}
    if edition.region_types_known:
        judged |= set().union(*types.values())
    return {
        name: Region(
            name=name,
            has_gpus=name in gpu_regions,
            types=frozenset(types.get(name, set()) | tpu_types.get(name, set())),
            types_judged=frozenset(judged),
        )
        for name in _names()
    }


@cache
def _tpu_types() -> Mapping[str, set[str]]:
    """Return TPU types by region, from the zones of zones.toml (2022: the newest data)."""
    types: dict[str, set[str]] = {}
    for row in rows("zones", "tpu_zone"):
        for zone in row["zones"]:
            name = row["type"].replace("TPU_V", "TPU v")
            types.setdefault(zone.rsplit("-", 1)[0], set()).add(name)
    return types


@cache
def _names() -> tuple[str, ...]:
    """Return the 38 names that Google's own client accepts (docs/sources/gcloud.md 1.4)."""
    names: list[str] = table("regions")["vertex_training_regions"]["names"]
    return tuple(names)


class UnknownSnapshot(LookupError):
    """No zone snapshot has this name; the message lists those that exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSnapshot:
    """GPU types by zone on one day.  A region that is not in ``regions`` is unknown, not empty."""

    id: str
    date: str
    types_covered: frozenset[str]
    regions: Mapping[str, Mapping[str, frozenset[str]]]
    complete: bool

    def judges(self, region: str) -> bool:
        """Whether the snapshot has the region."""
        return self.complete or region in self.regions

    def common_zones(self, region: str, types: Iterable[str]) -> tuple[str, ...]:
        """Return the zones of ``region`` that have all of the covered ``types``."""
        types_needed = self.types_covered.intersection(types)
        zones = self.regions.get(region, {})
        return tuple(
            sorted(zone for zone, zone_types in zones.items() if types_needed <= zone_types)
        )

    def types_in(self, region: str) -> frozenset[str]:
        """Return every GPU type that at least one zone of the region has."""
        return frozenset().union(*self.regions.get(region, {}).values())


@cache
def snapshots() -> Mapping[str, ZoneSnapshot]:
    """Return all snapshots by id."""
    by_id = {}
    for row in rows("zones", "snapshot"):
        regions: dict[str, dict[str, frozenset[str]]] = {}
        for zone in rows("zones", "zone"):
            if zone["snapshot"] == row["id"]:
                regions.setdefault(zone["region"], {})[zone["zone"]] = frozenset(zone["types"])
        by_id[row["id"]] = ZoneSnapshot(
            id=row["id"],
            date=row["date"],
            types_covered=frozenset(row["types_covered"]),
            regions=regions,
            complete=row["complete"],
        )
    return by_id


def snapshot_named(name: str) -> ZoneSnapshot:
    """Return the snapshot with this id.  Raises UnknownSnapshot."""
    try:
        return snapshots()[name]
    except KeyError:
        names = ", ".join(snapshots())
        raise UnknownSnapshot(
            f"there is no zone snapshot {name!r}; the snapshots are {names}"
        ) from None
