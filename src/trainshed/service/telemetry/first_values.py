"""Reports a new series of a counter as 0 before its first value, to programs that scrape.

Prometheus computes increases between two samples.  A series that begins with a value hides it, and
a counter that a new server has counted up to its old value hides all of it.  Other callers get the
values themselves.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from trainshed.service.telemetry.family import Distribution, Family, FamilyKind, FamilySamples

#: Seconds for which a series is 0, from the first scrape that has it: so two programs that scrape
#: every 15 s both get the 0.
ZERO_S: Final = 15.0


class FirstValues:
    """Remembers since when scrapes have had each series.  For one thread at a time."""

    def __init__(self) -> None:
        self._began_s: dict[tuple[Family, tuple[str, ...]], float] = {}

    def begin_at_zero(
        self, families: Iterable[FamilySamples], now_s: float
    ) -> Iterator[FamilySamples]:
        """Return what a scrape at ``now_s`` gets of families that began at 0 with the process."""
        for family, samples in families:
            if family.kind in {FamilyKind.COUNTER, FamilyKind.HISTOGRAM}:
                yield family, self._replace_first(family, samples, now_s)
            else:
                yield family, samples

    def _replace_first(
        self, family: Family, samples: Mapping[tuple[str, ...], float | Distribution], now_s: float
    ) -> Mapping[tuple[str, ...], float | Distribution]:
        return {
            labels: value
            if now_s - self._began_s.setdefault((family, labels), now_s) >= ZERO_S
            else _zero_of(value)
            for labels, value in samples.items()
        }


def _zero_of(value: float | Distribution) -> float | Distribution:
    if isinstance(value, Distribution):
        return Distribution((0,) * len(value.counts), 0, 0.0)
    return 0.0
