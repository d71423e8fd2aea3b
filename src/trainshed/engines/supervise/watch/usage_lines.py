"""Makes the lines of an attempt's usage from samples; a pure function of times and samples.

Rates are differences of counters.  A difference over a gap says nothing about its parts: a gap is a
time in which the supervisor was stopped, or in which the clock was set.  A gap ends a line, and the
next line begins after it.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from trainshed.engines.supervise.kernel.limits import Usage
from trainshed.model.usage import (
    GAP_S,
    VALUES_MAX,
    GpuUsage,
    ReplicaUsage,
    ReportedProgress,
    Spread,
    UsageLine,
)

if TYPE_CHECKING:
    from trainshed.engines.supervise.record.gpu_file import GpuFigures

#: Seconds from the start in which each sample makes a line.
_FINE_S: Final = 600.0
#: Seconds of the later lines.
_LINE_S: Final = 60.0
#: The size of a line, in bytes as JSON; a line of twice the size has twice the seconds, so that the
#: file of a large gang, or of many values, does not grow faster than that of a small one.
_LINE_BYTES: Final = 4096
#: About how many bytes a series, a replica or a GPU has besides its name.
_NAMED_BYTES: Final = 24
#: The number of samples that may be late or missing without a gap.
_LATE_MAX: Final = 3
_NS_PER_S: Final = 1_000_000_000
#: No GPU uses as much: a counter of energy that grows faster has been replaced by another counter.
_POWER_W_MAX: Final = 5e3
#: The longest time until the readings of GPUs are new ones (``gpu_file.EVERY_S``).
_READ_AGAIN_S: Final = 10.0
#: The counter of a GPU changes at most so many seconds late (``gpu_file.FRESH_S``).
_COUNTED_S: Final = 30.0


class Samples(NamedTuple):
    """What a supervisor has measured at one time."""

    now_s: float
    """The time of the monotonic clock, in seconds."""
    at: float
    """The time in seconds since 1970."""
    usages: Mapping[str, Usage] = {}
    """By task name; a usage that is the same object as before counts as not measured again."""
    progress: Mapping[str, ReportedProgress] = {}
    """The reports since the last samples, by task name."""
    gpus: "Mapping[str, GpuFigures]" = {}  # noqa: RUF012 - of a named tuple
    """By UUID."""


class _Sum:
    """The samples of one series within a line, each with its weight."""

    __slots__ = ("high", "low", "total", "weight")

    def __init__(self) -> None:
        self.low = self.high = self.total = self.weight = 0.0

    def add(self, value: float, weight: float = 1.0) -> None:
        """``weight`` is more than 0."""
        self.low = min(self.low, value) if self.weight else value
        self.high = max(self.high, value) if self.weight else value
        self.weight += weight
        self.total += (value - self.total) * (weight / self.weight)

    def spread(self) -> Spread:
        """Return the mean with the least and the greatest value."""
        return Spread(self.low, min(self.high, max(self.low, self.total)), self.high)


class _ReplicaSums:
    """The samples of one replica within a line."""

    __slots__ = ("series", "step", "total", "values")

    def __init__(self) -> None:
        self.series: dict[str, _Sum] = {}
        self.values: dict[str, _Sum] = {}
        self.step: tuple[int, int] | None = None
        self.total: int | None = None

    def report(self, progress: ReportedProgress) -> None:
        """Add a report of the program."""
        if progress.step is not None:
            first = progress.step if self.step is None else self.step[0]
            self.step = (first, progress.step)
        self.total = self.total if progress.total is None else progress.total
        for name, value in progress.values.items():
            if name in self.values or len(self.values) < VALUES_MAX:
                _add(self.values, name, value)

    def usage(self) -> ReplicaUsage:
        """Return the usage within the line."""
        series = {name: samples.spread() for name, samples in self.series.items()}
        values = {name: samples.spread() for name, samples in self.values.items()}
        return ReplicaUsage(**series, step=self.step, total=self.total, values=values)


class _GpuSums:
    """The samples of one GPU within a line."""

    __slots__ = ("energy_j", "series", "task")

    def __init__(self) -> None:
        self.series: dict[str, _Sum] = {}
        self.energy_j: float | None = None
        self.task: str | None = None

    def usage(self) -> GpuUsage:
        """Return the usage within the line."""
        series = {name: samples.spread() for name, samples in self.series.items()}
        return GpuUsage(**series, energy_j=self.energy_j, task=self.task)


def _measured_s(usage: Usage, now_s: float) -> float:
    """Return when a usage was measured, by the clock of the machine that measured it."""
    return now_s if usage.at_s is None else usage.at_s


class LineMaker:
    """Collects samples, and returns a line whenever one is due."""

    def __init__(self, every_s: float, began: Samples) -> None:
        """``every_s`` are the seconds between two samples; ``began`` has the first counters."""
        self._gap_s = _LATE_MAX * every_s + GAP_S
        self._every_s = every_s
        self._slack_s = every_s / 2
        self._began_s = began.now_s
        self._last = began
        self._usages = {
            name: (_measured_s(usage, began.now_s), usage) for name, usage in began.usages.items()
        }
        self._energies_j: dict[str, tuple[float, float]] = {}
        self._start(began.now_s)
        self._gpus_before = began.gpus  # their means are of the time before
        for uuid, figures in began.gpus.items():
            if figures.energy_j is not None:
                self._energies_j[uuid] = (began.now_s, figures.energy_j)

    def add(self, samples: Samples, *, is_last: bool = False) -> Sequence[UsageLine]:
        """Add samples and return the lines that are complete; with ``is_last``, all lines."""
        lines = []
        if self._is_gap(samples):
            lines.append(self._end(self._last))
            self._start(samples.now_s)
            self._usages.clear()
            self._energies_j.clear()
        for name, usage in samples.usages.items():
            self._add_usage(name, usage, samples.now_s)
        for name, progress in samples.progress.items():
            if progress != ReportedProgress():
                self._replica(name).report(progress)
        self._add_gpus(samples)
        self._last = samples
        if is_last or self._is_due(samples.now_s):
            lines.append(self._end(samples))
            self._start(samples.now_s)
        return [line for line in lines if line.replicas or line.gpus]

    def _start(self, now_s: float) -> None:
        self._line_s = now_s
        self._replicas: dict[str, _ReplicaSums] = {}
        self._gpus: dict[str, _GpuSums] = {}

    def _end(self, last: Samples) -> UsageLine:
        return UsageLine(
            last.at,
            max(0.0, last.now_s - self._line_s),
            {name: sums.usage() for name, sums in self._replicas.items()},
            {uuid: sums.usage() for uuid, sums in self._gpus.items()},
        )

    def _is_gap(self, samples: Samples) -> bool:
        elapsed_s = samples.now_s - self._last.now_s
        was_set = abs(samples.at - self._last.at - elapsed_s) > GAP_S
        return was_set or elapsed_s > self._gap_s

    def _is_due(self, now_s: float) -> bool:
        is_fine = now_s - self._began_s <= _FINE_S + self._slack_s
        line_s = (self._every_s if is_fine else _LINE_S) * max(
            1.0, self._estimate_bytes() / _LINE_BYTES
        )
        return now_s - self._line_s >= line_s - self._slack_s

    def _estimate_bytes(self) -> int:
        """Return about how many bytes the line has so far."""
        names = [*self._replicas, *self._gpus]
        for replica in self._replicas.values():
            names += (*replica.series, *replica.values)
        for gpu in self._gpus.values():
            names += gpu.series
        return sum(map(len, names)) + len(names) * _NAMED_BYTES

    def _replica(self, name: str) -> _ReplicaSums:
        return self._replicas.setdefault(name, _ReplicaSums())

    def _add_usage(self, name: str, usage: Usage, now_s: float) -> None:
        now_s = _measured_s(usage, now_s)
        before_s, before = self._usages.get(name, (now_s, None))
        if usage is before:
            return
        self._usages[name] = (now_s, usage)
        if before is not None and (before.at_s is None) is not (usage.at_s is None):
            before = None  # the two times are of different machines
        series = self._replica(name).series
        if usage.memory_bytes is not None:
            _add(series, "memory", usage.memory_bytes)
        if usage.tasks is not None:
            _add(series, "processes", usage.tasks)
        if before is not None and now_s > before_s:
            _add_rate(series, "cpu", (before.cpu_ns, usage.cpu_ns), now_s - before_s, _NS_PER_S)
            _add_rate(series, "read", (before.read_bytes, usage.read_bytes), now_s - before_s)
            pair = (before.written_bytes, usage.written_bytes)
            _add_rate(series, "written", pair, now_s - before_s)

    def _add_gpus(self, samples: Samples) -> None:
        may_be_old = samples.now_s - self._began_s < _READ_AGAIN_S
        for uuid, figures in samples.gpus.items():
            if may_be_old and figures == self._gpus_before.get(uuid):
                continue
            sums = self._gpus.setdefault(uuid, _GpuSums())
            sums.task = figures.task
            for name in ("use", "memory", "power", "temperature"):
                value = getattr(figures, name)
                if value is not None:
                    _add(sums.series, name, value)
            if figures.energy_j is not None:
                self._add_energy(uuid, sums, figures.energy_j, samples.now_s)

    def _add_energy(self, uuid: str, sums: _GpuSums, energy_j: float, now_s: float) -> None:
        before_s, before_j = self._energies_j.get(uuid, (now_s, energy_j))
        self._energies_j[uuid] = (now_s, energy_j)
        elapsed_s, used_j = now_s - before_s, energy_j - before_j
        bound_j = _POWER_W_MAX * max(elapsed_s, _COUNTED_S)
        if elapsed_s > 0.0 and 0.0 <= used_j <= bound_j:  # counters count while no server reads
            sums.energy_j = (sums.energy_j or 0.0) + used_j


def _add(series: dict[str, _Sum], name: str, value: float, weight: float = 1.0) -> None:
    series.setdefault(name, _Sum()).add(value, weight)


def _add_rate(
    series: dict[str, _Sum],
    name: str,
    counters: tuple[int | None, int | None],
    elapsed_s: float,
    unit: int = 1,
) -> None:
    """Add the rate between two counters; none if one is unknown, or if the counter went back."""
    before, now = counters
    if before is not None and now is not None and now >= before:
        _add(series, name, (now - before) / unit / elapsed_s, elapsed_s)
