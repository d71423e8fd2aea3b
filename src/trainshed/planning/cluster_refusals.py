"""Says why a cluster cannot be planned: counts, batches, helper hosts, or hosts not measured."""

from collections.abc import Sequence

from trainshed.model.texts import count_noun
from trainshed.planning.plan_request import BatchRule, PlanRequest
from trainshed.planning.planned_jobs import PlannedJob
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.fitting import timed
from trainshed.planning.scaling.prediction import NoPrediction
from trainshed.planning.scaling.training import StepBatch, Strategy
from trainshed.planning.what_ifs import MEASURE

#: The strategies whose exchanges reducers can do.
_REDUCED = frozenset({Strategy.ALLREDUCE, Strategy.REDUCERS})
_SERVED = frozenset({Strategy.PS_DISTRIBUTED, Strategy.PS_NAIVE})


def refuse_cluster(
    job: PlannedJob,
    request: PlanRequest,
    calibration: Calibration | None,
    cluster: Cluster,
    batch: StepBatch,
) -> NoPrediction | None:
    """Return why a cluster cannot be planned for a job; None if it can."""
    return (
        _unplaced(request, calibration, cluster, batch)
        or _undivided(job, request, calibration, cluster.accelerators)
        or _unserved(job, request, calibration)
    )


def refuse_host(calibrations: Sequence[Calibration], kind: HostKind) -> NoPrediction | None:
    """Return why a kind of host was not measured; None without any measurement."""
    measured = dict.fromkeys(calibration.host.name for calibration in calibrations)
    if not measured:
        return None
    return NoPrediction(
        field="calibration",
        message=f"{' and '.join(measured)} was measured, not {kind.name}",
        accepted=f"{' or '.join(measured)}; or {MEASURE}",
    )


def can_reduce(calibration: Calibration) -> bool:
    """Return whether reducers can do the exchange of a training."""
    return calibration.training.strategy in _REDUCED


def _undivided(
    job: PlannedJob, request: PlanRequest, calibration: Calibration | None, accelerators: int
) -> NoPrediction | None:
    """Return why a step's samples cannot be divided among so many accelerators."""
    if calibration is None or request.batch is BatchRule.KEEP_LOCAL:
        return None
    samples = job.global_batch(calibration)
    if accelerators <= samples or calibration.training.batch_per_accelerator % 1:
        return None
    return NoPrediction(
        field="batch",
        message=f"a step has {samples:,.12g} samples, fewer than the {accelerators} accelerators",
        accepted=f"at most {samples:,.12g} accelerators, or --batch keep-local",
    )


def _unplaced(
    request: PlanRequest, calibration: Calibration | None, cluster: Cluster, batch: StepBatch
) -> NoPrediction | None:
    n, hosts, copies = cluster.accelerators, cluster.hosts, request.model_parallel
    if n % hosts:
        return NoPrediction(
            field="gpus",
            message=f"{n} do not divide evenly over {hosts} hosts",
            accepted="the same number on each host",
        )
    requested = next(iter(request.counts("model-parallel")), copies)
    if requested != copies:
        return NoPrediction(
            field="model-parallel",
            message=f"{requested} accelerators for one model were not measured, {copies} were",
            accepted=f"{copies}; only copies of the model are added",
        )
    if unheld := _unheld(calibration, copies):
        return unheld
    if n % copies:
        return NoPrediction(
            field="gpus",
            message=f"{n} is not a multiple of the {copies} accelerators that hold one model",
            accepted=f"multiples of {copies}",
        )
    micro_batch = batch.samples / max(1, batch.micro_batches)
    if micro_batch > request.largest_batch:
        return NoPrediction(
            field="batch",
            message=f"{micro_batch:,.12g} samples on one accelerator; at most "
            f"{request.largest_batch:,.12g} fit",
            accepted="a calibration with a smaller batch, or --batch keep-global",
        )
    return None


def _unheld(calibration: Calibration | None, copies: int) -> NoPrediction | None:
    """Return why a copy of the model on so many accelerators was not measured."""
    counts = {run.accelerators for run in timed(calibration.runs)} if calibration else set()
    least = min(counts, default=copies)
    if least % copies == 0:
        return None
    return NoPrediction(
        field="model-parallel",
        message=f"{count_noun(least, 'accelerator')} trained in the measurement, which is not a "
        f"multiple of the {copies} that hold one model",
        accepted=f"{_divisors(least)}; or a calibration whose runs have multiples of {copies}",
    )


def _divisors(count: int) -> str:
    return " or ".join(f"{divisor}" for divisor in range(1, count + 1) if count % divisor == 0)


def _unserved(
    job: PlannedJob, request: PlanRequest, calibration: Calibration | None
) -> NoPrediction | None:
    if calibration is None:
        return None
    strategy = calibration.training.strategy
    if job.server_count(request) and strategy not in _SERVED:
        of_file = job.servers.named if request.servers is None else ""
        return NoPrediction(
            field=of_file or "parameter-servers",
            message=f"the training exchanges by {strategy.value}, and has no parameter servers",
            accepted="--parameter-servers 0, or a calibration of a training with them",
        )
    if request.reducers and strategy not in _REDUCED:
        return NoPrediction(
            field="reducers",
            message=f"the training exchanges by {strategy.value}, which reducers do not serve",
            accepted="0, or a training that exchanges by allreduce",
        )
    return None
