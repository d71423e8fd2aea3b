"""The type of a Prometheus family, and its samples."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class FamilyKind(enum.Enum):
    """The types of Prometheus, as both text formats write them."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """A metric family; ``name`` has its unit at the end, and never ``_total``."""

    name: str
    kind: FamilyKind
    text: str
    """What a sample is, in one line."""
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """The upper bounds of a histogram, ascending, without infinity; at most 11."""

    @property
    def sample_name(self) -> str:
        """Return the name of a sample: counters end in ``_total``."""
        return f"{self.name}_total" if self.kind is FamilyKind.COUNTER else self.name


class Distribution(NamedTuple):
    """The value of a histogram or summary."""

    counts: tuple[int, ...]
    """The number of values in each bucket, the last bucket for larger values; of a summary: ()."""
    number: int
    total: float
    """The sum of all values."""


#: Values by a tuple of the labels' values, in the order of ``Family.labels``; Any, because the type
#: of a mapping's keys is invariant, and tuples of two texts are not tuples of any length.
Samples = Mapping[Any, float | Distribution]
FamilySamples = tuple[Family, Samples]
