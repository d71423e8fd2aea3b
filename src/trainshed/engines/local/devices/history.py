"""What the samples of one GPU say together: its mean use, its energy, and how long it was not used.

All times are seconds of a monotonic clock: the machine's clock may be set.  A gap in the samples
ends the time in which the GPU was not used.
"""

from collections import deque
from dataclasses import replace
from typing import Final

from trainshed.engines.supervise.record.gpu_file import EVERY_S, GpuFigures
from trainshed.engines.supervise.record.gpu_means import GAP_S, GpuMeans
from trainshed.model.gpus import GpuSample

_MINUTE: Final = 60
#: Ten minutes of figures.
_FIGURES: Final = round(600 / EVERY_S)


class GpuHistory:
    """The last ten minutes of one GPU."""

    def __init__(self, unused_s: float = 0.0) -> None:
        """``unused_s``: for how many seconds it was not used before, as a file says."""
        self._unused_before_s = unused_s
        self.recent: deque[tuple[float, GpuFigures]] = deque(maxlen=_FIGURES)
        """The figures of ten minutes, each with its time in seconds since 1970."""
        self._means = GpuMeans()
        self._minute: deque[float] = deque(maxlen=_MINUTE)
        self._use: float | None = None
        self._last_s: float | None = None
        self._zero_since_s: float | None = None

    def add(self, sample: GpuSample, now_s: float) -> GpuSample:
        """Add a sample; return it with the mean use of the last minute and with its energy."""
        figures = self._means.add(_figures_of(sample), now_s)
        if sample.use is not None:
            self._minute.append(sample.use)
        self._note_use(sample.use, now_s)
        mean = sum(self._minute) / len(self._minute) if sample.use is not None else None
        is_summed = self._means.is_summed
        return replace(
            sample, use_minute=mean, energy_j=figures.energy_j, is_energy_summed=is_summed
        )

    def unused_s(self, now_s: float) -> float | None:
        """Return for how many seconds no sample has shown use; None if the use is not measured."""
        if self._use is None or self._has_gap(now_s):
            return None
        return 0.0 if self._zero_since_s is None else now_s - self._zero_since_s

    def forget_means(self) -> None:
        """Leave the uses until now out of the means: another job has got the GPU."""
        self._means.take()
        self._minute.clear()

    def take_figures(self, at: float, now_s: float) -> GpuFigures:
        """Return the figures since the last call, and keep them for ten minutes.

        ``at`` is the present time in seconds since 1970.
        """
        figures = self._means.take()._replace(unused_s=self.unused_s(now_s))
        self.recent.append((at, figures))
        return figures

    def _note_use(self, use: float | None, now_s: float) -> None:
        if use != 0:
            self._zero_since_s = None
        elif self._last_s is None:
            self._zero_since_s = now_s - self._unused_before_s
        elif self._zero_since_s is None or self._has_gap(now_s):
            self._zero_since_s = now_s
        self._use, self._last_s = use, now_s

    def _has_gap(self, now_s: float) -> bool:
        return self._last_s is None or now_s - self._last_s > GAP_S


def _figures_of(sample: GpuSample) -> GpuFigures:
    memory, temperature = sample.used_bytes, sample.temperature_c
    return GpuFigures(
        use=sample.use,
        memory=None if memory is None else float(memory),
        power=sample.power_w,
        temperature=None if temperature is None else float(temperature),
        energy_j=sample.energy_j,
    )
