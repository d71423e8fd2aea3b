"""The published curves (``benchmarks/scaling``) as trainings, hosts and short runs of the planner.

A curve whose source prints no batch, or prints it in another unit than the rate, has no step time:
it gets one from its gradient's size (``unprinted``), and nothing else is taken from that figure.
"""

import math
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.training import Strategy, Training

TABLES = Path(__file__).parent / "scaling"
#: Not data parallel.
_LEFT_OUT = frozenset({"partial-fc", "model-parallel"})
#: A step outside of this shows that batch and rate are in different units, seconds.
_STEPS = (0.005, 60.0)
_BYTES = {"fp32": 4.0, "tf32": 4.0, "amp": 3.9}
_HALF = 2.0
#: The sequence of the benchmark that prints tokens/s and a batch in sequences.
_SEQUENCE = {"torchtitan": 8192}
_STRATEGIES = {
    "fsdp-shard_grad": Strategy.ALLREDUCE,
    "fsdp": Strategy.FSDP,
    "allreduce-cpu": Strategy.ALLREDUCE_CPU,
    "allreduce": Strategy.ALLREDUCE,
    "ps-naive": Strategy.PS_NAIVE,
    "ps-cpu": Strategy.PS_CPU,
    "ps-gpu": Strategy.PS_GPU,
    "ps-distributed": Strategy.PS_DISTRIBUTED,
    "dp-over-pods": Strategy.PODS,
}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measured count of a curve."""

    accelerators: int
    hosts: int
    batch: float
    step_s: float

    def run(self) -> Run:
        """As a short run."""
        return Run(
            kind=RunKind.JOB,
            accelerators=self.accelerators,
            hosts=self.hosts,
            batch_per_accelerator=self.batch,
            step_s=self.step_s,
            steps=100,
        )

    def cluster(self, host: HostKind) -> Cluster:
        """Where it ran."""
        return Cluster(host=host, accelerators=self.accelerators, hosts=self.hosts)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One job on one system at several counts."""

    name: str
    family: str
    system: str
    training: Training
    host: HostKind
    points: tuple[Point, ...]
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


def curves(tables: Path = TABLES, cards: Path = TABLES) -> list[Curve]:
    """Every curve that may be used for goals, in the order of its files.

    ``cards``: where models and systems are described, if not beside the tables.
    """
    models = {**_named(cards, "models", "model"), **_named(tables, "models", "model")}
    systems = {**_named(cards, "systems", "system"), **_named(tables, "systems", "system")}
    rates = {row["name"]: row["gbytes"] * 1e9 for row in _rows(cards / "systems.toml", "intra")}
    rows = [row for file in sorted(tables.glob("*.toml")) for row in _rows(file, "series")]
    return [
        _curve(row, models.get(row["model"], {}), systems[row["system"]], rates)
        for row in rows
        if not row.get("suspect") and row["strategy"] not in _LEFT_OUT
    ]


def _rows(file: Path, key: str) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    rows: list[dict[str, Any]] = tomllib.loads(file.read_text()).get(key, [])
    return rows


def _named(folder: Path, file: str, key: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in _rows(folder / f"{file}.toml", key)}


def _curve(
    row: dict[str, Any], model: dict[str, Any], system: dict[str, Any], rates: dict[str, float]
) -> Curve:
    batches, unprinted = _batches(row)
    parameters = row.get("params") or model.get("params", 0.0) * 1e6
    each = _HALF if row["strategy"].startswith("fsdp") else _BYTES.get(row["precision"], _HALF)
    training = Training(
        model=row["model"],
        parameters=parameters,
        largest=model.get("largest", 0.0) * 1e6,
        gradient_bytes=parameters * each * _travels(model),
        batch_per_accelerator=batches[0],
        precision=row["precision"],
        strategy=next(_STRATEGIES[key] for key in _STRATEGIES if row["strategy"].startswith(key)),
        stack=row.get("framework", ""),
        data=row["data"],
    )
    host = HostKind(
        machine_type=system["name"],
        accelerator=system["accelerator"],
        per_host=system["per_host"],
        inside=system["intra"],
        inside_bytes=rates[system["intra"]],
        network="tcp" if "-tcp" in row["strategy"] else system["network"],
        network_gbps=system["network_gbps"],
    )
    points = tuple(
        Point(accelerators=n, hosts=h, batch=batch, step_s=n * batch / rate)
        for (n, h, rate), batch in zip(row["points"], batches, strict=True)
    )
    return Curve(
        name=row["id"],
        family=row["family"],
        system=row["system"],
        training=training,
        host=host,
        points=points,
        unprinted=unprinted,
    )


def _travels(model: dict[str, Any]) -> bool:
    """Whether each step sends the card's parameters; a sparse layer may stand beside them."""
    return model.get("dense", True) or "layer is extra" in model.get("src", "")


def _batches(row: dict[str, Any]) -> tuple[list[float], bool]:
    """The batch of each point, and whether its unit is unknown."""
    points = row["points"]
    batches = list(row.get("local_batch") or [row.get("batch_per_acc", 0.0)] * len(points))
    noted = dict(_micro_batches(row.get("note", "")))
    if all(n in noted for n, _, _ in points):
        batches = [noted[n] for n, _, _ in points]
    if row["metric"] == "tokens/s":
        tokens = re.search(r"seq (\d+)", row.get("note", ""))
        sequence = int(tokens[1]) if tokens else _SEQUENCE.get(row["family"], 1)
        batches = [batch * sequence for batch in batches]
    n, _, rate = points[0]
    if _STEPS[0] <= n * batches[0] / rate <= _STEPS[1]:
        return batches, False
    first = batches[0] or 1.0
    return [(batch or 1.0) / first * rate / n for batch in batches], True


def _micro_batches(note: str) -> Iterator[tuple[int, float]]:
    """Samples of a step by count, where a note has ``count:micro batch x accumulation``."""
    for count, micro, accumulated in re.findall(r"(\d+):(\d+)x(\d+)", note):
        yield int(count), float(micro) * float(accumulated)


def doublings(point: Point) -> tuple[float, float]:
    """Inside a host, and of hosts."""
    return math.log2(max(1.0, point.accelerators / point.hosts)), math.log2(point.hosts)
