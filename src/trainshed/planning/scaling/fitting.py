"""Fits short runs: the seconds of compute of one job, and multipliers of its rates.

Few runs cannot determine eight unknowns.  So each starts at its default with a width (a prior), the
spread measured among jobs (docs/sources/planner.md 3), and keeps this value unless the runs change
it. The remaining error is a drift that grows with the doublings inside a host and of hosts.  It is
extrapolated to larger clusters (``posterior``), so that near measured points these count more than
the equations.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trainshed.planning.scaling.calibration import Calibration, Fitted, Run, RunKind
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.input_bound import WAITS
from trainshed.planning.scaling.least_squares import (
    Matrix,
    Vector,
    forward,
    least_squares,
    triangle,
)
from trainshed.planning.scaling.parameters import Parameters, parameters
from trainshed.planning.scaling.rates import at_batch, compute_at, rates_of, usual_values
from trainshed.planning.scaling.step import INPUT_OVERLAP, Rates, StepParts, parts_of
from trainshed.planning.scaling.training import StepBatch, Training

TIMED = frozenset(
    {RunKind.COMPUTE, RunKind.HOST, RunKind.TWO_HOSTS, RunKind.JOB, RunKind.PUBLISHED}
)
#: The unknowns of a job; names as in ``calibration.Fitted``, and of their priors.
UNKNOWNS = {
    "compute_s": "compute_s",
    "inside": "inside",
    "network": "network",
    "sync": "sync",
    "delta": "stragglers",
    "gamma": "overlap",
    "alpha_s": "latency",
    "mu": "fixed_share",
    "phi": "fixed_part",
}
#: Standard deviations between the 10th and 90th percentile; the error of a median over that of a
#: mean.
_TENTHS, _MEDIAN = 2.56, 1.25
#: Measured counts are far apart if one is over so many times the other.
FAR = 8
#: The factor of seconds at half the efficiency.
_HALF = 2.0
#: The factor by which a run on a busy machine is less certain.
_NOISY = 3.0
#: The most by which other programs can have slowed a run, as a logarithm in standard deviations.
_SLOWED = 5.0
#: The uncertainty of a step's time without its wait, as a share.
_WAITED = 0.1
#: The uncertainty of a probed link's rate, and of its latency, in logarithms.
_PROBE, _PROBE_LATENCY = 0.1, 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMeasurement:
    """The logarithm of one measurement, and its uncertainty."""

    run: Run
    what: str
    """``step``; ``fed``: without input; ``alone``: without exchange; ``link``; ``latency``."""
    value: float
    noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTraining:
    """One training on one kind of host, with the defaults of the model."""

    constants: Parameters
    training: Training
    host: HostKind

    def parts(
        self, cluster: Cluster, values: Mapping[str, float], batch: StepBatch
    ) -> tuple[StepParts, Rates]:
        """Return the parts of a step with a batch, and the rates behind the parts."""
        rates = rates_of(self.constants, self.training, cluster, values)
        training = at_batch(self.training, batch)
        compute = compute_at(values["compute_s"], self.training, training, rates.fixed_share)
        return parts_of(training, cluster, rates, compute), rates

    def step(self, cluster: Cluster, values: Mapping[str, float], batch: StepBatch) -> float:
        """Return the seconds of a step."""
        parts, rates = self.parts(cluster, values, batch)
        return parts.seconds(rates.overlap)

    def expected(self, observation: LogMeasurement, values: Mapping[str, float]) -> float:
        """Return the logarithm that the values predict for a measurement."""
        run = observation.run
        parts, rates = self.parts(run.cluster(self.host), values, run.batch)
        match observation.what:
            case "link":
                return math.log(rates.network)
            case "latency":
                return math.log(rates.latency_s)
            case "alone":
                return math.log(parts.without_exchange)
            case "fed":
                return math.log(parts.without_input(rates.overlap))
            case _:
                return math.log(parts.seconds(rates.overlap))

    def usual(self, compute_s: float) -> dict[str, float]:
        """Return the default values, for a job of which only the compute is known."""
        return {"compute_s": compute_s, **usual_values(self.constants, self.training, self.host)}

    def widths(self) -> Vector:
        """Return the prior standard deviation of the logarithm of each unknown."""
        return [self.constants.priors[name] for name in UNKNOWNS.values()]


def calibrated(
    training: Training,
    host: HostKind,
    runs: Sequence[Run],
    *,
    constants: Parameters | None = None,
) -> Calibration:
    """Fit the calibration of a job to its short runs; without timed steps it has no compute time.

    ``constants`` replace the defaults of the release.
    """
    job = HostTraining(constants=constants or parameters(), training=training, host=host)
    fitted = _fitted(job, runs)
    return Calibration(training=training, host=host, runs=tuple(runs), fitted=fitted)


def timed(runs: Iterable[Run]) -> list[Run]:
    """Return the runs with timed steps, without those that left out input or exchange."""
    return [run for run in runs if run.kind in TIMED and run.step_s > 0]


def waits(run: Run) -> bool:
    """Whether a run's steps waited for input, so that it shows the input's rate."""
    return run.kind in TIMED and WAITS <= run.wait_share < 1


def measurements_of(runs: Iterable[Run], noise: float, cpus: int) -> list[LogMeasurement]:
    """Return the measurements of runs on a host with so many processors, 0 if unknown."""
    return [one for run in runs for one in _list_observations(run, _noise_of(run, noise, cpus))]


def _noise_of(run: Run, noise: float, cpus: int) -> float:
    """Return the uncertainty of a run: programs that used all processors have slowed it."""
    if not run.noisy:
        return noise
    slowed = math.log1p(run.load / cpus) / _SLOWED if cpus else 0.0
    return max(_NOISY * noise, slowed)


def spread_of(constants: Parameters, observations: Sequence[LogMeasurement]) -> Matrix:
    """Return the covariance of measurements, given the unknowns: noise and drift."""
    return [
        [drift(constants, a, b) + a.noise**2 * (i == j) for j, b in enumerate(observations)]
        for i, a in enumerate(observations)
    ]


def drift(constants: Parameters, a: LogMeasurement, b: LogMeasurement) -> float:
    """Return the covariance of two steps' drift; probes of a link have none."""
    if not a.what == b.what == "step":
        return 0.0
    return shared_drift(constants, a.run, b.run)


