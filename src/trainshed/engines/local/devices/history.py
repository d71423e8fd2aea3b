"""What the samples of one GPU say together: its mean use, its energy, and how long it was not used.

All times are seconds of a monotonic clock: the machine's clock may be set.  A gap in the samples is
a gap: no energy is counted for it, and it ends the time in which the GPU was not used.
"""

from collections import deque
from dataclasses import replace
from typing import Final

from trainshed.engines.supervise.record.gpu_file import EVERY_S, GpuFigures
from trainshed.model.gpus import GpuSample

#: Seconds between two samples from which on they have a gap.
GAP_S: Final = 10.0
_MINUTE: Final = 60
#: Ten minutes of figures.
_FIGURES: Final = round(600 / EVERY_S)


class GpuHistory:
    """The last ten minutes of one GPU."""

    def __init__(self) -> None:
        self.recent: deque[tuple[float, GpuFigures]] = deque(maxlen=_FIGURES)
        """The figures of ten minutes, each with its time in seconds since 1970."""
        self._minute: deque[float] = deque(maxlen=_MINUTE)
        self._uses: list[float] = []
        self._powers: list[float] = []
        self._last_s: float | None = None
        self._last = GpuFigures()
        self._zero_since_s: float | None = None
        self._sum_j: float | None = None

    def add(self, sample: GpuSample, now_s: float) -> GpuSample:
        """Add a sample; return it with the mean use of the last minute and with its energy."""
        elapsed_s = 0.0 if self._last_s is None else now_s - self._last_s
        is_after_gap = elapsed_s > GAP_S
        if sample.use is not None:
            self._minute.append(sample.use)
            self._uses.append(sample.use)
        if sample.power_w is not None:
            self._powers.append(sample.power_w)
        self._note_use(sample.use, now_s, is_after_gap=is_after_gap)
        sample = self._add_energy(sample, 0.0 if is_after_gap else elapsed_s)
        mean = _mean(self._minute) if sample.use is not None else None
        sample = replace(sample, use_minute=mean)
        self._last_s, self._last = now_s, _figures_of(sample)
        return sample

    def unused_s(self, now_s: float) -> float | None:
        """Return for how many seconds no sample has shown use; None if the use is not measured."""
        if self._last.use is None or self._last_s is None or now_s - self._last_s > GAP_S:
            return None
        return 0.0 if self._zero_since_s is None else now_s - self._zero_since_s

    def take_figures(self, at: float) -> GpuFigures:
        """Return the figures since the last call, and keep them for ten minutes.

        ``at`` is the present time in seconds since 1970.
        """
        figures = self._last._replace(use=_mean(self._uses), power=_mean(self._powers))
        self._uses, self._powers = [], []
        self.recent.append((at, figures))
        return figures

    def _note_use(self, use: float | None, now_s: float, *, is_after_gap: bool) -> None:
        if use != 0:
            self._zero_since_s = None
        elif self._zero_since_s is None or is_after_gap:
            self._zero_since_s = now_s

    def _add_energy(self, sample: GpuSample, elapsed_s: float) -> GpuSample:
        """Sum the power of a GPU whose first sample had no counter of energy.

        The choice holds for good: a counter that appears later would look like used energy.
        """
        if self._last_s is None and sample.energy_j is None and sample.power_w is not None:
            self._sum_j = 0.0
        if self._sum_j is None:
            return sample
        self._sum_j += (sample.power_w or 0.0) * elapsed_s
        return replace(sample, energy_j=self._sum_j, is_energy_summed=True)


def _figures_of(sample: GpuSample) -> GpuFigures:
    memory, temperature = sample.used_bytes, sample.temperature_c
    return GpuFigures(
        use=sample.use,
        memory=None if memory is None else float(memory),
        power=sample.power_w,
        temperature=None if temperature is None else float(temperature),
        energy_j=sample.energy_j,
    )


def _mean(values: deque[float] | list[float]) -> float | None:
    return sum(values) / len(values) if values else None
