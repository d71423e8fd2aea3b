"""Turns a measured curve into a calibration: each of its counts is a run of the job."""

from collections.abc import Mapping
from typing import Final

from trainshed.planning.scaling.calibration import Calibration, Run, RunKind
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.prediction import NoPrediction
from trainshed.planning.scaling.tables import Series, Tables
from trainshed.planning.scaling.training import Strategy, Training, gradient_width

#: Strategies by the first letters of a table's word; longer words come first.
STRATEGIES: Final[Mapping[str, Strategy]] = {
    "fsdp-shard_grad": Strategy.ALLREDUCE,
    "fsdp": Strategy.FSDP,
    "allreduce-cpu": Strategy.ALLREDUCE_CPU,
    "allreduce": Strategy.ALLREDUCE,
    "ps-naive": Strategy.PS_NAIVE,
    "ps-cpu": Strategy.PS_CPU,
    "ps-gpu": Strategy.PS_GPU,
    "ps-distributed": Strategy.PS_DISTRIBUTED,
    "reducers": Strategy.REDUCERS,
    "dp-over-pods": Strategy.PODS,
}
_MILLION, _GIGA = 1e6, 1e9
#: Steps outside of these seconds show a batch in another unit than the rate.
_SHORT_S, _LONG_S = 0.005, 60.0


def calibration_of(
    series: Series, tables: Tables, host: HostKind | None = None
) -> Calibration | NoPrediction:
    """Convert a curve to a calibration; ``host`` is the measured host, if a job file names it."""
    if not all(point.batch for point in series.points):
        return NoPrediction(
            field="batch_per_acc",
            message=f"series {series.id} has no batch, from which the time of a step is computed",
            accepted="batch_per_acc, or local_batch with a value for each point",
        )
    training = training_of(series, tables)
    if training is None:
        return NoPrediction(
            field="strategy",
            message=f"series {series.id} exchanges by {series.strategy}, which is unknown",
            accepted=", ".join(STRATEGIES),
        )
    return calibrated(training, host or host_of(series, tables), runs_of(series))


def runs_of(series: Series) -> list[Run]:
    """Return each count of a curve, whose points have batches, as a run of a job."""
    return [
        Run(
            kind=RunKind.JOB,
            accelerators=point.accelerators,
            hosts=point.hosts,
            batch_per_accelerator=point.batch,
            steps=1,
            step_s=point.accelerators * point.batch / point.throughput,
        )
        for point in series.points
    ]


def doubts(calibration: Calibration) -> tuple[str, ...]:
    """Return a warning if a batch and a rate seem to be in different units; else nothing."""
    return tuple(
        f"a step of {run.step_s:.3g} s on {run.accelerators}: "
        "is the batch in the unit that the rate counts?"
        for run in calibration.runs
        if not _SHORT_S <= run.step_s <= _LONG_S
    )[:1]


def training_of(series: Series, tables: Tables) -> Training | None:
    """Return the training of a curve; None if its strategy is unknown."""
    strategies = (
        strategy for word, strategy in STRATEGIES.items() if series.strategy.startswith(word)
    )
    strategy = next(strategies, None)
    if strategy is None:
        return None
    card = tables.models.get(series.model)
    parameters = series.params or (card.params * _MILLION if card else 0.0)
    is_sharded = series.strategy.startswith("fsdp")
    width = gradient_width(series.precision, Strategy.FSDP if is_sharded else strategy)
    return Training(
        model=series.model,
        parameters=parameters,
        largest=card.largest * _MILLION if card else 0.0,
        gradient_bytes=0.0 if card and not card.dense else parameters * width,
        batch_per_accelerator=series.points[0].batch,
        precision=series.precision or "fp32",
        strategy=strategy,
        stack=series.framework,
        data=series.data,
    )


def host_of(series: Series, tables: Tables) -> HostKind:
    """Return the kind of host on which a curve was measured."""
    per_host = max(-(-point.accelerators // point.hosts) for point in series.points)
    card = tables.systems.get(series.system)
    if card is None:
        return HostKind(accelerator=series.system or "accelerator", per_host=per_host)
    link = tables.links.get(card.intra)
    return HostKind(
        machine_type=card.name,
        accelerator=card.accelerator,
        per_host=card.per_host,
        inside=card.intra,
        inside_bytes=link.gbytes * _GIGA if link else 0.0,
        network="tcp" if "-tcp" in series.strategy else card.network,
        network_gbps=card.network_gbps,
    )
