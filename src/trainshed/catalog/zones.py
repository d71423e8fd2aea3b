"""Which GPU types stand together in one zone (R8).

A snapshot is what was true on one day.  Each edition has the snapshot that belongs to it: the
printed counter-example (T4, K80 and P100 in us-central1) holds only for the older ones.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from trainshed.catalog.rows import rows


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
        """Whether the snapshot can say anything about a region."""
        return self.complete or region in self.regions

    def common_zones(self, region: str, types: Iterable[str]) -> tuple[str, ...]:
        """The zones of ``region`` that have all of the covered ``types``."""
        wanted = self.types_covered.intersection(types)
        zones = self.regions.get(region, {})
        return tuple(sorted(zone for zone, has in zones.items() if wanted <= has))

    def types_in(self, region: str) -> frozenset[str]:
        """All types that some zone of the region has."""
        return frozenset().union(*self.regions.get(region, {}).values())


@cache
def snapshots() -> Mapping[str, ZoneSnapshot]:
    """All snapshots by id."""
    found = {}
    for row in rows("zones", "snapshot"):
        regions: dict[str, dict[str, frozenset[str]]] = {}
        for zone in rows("zones", "zone"):
            if zone["snapshot"] == row["id"]:
                regions.setdefault(zone["region"], {})[zone["zone"]] = frozenset(zone["types"])
        found[row["id"]] = ZoneSnapshot(
            id=row["id"],
            date=row["date"],
            types_covered=frozenset(row["types_covered"]),
            regions=regions,
            complete=row["complete"],
        )
    return found


def snapshot_named(name: str) -> ZoneSnapshot:
    """The snapshot with this id.  Raises UnknownSnapshot."""
    try:
        return snapshots()[name]
    except KeyError:
        known = ", ".join(snapshots())
        raise UnknownSnapshot(f"there is no zone snapshot {name!r}; there are {known}") from None
