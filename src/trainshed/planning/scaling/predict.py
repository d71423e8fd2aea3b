"""Predicts a job's step on a cluster with an interval and the bottleneck, or says why it cannot.

``reach`` gives the interval; docs/sources/planner.md 6 lists the refusals.
"""

import math

from trainshed.model.texts import count_noun
from trainshed.planning.scaling.calibration import Calibration, Run
from trainshed.planning.scaling.cluster import Cluster
from trainshed.planning.scaling.fitting import timed
from trainshed.planning.scaling.input_bound import FULL
from trainshed.planning.scaling.parameters import parameters
from trainshed.planning.scaling.posterior import Posterior
from trainshed.planning.scaling.posterior import posterior as posterior_of
from trainshed.planning.scaling.prediction import Binding, NoPrediction, Prediction
from trainshed.planning.scaling.rates import at_batch
from trainshed.planning.scaling.reach import factors
from trainshed.planning.scaling.step import Rates, StepParts
from trainshed.planning.scaling.training import StepBatch, Strategy, Training

#: Predictions above these multiples of the measured counts are marked; above the last, refused.
_FAR_ACCELERATORS, _FAR_HOSTS, _TOO_FAR = 8, 4, 64
#: The accelerators and hosts that count as measured in published jobs.
_PUBLISHED = (64, 8)
#: A step is compute-bound if all other parts together take less than this share.
_LOSS = 0.2
_MEASURE = "measure it: trainshed plan calibrate"
_MEASURED_BATCH = StepBatch()


def predict(
    calibration: Calibration,
    cluster: Cluster,
    *,
    batch: StepBatch = _MEASURED_BATCH,
    posterior: Posterior | None = None,
) -> Prediction | NoPrediction:
    """Predict the calibrated job on a cluster, or return why that is impossible.

    ``batch`` is by default the training's; callers with many clusters make ``posterior`` once.
    """
    refused = _refused(calibration, cluster)
    if refused:
        return refused
    posterior = posterior or posterior_of(calibration, parameters())
    training = at_batch(calibration.training, batch)
    samples = training.batch_per_accelerator
    base = smallest(calibration)
    base_s = posterior.step(base.cluster(calibration.host), base.batch)
    rate_of_one = base.samples_of(calibration.training) / base_s
    parts, rates = posterior.job.parts(cluster, posterior.values, batch)
    step = factors(posterior, calibration, cluster, batch).times(posterior.step(cluster, batch))
    efficiency = step.inverse(samples).times(1 / rate_of_one)
    return Prediction(
        cluster=cluster,
        batch_per_accelerator=samples,
        step_s=step,
        efficiency=efficiency,
        base_accelerators=base.accelerators,
        bound_by=_binding(parts, rates, calibration.training, training),
        parts_s=_terms(parts),
        extrapolated=extrapolated(calibration, cluster),
        warnings=_warnings(calibration, cluster, training),
        rate_factor=calibration.rate_factor,
    )


def smallest(calibration: Calibration) -> Run:
    """Return the run with the smallest measured count, the base of efficiencies."""
    return min(timed(calibration.runs), key=lambda run: (run.accelerators, run.hosts))


def extrapolated(calibration: Calibration, cluster: Cluster) -> bool:
    """Return whether a cluster is far larger than the measured ones."""
    accelerators, hosts = _largest(calibration)
    return (
        cluster.accelerators > _FAR_ACCELERATORS * accelerators
        or cluster.hosts > _FAR_HOSTS * hosts
    )


def _largest(calibration: Calibration) -> tuple[int, int]:
    if calibration.is_published:
        return _PUBLISHED
    runs = timed(calibration.runs)
    return max(run.accelerators for run in runs), max(run.hosts for run in runs)


def _refused(calibration: Calibration, cluster: Cluster) -> NoPrediction | None:
    if "compute_s" not in calibration.fitted.values or not timed(calibration.runs):
        return NoPrediction(
            field="calibration",
            message="no step of this training was timed on these hosts",
            accepted=_MEASURE,
        )
    return _unknown_exchange(calibration, cluster) or _too_far(calibration, cluster)


def _unknown_exchange(calibration: Calibration, cluster: Cluster) -> NoPrediction | None:
    """Refuse several hosts if the bytes that a step exchanges are unknown."""
    training = calibration.training
    if training.parameters or training.gradient_bytes or cluster.hosts == 1:
        return None
    if _largest(calibration)[1] > 1:
        return None
    return NoPrediction(
        field="gradient_bytes",
        message="the bytes that a step exchanges between hosts are unknown",
        accepted="a calibration with --params, or with runs on several hosts",
        samples_per_s=_bounds(calibration, cluster),
    )


