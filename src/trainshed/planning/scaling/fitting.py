"""From short runs to what is special about one job: seconds of compute, and multipliers of rates.

Few runs cannot fix seven unknowns, so each starts at its default with a width (a prior) that says
how far jobs were seen to lie from it (contracts/planner.md 3); what the runs do not tell stays
there.  A job measured only on eight accelerators is solved for its compute by the same step.
"""

import math
from collections.abc import Mapping, Sequence

from trainshed.planning.scaling.calibration import Calibration, Fitted, Run, RunKind
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.least_squares import Vector, least_squares
from trainshed.planning.scaling.parameters import Parameters, parameters
from trainshed.planning.scaling.rates import at_batch, compute_at, overlap_of, rates_of
from trainshed.planning.scaling.step import Rates, StepParts, parts_of
from trainshed.planning.scaling.training import Training

TIMED = frozenset({RunKind.COMPUTE, RunKind.HOST, RunKind.TWO_HOSTS, RunKind.JOB})
#: A run on a busy machine is that many times less sure.
_NOISY = 3.0


def calibrated(
    training: Training,
    host: HostKind,
    runs: Sequence[Run],
    *,
    known: Parameters | None = None,
) -> Calibration:
    """The calibration of a job from its short runs; without timed ones it holds no compute.

    ``known``: the defaults, where they are not those of the release.
    """
    fitted = _fitted(training, host, runs, known or parameters())
    return Calibration(training=training, host=host, runs=tuple(runs), fitted=fitted)


def timed(runs: Sequence[Run]) -> list[Run]:
    """The runs whose steps were timed with all that a job's have."""
    return [run for run in runs if run.kind in TIMED and run.step_s > 0]


def cluster_of(host: HostKind, run: Run) -> Cluster:
    """The hosts on which a run was made."""
    return Cluster(host=host, accelerators=run.accelerators, hosts=run.hosts)


def parts_at(
    known: Parameters,
    training: Training,
    cluster: Cluster,
    values: Mapping[str, float],
    batch: float,
) -> tuple[StepParts, Rates]:
    """The parts of a step at some batch, and the rates behind them."""
    rates = rates_of(known, training, cluster, values)
    compute = compute_at(values["compute_s"], training, batch, rates.fixed_share)
    return parts_of(at_batch(training, batch), cluster, rates, compute), rates


def _fitted(training: Training, host: HostKind, runs: Sequence[Run], known: Parameters) -> Fitted:
    measured = timed(runs)
    inputs = [run.samples_per_s for run in runs if run.kind is RunKind.INPUT]
    fixed = {"input_per_s": max(inputs)} if inputs else {}
    if not measured:
        return Fitted(values=fixed)
    names = _unknowns(measured, runs)
    first = min(measured, key=lambda run: run.accelerators)
    start = [math.log(first.step_s)] + [0.0] * (len(names) - 1)

    def values(at: Vector) -> dict[str, float]:
        return {**fixed, **_values(dict(zip(names, at, strict=True)), known, training, host)}

    def misses(at: Vector) -> Vector:
        found = values(at)
        return [
            *(_miss(run, known, training, host, found) for run in runs if run.step_s > 0),
            *_links(runs, known, training, host, found),
            *(at[i] / known.priors[name] for i, name in enumerate(names) if i),
        ]

    best = least_squares(misses, start)
    final = values(best.at)
    seen = [_miss(run, known, training, host, final) for run in measured]
    residual = math.sqrt(sum(one * one for one in seen) / len(seen)) * known.priors["noise"]
    return Fitted(values=final, residual=residual)


def _unknowns(measured: Sequence[Run], runs: Sequence[Run]) -> list[str]:
    """Only what some run can tell; the compute is first, and has no prior."""
    names = ["compute_s"]
    if any(run.accelerators > run.hosts for run in measured):
        names += ["inside", "sync"]
    if any(run.hosts > 1 for run in measured) or any(run.kind is RunKind.LINK for run in runs):
        names += ["network", "stragglers", "latency"]
    if len({run.batch_per_accelerator for run in measured}) > 1:
        names.append("fixed_share")
    if any(run.kind is RunKind.NO_EXCHANGE for run in runs):
        names.append("overlap")
    return names


def _values(
    at: Mapping[str, float], known: Parameters, training: Training, host: HostKind
) -> dict[str, float]:
    found = {"compute_s": math.exp(at["compute_s"])}
    for name in ("inside", "network", "sync"):
        if name in at:
            found[name] = math.exp(at[name])
    for name, default, short in (
        ("stragglers", known.defaults["stragglers"], "delta"),
        ("latency", known.defaults["latency_s"], "alpha_s"),
        ("fixed_share", known.defaults["fixed_share"], "mu"),
        ("overlap", overlap_of(known, training, host.network_bytes), "gamma"),
    ):
        if name in at:
            found[short] = default * math.exp(at[name])
    if "gamma" in found:
        found["gamma"] = min(6.0, max(1.0, found["gamma"]))
    return found


def _miss(
    run: Run, known: Parameters, training: Training, host: HostKind, values: Mapping[str, float]
) -> float:
    """How far a run's step is from the fit, in widths of the noise."""
    cluster = cluster_of(host, run)
    batch = run.batch_per_accelerator or training.batch_per_accelerator
    parts, rates = parts_at(known, training, cluster, values, batch)
    step = parts.compute + parts.sync
    if run.kind is not RunKind.NO_EXCHANGE:
        step = parts.seconds(rates.overlap)
    width = known.priors["noise"] * (_NOISY if run.noisy else 1.0)
    return math.log(run.step_s / step) / width


def _links(
    runs: Sequence[Run],
    known: Parameters,
    training: Training,
    host: HostKind,
    values: Mapping[str, float],
) -> Vector:
    """What the probes of the link say, each within a tenth of what the job gets."""
    found = []
    for run in runs:
        if run.kind is RunKind.LINK and run.link_bytes > 0:
            rates = rates_of(known, training, cluster_of(host, run), values)
            found.append(
                math.log(run.link_bytes / rates.network) / (0.1 * (_NOISY if run.noisy else 1))
            )
            if run.latency_s > 0:
                found.append(math.log(run.latency_s / rates.latency_s))
    return found
