"""The readings of one GPU between two writes of its figures: means, and its energy.

All times are seconds of a monotonic clock: the machine's clock may be set.  No energy is counted
for a gap in the readings.
"""

from collections.abc import Sequence
from typing import Final, Optional

from trainshed.engines.supervise.record.gpu_file import GpuFigures

#: Seconds between two readings from which on they have a gap.
GAP_S: Final = 10.0


class GpuMeans:
    """The readings of one GPU since the last ``take``."""

    def __init__(self) -> None:
        self.is_summed = False
        """Whether the driver has no counter of energy, and the energy is the sum of the power."""
        self._uses: list[float] = []
        self._powers: list[float] = []
        self._last = GpuFigures()
        self._last_s: Optional[float] = None
        self._sum_j = 0.0

    def add(self, figures: GpuFigures, now_s: float) -> GpuFigures:
        """Add a reading; return it with the energy.

        If the first reading has no counter of energy, the power is summed for good: a counter that
        appears later would look like used energy.
        """
        if self._last_s is None:
            self.is_summed = figures.energy_j is None and figures.power is not None
        if self.is_summed:
            self._sum_j += (figures.power or 0.0) * self._elapsed_s(now_s)
            figures = figures._replace(energy_j=self._sum_j)
        self._last_s, self._last = now_s, figures
        self._uses += [] if figures.use is None else [figures.use]
        self._powers += [] if figures.power is None else [figures.power]
        return figures

    def take(self) -> GpuFigures:
        """Return the last reading, with the mean use and the mean power since the last call."""
        figures = self._last._replace(use=_mean(self._uses), power=_mean(self._powers))
        self._uses, self._powers = [], []
        return figures

    def _elapsed_s(self, now_s: float) -> float:
        """Return the seconds since the last reading; 0 after a gap."""
        elapsed_s = now_s - (now_s if self._last_s is None else self._last_s)
        return elapsed_s if elapsed_s <= GAP_S else 0.0


def _mean(values: Sequence[float]) -> Optional[float]:
    return sum(values) / len(values) if values else None