def shared_drift(constants: Parameters, a: Cluster | Run, b: Cluster | Run) -> float:
    """Return the covariance of the drift of two steps: each doubling that both have adds to it."""
    pairs = zip(doublings_of(a), doublings_of(b), strict=True)
    inside, hosts = (min(pair) for pair in pairs)
    priors = constants.priors
    return priors["drift_inside"] ** 2 * inside + priors["drift_hosts"] ** 2 * hosts


def doublings_of(counts: Cluster | Run) -> tuple[float, float]:
    """Return the doublings of accelerators inside a host, and of hosts."""
    return math.log2(max(1.0, counts.accelerators / counts.hosts)), math.log2(counts.hosts)


def _list_observations(run: Run, noise: float) -> list[LogMeasurement]:
    if run.kind is RunKind.LINK:
        return _list_link_observations(run, noise)
    if run.step_s <= 0 or run.kind is RunKind.INPUT:
        return []
    what = "alone" if run.kind is RunKind.NO_EXCHANGE else "step"
    sure, step_s = math.hypot(noise, _of_median(run)), run.step_s
    if waits(run):
        what, sure, step_s = "fed", math.hypot(sure, _WAITED), step_s * (1 - run.wait_share)
    return [LogMeasurement(run=run, what=what, value=math.log(step_s), noise=sure)]


def _of_median(run: Run) -> float:
    """Return the uncertainty of a median of steps, from their spread; 0 if it is unknown."""
    if not 0 < run.step_s_p10 <= run.step_s_p90 or not run.steps:
        return 0.0
    deviation = math.log(run.step_s_p90 / run.step_s_p10) / _TENTHS
    # the next steps differ, however many a job or an unsteady run had
    if run.kind in {RunKind.JOB, RunKind.PUBLISHED} or run.is_unsteady:
        return deviation
    return _MEDIAN * deviation / math.sqrt(run.steps)


