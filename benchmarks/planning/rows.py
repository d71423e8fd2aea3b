"""The published curves (``benchmarks/scaling``) as trainings, hosts and short runs of the planner.

A curve whose source prints no batch, or prints it in another unit than the rate, has no step time:
it gets one from its gradient's size (``unprinted``), and nothing else is taken from that figure.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Final

from benchmarks.planning.frame import PUBLISHED, tables_of
from trainshed.planning.scaling.calibration import Run
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.measured import host_of, runs_of, training_of
from trainshed.planning.scaling.tables import Series, Tables
from trainshed.planning.scaling.training import Training

#: Not data parallel.
_LEFT_OUT = frozenset({"partial-fc", "model-parallel"})
#: A step outside of this shows that batch and rate are in different units, seconds.
_STEPS = (0.005, 60.0)
#: The sequence of the benchmark that prints tokens/s and a batch in sequences.
_SEQUENCE = {"torchtitan": 8192}


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One job on one system at several counts."""

    name: str
    family: str
    system: str
    training: Training
    host: HostKind
    points: tuple[Run, ...]
    """Each count as a short run."""
    unprinted: bool
    """Its steps are in units of an unknown length."""

    def with_steps_of(self, unprinted: dict[str, float]) -> "Curve":
        """The same with the step that is assumed where none is known."""
        if not self.unprinted:
            return self
        size = max(self.training.gradient_bytes, 1e6) / 1e8
        first = unprinted["step_s"] * size ** unprinted["power"]
        factor = first / self.points[0].step_s
        points = tuple(replace(one, step_s=one.step_s * factor) for one in self.points)
        return replace(self, points=points)


#: By these the goals leave curves out of fits.
by_system: Final = attrgetter("system")
by_model: Final = attrgetter("training.model")


def curves(folder: Path = PUBLISHED) -> list[Curve]:
    """Every curve that may be used for goals, in the order of its files."""
    tables = tables_of(folder)
    return [
        _curve(series, tables)
        for series in tables.series
        if not series.suspect and series.strategy not in _LEFT_OUT
    ]


def _curve(series: Series, tables: Tables) -> Curve:
    batches, unprinted = _batches(series)
    batched = zip(series.points, batches, strict=True)
    series = replace(series, points=tuple(replace(one, batch=batch) for one, batch in batched))
    accumulated = {count: times for count, _, times in _noted_batches(series.note)}
    training = training_of(series, tables)
    if training is None:
        raise ValueError(f"{series.id}: there is no strategy {series.strategy}")
    points = tuple(
        replace(run, micro_batches=accumulated.get(run.accelerators, 1)) for run in runs_of(series)
    )
    return Curve(
        name=series.id,
        family=series.family,
        system=series.system,
        training=replace(training, micro_batches=points[0].micro_batches),
        host=host_of(series, tables),
        points=points,
        unprinted=unprinted,
    )


def _batches(series: Series) -> tuple[list[float], bool]:
    """The batch of each point, and whether its unit is unknown."""
    points = series.points
    batches = [point.batch for point in points]
    noted = {count: float(micro * times) for count, micro, times in _noted_batches(series.note)}
    if all(point.accelerators in noted for point in points):
        batches = [noted[point.accelerators] for point in points]
    if series.metric == "tokens/s":
        tokens = re.search(r"seq (\d+)", series.note)
        sequence = int(tokens[1]) if tokens else _SEQUENCE.get(series.family, 1)
        batches = [batch * sequence for batch in batches]
    rate = points[0].throughput / points[0].accelerators
    if _STEPS[0] <= batches[0] / rate <= _STEPS[1]:
        return batches, False
    first = batches[0] or 1.0
    return [(batch or 1.0) / first * rate for batch in batches], True


def _noted_batches(note: str) -> Iterator[tuple[int, int, int]]:
    """Yield count, samples of a micro batch, and micro batches, where a note has them."""
    for count, micro, times in re.findall(r"(\d+):(\d+)x(\d+)", note):
        yield int(count), int(micro), int(times)