def _too_far(calibration: Calibration, cluster: Cluster) -> NoPrediction | None:
    accelerators, hosts = _largest(calibration)
    for field, count, most in (
        ("gpus", cluster.accelerators, accelerators),
        ("hosts", cluster.hosts, hosts),
    ):
        if count > _TOO_FAR * most:
            return NoPrediction(
                field=field,
                message=f"{count} is over {_TOO_FAR} times the {most} that were measured",
                accepted=f"up to {_TOO_FAR * most}; or {_MEASURE}",
                samples_per_s=_bounds(calibration, cluster),
            )
    return None


def _bounds(calibration: Calibration, cluster: Cluster) -> tuple[float, float]:
    """Return 0, as links may be slow, and the samples/s with full gain over a measured count."""
    run = max(timed(calibration.runs), key=lambda run: run.accelerators)
    rate = run.rate_of(calibration.training)
    return 0.0, rate * cluster.accelerators / run.accelerators


def _terms(parts: StepParts) -> tuple[tuple[Binding, float], ...]:
    return (
        (Binding.COMPUTE, parts.compute),
        (Binding.SYNCHRONISATION, parts.sync),
        (Binding.FIXED, parts.fixed),
        (Binding.INSIDE, parts.inside),
        (Binding.NETWORK, parts.network),
        (Binding.INPUT, parts.input),
    )


def _binding(parts: StepParts, rates: Rates, measured: Training, training: Training) -> Binding:
    """Return the part whose removal would save most time; compute if none would save much."""
    step = parts.seconds(rates.overlap)
    if parts.input >= FULL * step:
        return Binding.INPUT
    ratio = training.batch_per_accelerator / measured.batch_per_accelerator
    fixed = rates.fixed_share * training.micro_batches / measured.micro_batches
    proportional = parts.compute * ratio * (1 + rates.fixed_share) / (ratio + fixed)
    exchange = parts.inside + parts.network
    bound = step - parts.without_exchange if exchange else 0.0
    lost = {
        Binding.SYNCHRONISATION: parts.sync,
        Binding.FIXED: parts.fixed,
        Binding.INSIDE: bound * parts.inside / exchange if exchange else 0.0,
        Binding.NETWORK: bound * parts.network / exchange if exchange else 0.0,
        Binding.BATCH: parts.compute - proportional,
    }
    largest = max(lost, key=lambda term: lost[term])
    return largest if sum(lost.values()) > _LOSS * step else Binding.COMPUTE


def _warnings(calibration: Calibration, cluster: Cluster, training: Training) -> tuple[str, ...]:
    warnings = []
    if calibration.training.data == "real" and "input_per_s" not in calibration.fitted.values:
        unit = "CPU replica" if cluster.host.trains_on_cpus else "accelerator"
        words = count_noun(math.ceil(cluster.per_host), unit)
        warnings.append(f"assumes that the host can feed {words}")
    if training.micro_batches > 1 and _exchanges_unmeasured(calibration, cluster):
        warnings.append(
            f"assumes one exchange for the {training.micro_batches} micro batches of a step, as "
            "with no_sync() of DistributedDataParallel"
        )
    if _whole_variable(calibration.training, cluster):
        megabytes = calibration.training.largest * _bytes_each(calibration.training) / 1e6
        warnings.append(f"one server holds the largest variable whole: {megabytes:.0f} MB a step")
    if cluster.host != calibration.host:
        warnings.append("links of unmeasured hosts are taken from their data sheet")
    if any(run.noisy for run in calibration.runs):
        warnings.append("the machine did other work while it was measured")
    return tuple(warnings)


def _exchanges_unmeasured(calibration: Calibration, cluster: Cluster) -> bool:
    """Whether gradients are summed over links that no timed run used."""
    is_summed = calibration.training.strategy in {
        Strategy.ALLREDUCE,
        Strategy.ALLREDUCE_CPU,
        Strategy.FSDP,
    }
    accelerators, hosts = _largest(calibration)
    is_new = cluster.hosts > hosts == 1 or cluster.accelerators > accelerators == 1
    return is_summed and is_new


def _whole_variable(training: Training, cluster: Cluster) -> bool:
    """Whether one variable loads its parameter server more than an even share would."""
    if training.strategy not in {Strategy.PS_NAIVE, Strategy.PS_DISTRIBUTED}:
        return False
    return training.largest * (cluster.servers or cluster.hosts) > training.parameters > 0


def _bytes_each(training: Training) -> float:
    """Return the bytes of one parameter's gradient."""
    return training.gradient_bytes / training.parameters if training.parameters else 4.0