def _list_link_observations(run: Run, noise: float) -> list[LogMeasurement]:
    observations = []
    if run.link_bytes > 0:
        value = math.log(run.link_bytes)
        observations.append(LogMeasurement(run=run, what="link", value=value, noise=noise + _PROBE))
    if run.latency_s > 0:
        value = math.log(run.latency_s)
        observations.append(
            LogMeasurement(run=run, what="latency", value=value, noise=_PROBE_LATENCY)
        )
    return observations


def _fitted(job: HostTraining, runs: Sequence[Run]) -> Fitted:
    inputs = [run.samples_per_s for run in runs if run.samples_per_s > 0]
    if not inputs and any(map(waits, timed(runs))):
        # the input can deliver what a run without a wait consumed
        inputs = [_delivered(job.training, run) for run in timed(runs)]
    fixed = {"input_per_s": max(inputs)} if inputs else {}
    measured = timed(runs)
    if not measured:
        return Fitted(values=fixed)
    observations = measurements_of(runs, job.constants.priors["noise"], job.host.cpus)
    usual = {**job.usual(_compute_guess(job, measured)), **fixed}
    if part := far_fixed_part(
        [(run.accelerators, run.step_s / run.samples_of(job.training)) for run in measured]
    ):
        usual["phi"] = part
    values = _fit_values(job, observations, usual)
    misses = [
        one.value - job.expected(one, values) for one in observations if one.what in {"step", "fed"}
    ]
    residual = math.sqrt(sum(miss * miss for miss in misses) / len(misses))
    return Fitted(values=values, residual=residual)


def far_fixed_part(measured: Iterable[tuple[int, float]]) -> float:
    """Return the share that a fixed part has by two counts far apart; 0 without such counts.

    ``measured`` has accelerators, and seconds of one of its samples on one of them.  A loss of more
    than half between far counts says nothing of where it begins: a fixed part of the job explains
    it without a count between them on which the job is slower.
    """
    counts = sorted(measured)
    lost = [
        (seconds / earlier_s - 1, earlier, accelerators)
        for (earlier, earlier_s), (accelerators, seconds) in pairwise(counts)
        if accelerators > FAR * earlier and seconds > _HALF * earlier_s
    ]
    if not lost:
        return 0.0
    loss, few, many = max(lost)
    return loss / max(1.0, many - few - loss * (few - 1))


def _delivered(training: Training, run: Run) -> float:
    """Return the samples/s of one host's input in a run: the maximum, if steps waited.

    The fed step and the input make the measured one (``step.smooth_maximum``).
    """
    fed = 1 - run.wait_share if waits(run) else 0.0
    input_s = run.step_s * math.pow(1 - math.pow(fed, INPUT_OVERLAP), 1 / INPUT_OVERLAP)
    return run.samples_of(training) * run.accelerators / run.hosts / input_s


def _compute_guess(job: HostTraining, measured: Sequence[Run]) -> float:
    """Return the step of the smallest cluster at the training's batch, all as compute."""
    first = min(measured, key=lambda run: (run.accelerators, run.hosts))
    step_s = first.step_s * (1 - first.wait_share) if waits(first) else first.step_s
    return step_s * job.training.batch_per_accelerator / first.samples_of(job.training)


def _fit_values(
    job: HostTraining, observations: Sequence[LogMeasurement], usual: Mapping[str, float]
) -> dict[str, float]:
    lower = triangle(spread_of(job.constants, observations))
    widths = job.widths()

    def values_at(at: Vector) -> dict[str, float]:
        pairs = zip(UNKNOWNS, at, strict=True)
        return {**usual, **{name: usual[name] * math.exp(more) for name, more in pairs}}

    def misses(at: Vector) -> Vector:
        values = values_at(at)
        missed = [one.value - job.expected(one, values) for one in observations]
        priors = [more / width for more, width in zip(at, widths, strict=True)]
        return [*forward(lower, missed), *priors]

    return values_at(least_squares(misses, [0.0] * len(UNKNOWNS)))
