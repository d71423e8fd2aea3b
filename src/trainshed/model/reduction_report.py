"""The report on the exchanges of a job's workers, which rank 0 writes.

A trainer wrote the file, so every value is checked: a missing or negative value, or one that is not
a number, makes the report invalid.  ``trainshed_trainer.reduction`` writes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

#: The only version of the format.
VERSION: Final = 1
#: The most workers or reducers in a report: more than any job has.
HOSTS_MAX: Final = 1 << 16
#: The most rounds or bytes in a report: more than any job has.
COUNT_MAX: Final = 1 << 62

#: The kinds of events of a job: the prediction, and its comparison with the result.
PLANNED: Final = "REDUCTION_PLANNED"
ACHIEVED: Final = "REDUCTION"


@dataclass(frozen=True)
class ReductionReport:
    """The exchanges of one attempt.  Rates are in Mbit/s, in each direction."""

    world: int
    reducers: int
    rounds: int
    size_bytes: int
    """All bytes that were reduced, counted once and not for each worker."""
    seconds: float
    """The time in which at least one round was in progress."""
    goodput_mbps: float
    """The rate at which gradients were reduced in that time."""
    worker_link_mbps: float
    reducer_link_mbps: tuple[float, ...]
    ring_mbps: float
    """The rate of a ring all-reduce over the same links; 0 for a single worker."""


def report_of(document: object) -> ReductionReport:
    """Read the JSON of a report.  Raises ValueError for any other document."""
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise ValueError(f"version must be {VERSION} in a report of reductions")
    links = document.get("reducer_link_mbps")
    if not isinstance(links, list) or len(links) > HOSTS_MAX:
        raise ValueError(f"reducer_link_mbps must be a list of up to {HOSTS_MAX} rates")
    return ReductionReport(
        world=_count(document, "world", most=HOSTS_MAX),
        reducers=_count(document, "reducers", most=HOSTS_MAX),
        rounds=_count(document, "rounds"),
        size_bytes=_count(document, "bytes"),
        seconds=_number("seconds", document.get("seconds")),
        goodput_mbps=_number("goodput_mbps", document.get("goodput_mbps")),
        worker_link_mbps=_number("worker_link_mbps", document.get("worker_link_mbps")),
        reducer_link_mbps=tuple(_number("reducer_link_mbps", link) for link in links),
        ring_mbps=_number("ring_mbps", document.get("ring_mbps") or 0),
    )


def _count(document: Mapping[str, Any], name: str, *, most: int = COUNT_MAX) -> int:
    count = document.get(name)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= most:
        raise ValueError(f"{name} must be a number from 0 to {most}")
    return count


def _number(name: str, number: object) -> float:
    """Return a finite number that is not negative; JSON may have whole numbers of any length."""
    if (
        isinstance(number, (int, float))
        and not isinstance(number, bool)
        and 0 <= number <= COUNT_MAX
    ):
        return float(number)  # NaN is not between them
    raise ValueError(f"{name} must be a number from 0 to {COUNT_MAX}")
