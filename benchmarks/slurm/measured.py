"""The values that the parts of the benchmark have measured."""

import statistics
from dataclasses import dataclass, field

from benchmarks.harness import Goal


@dataclass(slots=True)
class Measured:
    """The measurements of the parts of the benchmark."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    """Seconds from a submission to the first line, by side; one value for each round."""
    goals: list[Goal] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def median(self, side: str) -> float:
        """Return the median seconds of a side that ran."""
        return statistics.median(self.seconds[side])
